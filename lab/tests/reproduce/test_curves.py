from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_support.fake_cells import curve
from ratiorec_lab.reproduce.curves import (
    convergence,
    machine_of,
    seconds_per_step,
    seconds_to_converge,
    validations,
    was_cut,
)


def test_a_run_has_converged_at_its_first_validation_with_99_percent_of_its_best() -> None:
    record = {"curve": curve([0.1, None, 0.1979, None, 0.1981, 0.2, 0.15])}
    found = convergence(record)
    assert found is not None
    assert (found.step, found.best, found.is_rising) == (5 * 10, 0.2, False)


@given(
    st.lists(st.none() | st.floats(0.001, 1), min_size=1, max_size=20).filter(
        lambda values: any(v is not None for v in values)
    )
)
def test_nothing_before_convergence_is_good_enough(values: list[float | None]) -> None:
    record = {"curve": curve(values)}
    found = convergence(record)
    assert found is not None
    judged = {one.step: one.metrics["ndcg@20"] for one in validations(record)}
    assert found.best == max(judged.values())
    assert judged[found.step] >= 0.99 * found.best
    assert all(v < 0.99 * found.best for step, v in judged.items() if step < found.step)
    first_best = min(step for step, v in judged.items() if v == found.best)
    assert found.is_rising == (first_best == max(judged))


def test_a_run_whose_patience_ended_rises_no_more() -> None:
    found = convergence({"curve": curve([0.1999, 0.2]), "stopped_by": "no gain"})
    assert found is not None
    assert not found.is_rising


def test_without_validations_nothing_is_known_of_convergence() -> None:
    assert convergence({"curve": curve([None, None])}) is None
    assert seconds_to_converge({"curve": curve([None, None])}) is None


@pytest.mark.parametrize("values", [[None] * 4, [None, 0.1, None, 0.2, None, None]])
def test_the_time_of_a_step_has_neither_validation_nor_set_up_in_it(
    values: list[float | None],
) -> None:
    assert seconds_per_step({"curve": curve(values, step_seconds=0.25)}) == pytest.approx(0.25)


def test_where_every_epoch_is_validated_a_step_cannot_be_timed_alone() -> None:
    assert seconds_per_step({"curve": curve([0.1, 0.2, 0.3])}) is None


def test_the_refit_tells_the_time_of_a_step_too() -> None:
    search = curve([0.1, 0.2])
    refit = [
        entry | {"phase": "refit", "seconds": entry["seconds"] + 50} for entry in curve([None] * 3)
    ]
    assert seconds_per_step({"curve": search + refit}) == pytest.approx(0.5)


def test_the_time_to_converge_is_that_of_so_many_steps() -> None:
    record = {"curve": curve([None, 0.1, None, 0.2, None, 0.2], step_seconds=0.5)}
    assert seconds_to_converge(record) == pytest.approx(40 * 0.5)


@pytest.mark.parametrize(
    ("budget", "stopped_by", "seconds", "cut"),
    [
        (None, "no gain", 500.0, False),
        (60.0, "no gain", 50.0, False),
        (60.0, "time budget", 50.0, True),
        (60.0, "no gain", 60.5, True),  # the refit was cut
        (60.0, None, 60.0, True),  # nothing was validated
    ],
)
def test_a_run_that_its_budget_ended_is_known(
    budget: float | None, stopped_by: str | None, seconds: float, cut: bool
) -> None:
    record = {"max_seconds": budget, "stopped_by": stopped_by, "seconds": {"train": seconds}}
    assert was_cut(record) is cut


def test_the_machine_is_the_card_or_else_the_processor() -> None:
    processor = {"cores": 2, "processor": "P", "device": "cpu"}
    assert machine_of({"machine": processor}) == "2 cores, P"
    assert machine_of({"machine": processor | {"accelerator": "Card"}}) == "Card"
