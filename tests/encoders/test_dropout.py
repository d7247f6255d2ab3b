from __future__ import annotations

import pytest
import torch

from ratiorec.encoders.encoder import dropout
from ratiorec.encoders.settings import ENMF, NGCF, MultVAE
from ratiorec.errors import ConfigError

ONES = torch.ones(300, 200)


def source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_without_a_share_nothing_is_changed_and_no_noise_is_drawn() -> None:
    noise = source(0)
    before = noise.get_state()
    assert dropout(ONES, 0.0, noise=noise) is ONES
    assert torch.equal(noise.get_state(), before)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_what_is_kept_grows_so_that_the_mean_stays(share: float) -> None:
    left = dropout(ONES, share, noise=source(1))
    kept = left != 0
    torch.testing.assert_close(left[kept], torch.full_like(left[kept], 1 / (1 - share)))
    # five standard deviations of a mean over n draws of which a share is dropped
    std = (share / (1 - share) / ONES.numel()) ** 0.5
    assert float(left.mean()) == pytest.approx(1, abs=5 * std)


def test_a_seed_decides_what_is_dropped() -> None:
    results = [dropout(ONES, 0.3, noise=source(seed)) for seed in (1, 1, 2)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_single_and_double_precision_drop_the_same() -> None:
    single, double = (dropout(ones, 0.3, noise=source(1)) for ones in (ONES, ONES.double()))
    assert double.dtype == torch.float64
    assert torch.equal(single != 0, double != 0)


def test_without_a_source_the_noise_is_torchs_own() -> None:
    results = []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(dropout(ONES, 0.3, noise=None))
    assert torch.equal(*results)


def test_only_what_is_kept_has_a_derivative() -> None:
    values = torch.full((50, 40), 3.0, requires_grad=True)
    left = dropout(values, 0.4, noise=source(0))
    (gradient,) = torch.autograd.grad(left.sum(), values)
    torch.testing.assert_close(gradient, left.detach() / 3)


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize("part", [NGCF, ENMF, MultVAE])
def test_a_share_that_keeps_nothing_or_is_none_is_refused(part: type, share: float) -> None:
    with pytest.raises(ConfigError, match=r"where: encoder\.dropout"):
        part(dropout=share)
    assert part(dropout=0.0).dropout == 0


def test_the_largest_share_is_just_below_one() -> None:
    assert NGCF(dropout=0.999).dropout == 0.999
