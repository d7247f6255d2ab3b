from __future__ import annotations

import math
from pathlib import Path

import pytest
from ratiorec_lab.reproduce.names import PAPER_DATASETS, SMALL
from ratiorec_lab.reproduce.protocols import (
    FIXED,
    PAPER,
    PRESETS_OF_THE_PAPER,
    VALIDATED,
    require_protocol,
    settings_of,
)
from ratiorec_lab.reproduce.published import EFFICIENCY, STATISTICS

from ratiorec.config import resolve
from ratiorec.errors import ConfigError
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.presets import PRESETS, preset
from ratiorec.settings import Settings, TwoStageSettings

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def fixed(name: str, dataset: str = "gowalla", *, on_validation: bool = False) -> Settings:
    found = settings_of(name, dataset, protocol=PAPER, on_validation=on_validation)
    assert isinstance(found, Settings)
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_validated_takes_every_setting_of_the_preset(name: str) -> None:
    for on_validation in (False, True):
        found = settings_of(name, "gowalla", protocol=VALIDATED, on_validation=on_validation)
        assert found == preset(name)


@pytest.mark.parametrize("dataset", PAPER_DATASETS)
def test_the_paper_takes_its_number_of_steps_in_whole_epochs(dataset: str) -> None:
    settings = FIXED[dataset]
    n_steps = settings.epochs * math.ceil(STATISTICS[dataset].n_users / settings.n_users)
    printed = EFFICIENCY["dregn-cf"][dataset].steps
    assert printed is not None
    assert abs(n_steps - printed) <= 0.01 * printed


def test_the_paper_fixes_batch_bound_penalty_rate_and_epochs() -> None:
    settings = fixed("dregn-cf")
    assert (settings.batches.n_users, settings.batches.min_steps_per_epoch) == (9500, 1)  # type: ignore[union-attr]
    assert (settings.training.epochs, settings.training.penalty) == (60, 0.06)
    assert settings.training.learning_rate == 0.02
    assert isinstance(settings.risk, DensityRatio)
    assert fixed("dregn-cf", "amazon-book").risk.upper_bound == 80  # type: ignore[union-attr]


def test_a_row_without_bound_keeps_having_none_under_the_paper() -> None:
    assert fixed("dregn-cf-no-nn").risk.upper_bound == math.inf  # type: ignore[union-attr]
    assert fixed("dregn-cf-no-nn").training == fixed("dregn-cf").training
    assert fixed("dre").training == fixed("dregn-cf").training


def test_pu_keeps_its_small_penalty_under_the_paper() -> None:
    assert fixed("pu").training.penalty == preset("pu").training.penalty  # type: ignore[union-attr]
    assert fixed("pu").training.epochs == 60


def test_the_first_model_of_static_weights_is_trained_to_its_end_under_the_paper() -> None:
    static = settings_of("dregn-cf-static", "yelp2018", protocol=PAPER, on_validation=False)
    assert isinstance(static, TwoStageSettings)
    assert static.first.training.epochs == static.second.training.epochs == 160
    assert static.second == fixed("dregn-cf", "yelp2018")


def test_lightgcn_has_its_authors_settings_under_the_paper() -> None:
    file = resolve(preset("lightgcn"), file=EXPERIMENTS / "lightgcn-published.toml")
    assert fixed("lightgcn") == file


def test_what_the_paper_tells_nothing_of_has_no_settings_under_it() -> None:
    for name in set(PRESETS) - set(PRESETS_OF_THE_PAPER):
        assert settings_of(name, "gowalla", protocol=PAPER, on_validation=False) is None
    for name in PRESETS_OF_THE_PAPER:
        assert settings_of(name, "amazon-cds", protocol=PAPER, on_validation=False) is None


@pytest.mark.parametrize("name", PRESETS_OF_THE_PAPER)
def test_under_the_paper_a_run_on_validation_pairs_never_stops_early(name: str) -> None:
    for dataset in ("gowalla", SMALL):
        found = settings_of(name, dataset, protocol=PAPER, on_validation=True)
        assert found is not None
        assert found.stopping.patience >= found.stopping.epochs  # type: ignore[union-attr]


@pytest.mark.parametrize("name", PRESETS)
def test_a_quick_run_keeps_penalty_bound_and_rate(name: str) -> None:
    quick = settings_of(name, SMALL, protocol=VALIDATED, on_validation=False)
    whole = preset(name)
    assert type(quick) is type(whole)
    if isinstance(quick, Settings):
        assert isinstance(whole, Settings)
        assert quick.training.epochs < whole.training.epochs
        assert quick.training.penalty == whole.training.penalty
        assert quick.training.learning_rate == whole.training.learning_rate
        assert quick.risk == whole.risk


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="wanted: one of validated, paper"):
        require_protocol("mixed")
