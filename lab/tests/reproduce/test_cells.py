from __future__ import annotations

import math
from pathlib import Path

import pytest

from ratiorec.config import named_settings, preset
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.presets import PRESETS
from ratiorec.settings import Settings, TwoStageSettings
from ratiorec_lab.reproduce.cells import (
    BOUND,
    FIXED,
    L2,
    PAPER,
    PRESETS_OF_THE_PAPER,
    VALIDATED,
    Cell,
    cell_of,
    command_of,
    settings_of,
)
from ratiorec_lab.reproduce.published import EFFICIENCY, PAPER_DATASETS, SMALL, STATISTICS

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def cell(
    dataset: str = "gowalla",
    *,
    protocol: str = VALIDATED,
    changes: dict[str, float] | None = None,
    on_validation: bool = False,
) -> Cell:
    found = cell_of(
        "dregn-cf",
        dataset,
        protocol=protocol,
        seed=1,
        changes=changes,
        on_validation=on_validation,
    )
    assert found is not None
    return found


def test_a_name_tells_what_differs_from_the_preset() -> None:
    changed = cell(changes={L2: 0.02, BOUND: 30}, on_validation=True)
    assert changed.name == "dregn-cf+risk.upper_bound=30+training.l2=0.02+validation"
    assert changed.settings.training.l2 == 0.02  # type: ignore[union-attr]
    assert changed.settings.risk.upper_bound == 30  # type: ignore[union-attr]
    assert changed.path == f"validated/gowalla/{changed.name}-seed1"


def test_a_change_to_what_is_there_already_is_none() -> None:
    assert cell(changes={BOUND: 70}) == cell()
    assert cell(changes={BOUND: 80}, protocol=PAPER) != cell(protocol=PAPER)
    assert cell("amazon-book", changes={BOUND: 80}, protocol=PAPER).changes == ()


def test_changes_stand_in_the_order_of_their_names() -> None:
    changed = cell(changes={"training.learning_rate": 0.02, L2: 0.02, BOUND: 30})
    assert (
        changed.name == "dregn-cf+risk.upper_bound=30+training.l2=0.02+training.learning_rate=0.02"
    )


def test_the_order_of_changes_does_not_matter() -> None:
    one, other = {L2: 0.02, BOUND: 30}, {BOUND: 30, L2: 0.02}
    assert cell(changes=one) == cell(changes=other)
    assert len({cell(changes=one), cell(changes=other)}) == 1


def test_the_two_protocols_never_share_a_cell() -> None:
    assert cell() != cell(protocol=PAPER)
    assert cell().path != cell(protocol=PAPER).path


def test_a_protocol_without_settings_has_no_cell() -> None:
    assert cell_of("ease", "gowalla", protocol=PAPER, seed=0) is None


def test_the_command_names_the_cell_and_no_place_on_this_machine() -> None:
    changed = cell(changes={L2: 0.02}, on_validation=True)
    assert command_of(changed, max_seconds=90) == (
        "ratiorec reproduce all --protocol validated --datasets gowalla --seeds 1 "
        "--only dregn-cf+training.l2=0.02+validation --max-seconds 90"
    )
    assert command_of(cell(SMALL), max_seconds=math.inf) == (
        "ratiorec reproduce all --protocol validated --quick --seeds 1 --only dregn-cf"
    )


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
    printed = EFFICIENCY["dregn-cf", dataset].steps
    assert printed is not None
    assert abs(n_steps - printed) <= 0.01 * printed


def test_the_paper_fixes_batch_bound_l2_rate_and_epochs() -> None:
    settings = fixed("dregn-cf")
    assert (settings.batches.n_users, settings.batches.min_steps_per_epoch) == (9500, 1)  # type: ignore[union-attr]
    assert (settings.training.epochs, settings.training.l2) == (60, 0.06)
    assert settings.training.learning_rate == 0.02
    assert isinstance(settings.risk, DensityRatio)
    assert fixed("dregn-cf", "amazon-book").risk.upper_bound == 80  # type: ignore[union-attr]


def test_a_row_without_bound_keeps_having_none_under_the_paper() -> None:
    assert fixed("dregn-cf-no-nn").risk.upper_bound == math.inf  # type: ignore[union-attr]
    assert fixed("dregn-cf-no-nn").training == fixed("dregn-cf").training
    assert fixed("dre").training == fixed("dregn-cf").training


def test_pu_keeps_its_small_l2_under_the_paper() -> None:
    assert fixed("pu").training.l2 == preset("pu").training.l2  # type: ignore[union-attr]
    assert fixed("pu").training.epochs == 60


def test_the_first_model_of_static_weights_is_trained_to_its_end_under_the_paper() -> None:
    static = settings_of("dregn-cf-static", "yelp2018", protocol=PAPER, on_validation=False)
    assert isinstance(static, TwoStageSettings)
    assert static.first.training.epochs == static.second.training.epochs == 160
    assert static.second == fixed("dregn-cf", "yelp2018")


def test_lightgcn_has_its_authors_settings_under_the_paper() -> None:
    _, file = named_settings("lightgcn", file=EXPERIMENTS / "lightgcn-published.toml")
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
def test_a_quick_run_keeps_l2_bound_and_rate(name: str) -> None:
    quick = settings_of(name, SMALL, protocol=VALIDATED, on_validation=False)
    whole = preset(name)
    assert type(quick) is type(whole)
    if isinstance(quick, Settings):
        assert isinstance(whole, Settings)
        assert quick.training.epochs < whole.training.epochs
        assert quick.training.l2 == whole.training.l2
        assert quick.training.learning_rate == whole.training.learning_rate
        assert quick.risk == whole.risk
