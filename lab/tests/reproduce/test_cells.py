from __future__ import annotations

import math

from ratiorec_lab.reproduce.cells import Cell, cell_of, command_of
from ratiorec_lab.reproduce.names import SMALL
from ratiorec_lab.reproduce.protocols import PAPER, VALIDATED

BOUND, PENALTY = "risk.upper_bound", "training.penalty"


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
    changed = cell(changes={PENALTY: 0.02, BOUND: 30}, on_validation=True)
    assert changed.name == "dregn-cf+risk.upper_bound=30+training.penalty=0.02+validation"
    assert changed.settings.training.penalty == 0.02  # type: ignore[union-attr]
    assert changed.settings.risk.upper_bound == 30  # type: ignore[union-attr]
    assert changed.path == f"validated/gowalla/{changed.name}-seed1"


def test_a_change_to_what_is_there_already_is_none() -> None:
    assert cell(changes={BOUND: 70}) == cell()
    assert cell(changes={BOUND: 80}, protocol=PAPER) != cell(protocol=PAPER)
    assert cell("amazon-book", changes={BOUND: 80}, protocol=PAPER).changes == ()


def test_the_order_of_changes_does_not_matter() -> None:
    one, other = {PENALTY: 0.02, BOUND: 30}, {BOUND: 30, PENALTY: 0.02}
    assert cell(changes=one) == cell(changes=other)
    assert len({cell(changes=one), cell(changes=other)}) == 1


def test_the_two_protocols_never_share_a_cell() -> None:
    assert cell() != cell(protocol=PAPER)
    assert cell().path != cell(protocol=PAPER).path


def test_a_protocol_without_settings_has_no_cell() -> None:
    assert cell_of("ease", "gowalla", protocol=PAPER, seed=0) is None


def test_the_command_names_the_cell_and_no_place_on_this_machine() -> None:
    changed = cell(changes={PENALTY: 0.02}, on_validation=True)
    assert command_of(changed, max_seconds=90) == (
        "ratiorec reproduce all --protocol validated --datasets gowalla --seeds 1 "
        "--only dregn-cf+training.penalty=0.02+validation --max-seconds 90"
    )
    assert command_of(cell(SMALL), max_seconds=math.inf) == (
        "ratiorec reproduce all --protocol validated --quick --seeds 1 --only dregn-cf"
    )
