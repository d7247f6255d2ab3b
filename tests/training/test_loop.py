from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from ratiorec.batches.users import Batch
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Encoder, half_squared_norms
from ratiorec.encoders.settings import Factorisation, LightGCN
from ratiorec.errors import ConfigError, DivergenceError
from ratiorec.kernels import blocks as sparse_rows
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.pointwise import KULLBACK_LEIBLER
from ratiorec.losses import Loss
from ratiorec.losses.density_ratio import DensityRatio, UniformWeights
from ratiorec.settings import Settings, Training, UserBatches
from ratiorec.shapes import Embeddings
from ratiorec.training.loop import GradientTraining
from support.small_data import checkerboard, random_interactions

NEVER = 10**9
SMALL = random_interactions(np.random.default_rng(0), n_users=23, n_items=31, n_pairs=120)


def start(
    data: Interactions = SMALL,
    *,
    encoder: Callable[..., Encoder] = LightGCN(5, n_layers=2),  # noqa: B008 - frozen
    risk: DensityRatio = DensityRatio(),  # noqa: B008 - frozen
    n_users: int = 5,
    settings: Training = Training(),  # noqa: B008 - frozen
    seed: int = 0,
) -> GradientTraining:
    return GradientTraining.start(
        data,
        Settings(encoder, risk, UserBatches(n_users), settings),
        rng=np.random.default_rng(seed),
        device=torch.device("cpu"),
    )


def steps(run: GradientTraining) -> Iterator[float]:
    while True:
        for risks in run.one_epoch(NEVER):
            yield from risks


def take(run: GradientTraining, n_steps: int) -> list[float]:
    return list(itertools.islice(steps(run), n_steps))


def finish(run: GradientTraining, n_epochs: int) -> GradientTraining:
    while run.epoch < n_epochs:
        for _ in run.one_epoch(NEVER):
            pass
    return run


def assert_equal_bits(first: GradientTraining, second: GradientTraining) -> None:
    """Parameters, optimiser and position."""
    (tensors, position), (other_tensors, other_position) = first.state(), second.state()
    assert tensors.keys() == other_tensors.keys()
    for name, tensor in tensors.items():
        assert np.array_equal(tensor, other_tensors[name]), name
    assert position == other_position


