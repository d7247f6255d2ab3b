from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_support.fake_cells import SHA256, curve, know, record_of
from ratiorec.data.interactions import Dataset
from ratiorec.training.checkpoint import FILE
from ratiorec_lab.reproduce.cells import Cell, cell_of, small_dataset
from ratiorec_lab.reproduce.records import (
    CellFiles,
    convergence,
    machine_of,
    misfit,
    seconds_per_step,
    seconds_to_converge,
    statistics_of,
    validations,
    was_cut,
)


def cell(seed: int = 0, **changes: float) -> Cell:
    dotted = {name.replace("__", "."): value for name, value in changes.items()}
    found = cell_of("dregn-cf", "gowalla", protocol="validated", seed=seed, changes=dotted)
    assert found is not None
    return found


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    return CellFiles(tmp_path)


def test_a_record_is_read_as_it_was_written(files: CellFiles) -> None:
    record = record_of(cell())
    files.write(cell(), record)
    assert files.record(cell()) == files.finished(cell()) == record
    assert files.record(cell(seed=1)) is None


def test_a_record_is_plain_json_with_a_line_for_each_epoch(files: CellFiles) -> None:
    record = record_of(cell())
    files.write(cell(), record)
    path = files.folder / "cells" / "validated" / "gowalla" / "dregn-cf-seed0.json"
    text = path.read_text()
    assert json.loads(text) == record
    assert list(json.loads(text)) == list(record)
    assert sum('"epoch":' in line for line in text.splitlines()) == len(record["curve"])
    empty = record_of(cell(), curve=[])
    files.write(cell(), empty)
    assert files.record(cell()) == empty


def test_a_record_that_cannot_be_read_is_as_good_as_none(files: CellFiles) -> None:
    files.write(cell(), record_of(cell()))
    path = files.record_path(cell())
    for content in (path.read_bytes()[:100], b"[]", b"\xff"):
        path.write_bytes(content)
        assert files.record(cell()) is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"cell": "dregn-cf+training.l2=0.02"}, "the file is another cell's"),
        ({"preset": "dre-mf"}, "the file is another cell's"),
        ({"protocol": "paper"}, "the file is another cell's"),
        ({"dataset": "yelp2018"}, "the file is another cell's"),
        ({"seed": 1}, "the file is another cell's"),
        ({"data_sha256": "cd" * 32}, "the data are others"),
        ({"settings": {"training": {"penalties": 1}}}, "the settings are others"),
        ({"settings": None}, "the settings are others"),
        ({}, None),
    ],
)
def test_a_record_is_kept_only_if_it_is_what_would_be_run(
    given: dict[str, Any], why: str | None
) -> None:
    assert misfit(record_of(cell(), **given), cell(), data_sha256=SHA256) == why


def test_settings_are_compared_by_what_they_mean() -> None:
    record = record_of(cell())
    assert misfit(record, cell(training__l2=0.02), data_sha256=None) is not None
    # written before the backend could be chosen
    del record["settings"]["risk"]["backend"]
    assert misfit(record, cell(), data_sha256=None) is None


@given(
    spent=st.floats(1, 100),
    budget=st.none() | st.floats(1, 100),
    wanted=st.floats(1, 100) | st.just(float("inf")),
    stopped_by=st.sampled_from(["no gain", "last step", "time budget"]),
)
def test_a_run_is_kept_under_another_budget_only_if_that_would_not_change_it(
    spent: float, budget: float | None, wanted: float, stopped_by: str
) -> None:
    record = record_of(
        cell(),
        max_seconds=budget,
        stopped_by=stopped_by if budget is not None else "no gain",
        seconds={"train": spent, "total": spent},
    )
    is_kept = misfit(record, cell(), data_sha256=SHA256, max_seconds=wanted) is None
    was_free = budget is None or (stopped_by != "time budget" and spent < budget)
    same = wanted == (float("inf") if budget is None else budget)
    assert is_kept == (same or (was_free and spent < wanted))


def test_a_report_does_not_ask_for_the_budget() -> None:
    record = record_of(cell(), max_seconds=5.0, stopped_by="time budget")
    assert misfit(record, cell(), data_sha256=SHA256) is None


def test_what_was_run_on_other_data_is_not_finished(files: CellFiles) -> None:
    know(files, "gowalla")
    files.write(cell(), record_of(cell(), data_sha256="cd" * 32))
    assert files.record(cell()) is not None
    assert files.finished(cell()) is None


def test_a_failure_takes_the_place_of_figures_and_figures_that_of_a_failure(
    files: CellFiles,
) -> None:
    files.write(cell(), record_of(cell()))
    files.write_failure(cell(), {"error": "no room"})
    assert (files.record(cell()), files.failure(cell())) == (None, "no room")
    files.write(cell(), record_of(cell()))
    assert files.record(cell()) is not None
    assert files.failure(cell()) is None


def test_a_finished_cell_leaves_no_checkpoint_and_keeps_those_of_others(files: CellFiles) -> None:
    for one in (cell(), cell(seed=1)):
        folder = files.checkpoints(one).folder
        folder.mkdir(parents=True)
        (folder / FILE).write_bytes(b"")
    files.write(cell(), record_of(cell()))
    assert not files.checkpoints(cell()).folder.exists()
    assert (files.checkpoints(cell(seed=1)).folder / FILE).exists()
    files.write(cell(seed=1), record_of(cell(seed=1)))
    assert not (files.folder / "checkpoints").exists()


def test_known_seeds_are_those_of_runs_and_failures_on_the_data_sets(files: CellFiles) -> None:
    assert files.known_seeds("validated", ["gowalla"]) == []
    for seed in (10, 2):
        files.write(cell(seed=seed), record_of(cell(seed=seed)))
    files.write_failure(cell(seed=3), {"error": "no memory"})
    (files.record_path(cell()).parent / "notes.json").write_text("{}")
    elsewhere = cell_of("dregn-cf", "yelp2018", protocol="validated", seed=4)
    fixed = cell_of("dregn-cf", "gowalla", protocol="paper", seed=5)
    assert elsewhere is not None
    assert fixed is not None
    for other in (elsewhere, fixed):
        files.write(other, record_of(other))
    assert files.known_seeds("validated", ["gowalla"]) == [2, 3, 10]
    assert files.known_seeds("validated", ["gowalla", "yelp2018"]) == [2, 3, 4, 10]
    assert files.known_seeds("paper", ["gowalla"]) == [5]


def test_statistics_count_both_parts(files: CellFiles) -> None:
    data = small_dataset()
    assert data.test is not None
    files.write_statistics(data)
    assert files.statistics(data.name) == statistics_of(data)
    assert files.known_datasets() == {data.name}
    counts = statistics_of(data)
    assert counts["train_pairs"] == data.train.n_pairs
    assert counts["test_pairs"] == data.test.n_pairs
    assert counts["data_sha256"] == data.train.sha256
    assert statistics_of(Dataset("x", data.train))["test_pairs"] == 0


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


def test_the_machine_is_the_gpu_or_else_the_processor() -> None:
    processor = {"cores": 2, "processor": "P", "device": "cpu"}
    assert machine_of({"machine": processor}) == "2 cores, P"
    assert machine_of({"machine": processor | {"accelerator": "GPU"}}) == "GPU"