@pytest.fixture
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of rows so small that a graph of hundreds of nodes has several."""
    n_threads = torch.get_num_threads()
    monkeypatch.setattr(sparse_rows, "ENTRIES_PER_BLOCK", 501)
    yield
    torch.set_num_threads(n_threads)


@pytest.mark.usefixtures("_many_blocks")
@pytest.mark.parametrize("encoder", [LightGCN(13), Factorisation(13)], ids=["lightgcn", "mf"])
def test_training_has_the_same_bits_for_any_number_of_threads(
    encoder: Callable[..., Encoder],
) -> None:
    # no size is a multiple of 16; a batch fills two tiles of users and two of candidates
    rng = np.random.default_rng(5)
    data = random_interactions(rng, n_users=311, n_items=1301, n_pairs=9001)

    def trained(n_threads: int) -> GradientTraining:
        torch.set_num_threads(n_threads)
        with deterministic_threads():
            run = start(data, encoder=encoder, n_users=160)
            assert len(next(run.epochs(np.random.default_rng(0))).candidates) > 1024
            take(run, 4)
        return run

    one = trained(1)
    for n_threads in (2, 3, 5):
        assert_equal_bits(trained(n_threads), one)


def test_the_same_seed_trains_the_same_model() -> None:
    first, second, third = (finish(start(seed=seed), 2) for seed in (3, 3, 4))
    assert_equal_bits(first, second)
    assert not torch.equal(first.encoder.table, third.encoder.table)


@pytest.fixture(scope="module")
def uninterrupted() -> GradientTraining:
    """Two epochs of five steps in one go."""
    run = finish(start(), 2)
    assert run.step == 2 * 5
    return run


@pytest.mark.parametrize("n_steps", range(11))
def test_a_run_restored_after_any_step_goes_on_with_equal_bits(
    n_steps: int, uninterrupted: GradientTraining
) -> None:
    interrupted = start()
    take(interrupted, n_steps)
    tensors, position = interrupted.state()
    restored = start(seed=99)
    restored.restore(tensors, json.loads(json.dumps(position)))
    assert restored.step == n_steps
    assert_equal_bits(finish(restored, 2), uninterrupted)


def test_a_restored_run_reports_the_risks_that_were_still_to_come() -> None:
    expected = take(start(), 13)
    interrupted = start()
    take(interrupted, 7)
    restored = start(seed=99)
    restored.restore(*interrupted.state())
    assert take(restored, 6) == expected[7:]


def test_leaving_an_epoch_and_coming_back_changes_nothing() -> None:
    left = start()
    for _ in range(12):
        next(steps(left))
    there = start()
    take(there, 12)
    assert_equal_bits(finish(left, 3), finish(there, 3))


def test_the_state_does_not_change_when_training_goes_on() -> None:
    run = start()
    take(run, 3)
    tensors, position = run.state()
    before = {name: tensor.copy() for name, tensor in tensors.items()}, json.dumps(position)
    take(run, 4)
    assert json.dumps(position) == before[1]
    for name, tensor in tensors.items():
        assert np.array_equal(tensor, before[0][name]), name


def test_a_restored_run_leaves_the_state_it_came_from_alone() -> None:
    run = start()
    take(run, 3)
    tensors, position = run.state()
    tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    before = {name: tensor.copy() for name, tensor in tensors.items()}
    restored = start()
    restored.restore(tensors, position)
    take(restored, 3)
    for name, tensor in tensors.items():
        assert np.array_equal(tensor, before[name]), name


@pytest.mark.parametrize("encoder", [LightGCN(5), Factorisation(5)], ids=["lightgcn", "mf"])
def test_a_scorer_does_not_change_when_training_goes_on(encoder: Callable[..., Encoder]) -> None:
    run = start(encoder=encoder)
    take(run, 3)
    scorer = run.scorer()
    before = scorer.users.copy(), scorer.items.copy()
    take(run, 3)
    assert np.array_equal(scorer.users, before[0])
    assert np.array_equal(scorer.items, before[1])
    assert not np.array_equal(run.scorer().users, before[0])


def test_steps_are_counted_over_epochs() -> None:
    run = start()
    take(run, 7)
    assert (run.epoch, run.step_in_epoch, run.step) == (1, 2, 7)
    finish(run, 2)
    assert (run.epoch, run.step_in_epoch, run.step) == (2, 0, 10)


def test_a_step_is_one_of_adam_on_the_risk_plus_the_penalty() -> None:
    run = start(settings=Training(learning_rate=0.02, l2=0.3))
    free = run.encoder.table.detach().clone()
    batch = next(run.epochs(np.random.default_rng(0)))
    run.epochs = OneBatch(batch)  # type: ignore[assignment]
    (value,) = take(run, 1)
    stepped = run.encoder.table.detach().clone()

    run.encoder.load_state_dict({"table": free})
    risk = run.loss(run.encoder(batch), batch)
    penalised = risk + 0.3 * half_squared_norms(run.encoder.table, run.encoder.n_users, batch)
    (gradient,) = torch.autograd.grad(penalised, run.encoder.table)
    assert value == risk.item()
    # Adam's first step is the learning rate times the sign, but for its 1e-8
    expected = free - 0.02 * gradient / (gradient.abs() + 1e-8)
    torch.testing.assert_close(stepped, expected, rtol=0, atol=1e-6)


class OneBatch:
    """An epoch that is always the same single batch."""

    n_steps = 1
    same_shape = True

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __call__(self, rng: np.random.Generator) -> Iterator[Batch]:
        yield self.batch

    def complete(self, dealt: Batch) -> Batch:
        return dealt


def test_a_learning_rate_that_is_far_too_high_stops_with_the_step() -> None:
    run = start(settings=Training(learning_rate=1e6))
    with pytest.raises(DivergenceError, match="training diverged") as caught:
        take(run, 50)
    assert caught.value.where == f"step {run.step} (epoch {(run.step - 1) // run.n_steps + 1})"
    assert caught.value.found in ("a risk of inf", "a risk of nan", "a risk of -inf")


def test_a_number_that_is_not_finite_stops_the_next_step() -> None:
    run = start()
    take(run, 7)
    with torch.no_grad():
        run.encoder.table[0, 0] = math.inf
        run.encoder.table[23:, 0] = math.inf
    with pytest.raises(DivergenceError, match=r"step 8 \(epoch 2\)"):
        take(run, 5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("encoder", [LightGCN(5), Factorisation(5)], ids=["lightgcn", "mf"])
@pytest.mark.parametrize("row", [0, 53], ids=["user", "item"])
def test_a_model_that_is_not_finite_is_refused(
    row: int, encoder: Callable[..., Encoder], bad: float
) -> None:
    run = start(encoder=encoder)
    take(run, 3)
    with torch.no_grad():
        run.encoder.table[row, 2] = bad
    with pytest.raises(DivergenceError, match="the model after step 3"):
        run.scorer()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", -0.1),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("l2", -1e-9),
        ("l2", math.nan),
        ("l2", math.inf),
        ("epochs", 0),
        ("validate_every_epochs", 0),
        ("min_steps_between_validations", 0),
        ("patience", 0),
        ("min_relative_gain", -0.1),
        ("min_relative_gain", math.nan),
        ("extra_patience_fraction", -0.1),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"training\.{name}"):
        Training(**{name: value})  # type: ignore[arg-type]


def test_no_penalty_is_allowed() -> None:
    assert Training(l2=0).l2 == 0


@pytest.mark.parametrize(("steps_per_epoch", "interval"), [(1, 50), (7, 8), (10, 5), (100, 5)])
def test_short_epochs_are_validated_less_often(steps_per_epoch: int, interval: int) -> None:
    settings = Training(validate_every_epochs=5, min_steps_between_validations=50)
    assert settings.validation_interval(steps_per_epoch) == interval


@pytest.mark.parametrize("encoder", [LightGCN(8), Factorisation(8)], ids=["lightgcn", "mf"])
@pytest.mark.parametrize(
    "risk",
    [
        DensityRatio(),
        DensityRatio(KULLBACK_LEIBLER, weights=UniformWeights(), candidate_correction="none"),
    ],
    ids=["ranking-ulsif", "kullback-leibler"],
)
def test_the_other_squares_of_a_checkerboard_are_ranked_below_the_held_out_ones(
    encoder: Callable[..., Encoder], risk: DensityRatio
) -> None:
    board = checkerboard(20, 24)
    # of each user's twelve items, one is held out
    held_out = board.indices == (board.pair_users * 5) % 24
    assert held_out.sum() == 20
    run = start(
        board.select(~held_out),
        encoder=encoder,
        risk=risk,
        n_users=10,
        settings=Training(learning_rate=0.02, l2=0.01),
    )
    risks = take(run, 120)
    assert np.mean(risks[-10:]) < np.mean(risks[:10]) - 0.1
    scores = run.scorer().scores(np.arange(20))
    colour = np.add.outer(np.arange(20), np.arange(24)) % 2
    unlike = np.where(colour == 1, scores, -np.inf).max(axis=1)
    found = scores[board.pair_users[held_out], board.indices[held_out]]
    assert (found > unlike).all()


def test_a_loss_that_is_not_a_number_is_refused_by_name() -> None:
    @dataclass(frozen=True)
    class PerUser(Loss):
        """Forgets the mean."""

        name: ClassVar[str] = "per-user"

        def __call__(self, embeddings: Embeddings, batch: Batch) -> Tensor:
            return embeddings.users.sum(1)

    with pytest.raises(ConfigError, match=r"risk per-user; found: a tensor of shape \(5,\)"):
        take(start(risk=PerUser()), 1)  # type: ignore[arg-type]
