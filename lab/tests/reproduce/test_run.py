from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab_support.fake_cells import record_of
from ratiorec import presets
from ratiorec.data.interactions import Dataset
from ratiorec.errors import DataError, DivergenceError, StoppedError, StorageError
from ratiorec.training.checkpoint import FILE
from ratiorec.training.fit import EpochFinished, StepTaken
from ratiorec_lab.reproduce import run as running
from ratiorec_lab.reproduce.cells import Cell, cell_of, small_dataset
from ratiorec_lab.reproduce.published import SMALL
from ratiorec_lab.reproduce.records import CellFiles, validations
from ratiorec_lab.reproduce.run import Runner, RunOutcome, seconds_left
from support.quick_presets import MISSING, failing

NO_ROOM = StorageError("no room", where="here", found="a full disk", wanted="room")


class Witness:
    """Remembers what it is told, and asks to stop after so many steps."""

    def __init__(self, n_steps: float = math.inf) -> None:
        self.n_left = n_steps
        self.begun: list[tuple[str, int, int, float | None]] = []
        self.said: list[str] = []
        self.ended: list[tuple[str, bool]] = []
        self.resumed: list[int] = []

    def begin(self, cell: Cell, *, place: int, n_cells: int, seconds_left: float | None) -> None:
        self.begun.append((cell.name, place, n_cells, seconds_left))

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        if isinstance(event, StepTaken):
            self.n_left -= 1
        elif event.resumed:
            self.resumed.append(event.record["epoch"])

    def end(self, cell: Cell, record: dict[str, Any] | None) -> None:
        self.ended.append((cell.name, record is not None))

    def say(self, words: str) -> None:
        self.said.append(words)

    def stop_requested(self) -> bool:
        return self.n_left <= 0


@pytest.fixture(scope="module")
def data() -> Dataset:
    return small_dataset()


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    return CellFiles(tmp_path / "reproduced")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    # to look for garbage takes longer than such a fit
    monkeypatch.setattr(running, "release_memory", lambda device: None)


def cell(
    preset: str = "dregn-cf", *, protocol: str = "validated", seed: int = 0, **more: Any
) -> Cell:
    found = cell_of(preset, SMALL, protocol=protocol, seed=seed, **more)
    assert found is not None
    return found


def run(
    files: CellFiles,
    cells: Sequence[Cell],
    data: Dataset,
    witness: Witness | None = None,
    **more: Any,
) -> RunOutcome:
    witness = witness or Witness()
    runner = Runner(
        files,
        lambda name: data,
        witness,
        device="cpu",
        stop_requested=witness.stop_requested,
        **more,
    )
    return runner(cells, [SMALL])


def without_times(record: dict[str, Any] | None) -> dict[str, Any]:
    assert record is not None
    left_out = ("seconds", "peak_memory_mb", "curve")
    kept = {name: value for name, value in record.items() if name not in left_out}
    curve = [{n: v for n, v in e.items() if n != "seconds"} for e in record["curve"]]
    return kept | {"curve": curve}


def test_a_cell_is_a_result_file_under_its_own_path(files: CellFiles, data: Dataset) -> None:
    outcome = run(files, [cell()], data)
    assert (outcome.run, outcome.kept, outcome.failed) == ([cell()], [], [])
    record = files.finished(cell())
    assert record is not None
    assert (record["target"], record["dataset"], record["preset"]) == (
        "reproduce",
        SMALL,
        "dregn-cf",
    )
    assert record["data_sha256"] == data.train.sha256
    assert record["test"].keys() == {"recall@20", "ndcg@20"}
    assert any("validation" in entry for entry in record["curve"])
    assert record["max_seconds"] is None
    assert str(files.folder) not in files.record_path(cell()).read_text()
    assert files.statistics(SMALL) is not None


def test_finished_cells_are_kept(files: CellFiles, data: Dataset) -> None:
    run(files, [cell()], data)
    before = files.record_path(cell()).read_bytes()
    outcome = run(files, [cell(), cell("popularity")], data)
    assert (outcome.run, outcome.kept) == ([cell("popularity")], [cell()])
    assert files.record_path(cell()).read_bytes() == before


def test_a_cell_of_other_data_is_named_and_run_again(files: CellFiles, data: Dataset) -> None:
    files.write(cell("popularity"), record_of(cell("popularity")))
    witness = Witness()
    outcome = run(files, [cell("popularity")], data, witness)
    assert outcome.run == [cell("popularity")]
    assert witness.said == [
        "synthetic-small, popularity, seed 0: run again, since the data are others"
    ]


def test_a_cell_judged_on_validation_pairs_never_reads_the_test_part(
    files: CellFiles, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Dataset] = []
    plain = running.fit

    def watched(dataset: Dataset, **options: Any) -> Any:
        given.append(dataset)
        return plain(dataset, **options)

    monkeypatch.setattr(running, "fit", watched)
    one = cell("popularity", on_validation=True)
    run(files, [one, cell("popularity")], data)
    assert [dataset.test is None for dataset in given] == [True, False]
    record = files.finished(one)
    assert record is not None
    assert record["test"] is None
    assert {entry["phase"] for entry in record["curve"]} == {"search"}


def test_a_test_curve_has_test_figures_along_the_way_and_none_that_was_chosen(
    files: CellFiles, data: Dataset
) -> None:
    drawn = cell(on_test_curve=True)
    run(files, [drawn], data)
    record = files.finished(drawn)
    assert record is not None
    assert (record["test"], record["validation"]) == (None, None)
    assert record["epochs"] <= drawn.settings.stopping.epochs  # type: ignore[union-attr]
    assert record["curve"][-1]["epoch"] == drawn.settings.stopping.epochs  # type: ignore[union-attr]
    assert not any("validation" in entry for entry in record["curve"])
    assert len(validations(record)) == 6  # of 12 epochs every second
    assert {entry["phase"] for entry in record["curve"]} == {"search"}


def test_the_last_pairs_are_held_out_where_the_protocol_says_so(
    files: CellFiles, data: Dataset
) -> None:
    both = [cell("popularity"), cell("popularity", protocol="validated-last")]
    run(files, both, data)
    ways = [(r["validation_by"], r["test"]) for r in map(files.finished, both) if r]
    assert [way for way, _ in ways] == ["random", "last"]
    assert ways[0][1] == ways[1][1]  # it has no step to choose
    random, last = (files.finished(one) for one in both)
    assert random is not None
    assert last is not None
    assert random["validation"] != last["validation"]


def test_under_the_paper_nothing_is_held_out_and_all_steps_are_taken(
    files: CellFiles, data: Dataset
) -> None:
    one = cell(protocol="paper")
    run(files, [one], data)
    record = files.finished(one)
    assert record is not None
    assert record["validation"] is None
    assert {entry["phase"] for entry in record["curve"]} == {"train"}
    assert record["epochs"] == one.settings.stopping.epochs  # type: ignore[union-attr]


def test_a_cell_that_cannot_run_is_told_and_the_others_go_on(
    files: CellFiles, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "PRESETS", {**presets.PRESETS, "ease": failing()})
    outcome = run(files, [cell("ease"), cell("popularity")], data)
    assert outcome.run == [cell("popularity")]
    (failure,) = outcome.failed
    assert failure.where == "validated/synthetic-small/ease-seed0"
    assert failure.reason == str(MISSING)
    assert not failure.is_bug
    assert files.failure(cell("ease")) == str(MISSING)
    told = json.loads(files.failure_path(cell("ease")).read_bytes())
    assert told["settings"]["solver"]
    assert told["command"].startswith("ratiorec reproduce all")


@pytest.mark.parametrize(
    ("error", "is_bug"),
    [
        (DivergenceError("diverged", where="step 3", found="nan", wanted="a number"), False),
        (MemoryError("no memory"), False),
        (RuntimeError("CUDA out of memory. Tried to allocate"), False),
        (RuntimeError("shapes do not match"), True),
        (ValueError("a mistake"), True),
    ],
)
def test_what_the_program_did_wrong_is_told_apart(
    files: CellFiles,
    data: Dataset,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    is_bug: bool,
) -> None:
    monkeypatch.setattr(presets, "PRESETS", {**presets.PRESETS, "ease": failing(error)})
    witness = Witness()
    (failure,) = run(files, [cell("ease")], data, witness).failed
    assert failure.is_bug is is_bug
    assert any("Traceback" in words for words in witness.said) is is_bug


def test_a_cell_that_failed_is_tried_again(
    files: CellFiles, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(presets, "PRESETS", {**presets.PRESETS, "ease": failing()})
        run(files, [cell("ease")], data)
    assert run(files, [cell("ease")], data).run == [cell("ease")]
    assert files.failure(cell("ease")) is None


def test_a_full_disk_ends_everything(
    files: CellFiles, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "PRESETS", {**presets.PRESETS, "ease": failing(NO_ROOM)})
    with pytest.raises(StorageError):
        run(files, [cell("ease"), cell("popularity")], data)


def test_data_that_cannot_be_used_do_not_cost_the_others(files: CellFiles, data: Dataset) -> None:
    def load(name: str) -> Dataset:
        if name == "amazon-book":
            raise DataError("cut or altered", where="train.txt", found="1 pair", wanted="more")
        return data

    witness = Witness()
    other = cell_of("popularity", "amazon-book", protocol="validated", seed=0)
    assert other is not None
    runner = Runner(files, load, witness, device="cpu")
    outcome = runner([other, cell("popularity")], ["amazon-book", SMALL])
    assert outcome.run == [cell("popularity")]
    assert [failure.where for failure in outcome.failed] == ["amazon-book"]
    assert witness.begun[0][1:3] == (2, 2)
    assert files.statistics("amazon-book") is None


def test_cells_of_data_that_are_not_there_are_left_alone(files: CellFiles, data: Dataset) -> None:
    other = cell_of("popularity", "amazon-book", protocol="validated", seed=0)
    assert other is not None
    outcome = run(files, [other, cell("popularity")], data)
    assert outcome.run == [cell("popularity")]
    assert outcome.failed == []


def test_progress_counts_cells_and_estimates_by_those_that_are_finished(
    files: CellFiles, data: Dataset
) -> None:
    witness = Witness()
    run(files, [cell("popularity", seed=seed) for seed in range(3)], data, witness)
    assert [(place, n) for _, place, n, _ in witness.begun] == [(1, 3), (2, 3), (3, 3)]
    first, second, third = (left for *_, left in witness.begun)
    assert first is None
    spent = [
        record["seconds"]["total"]
        for seed in range(3)
        if (record := files.finished(cell("popularity", seed=seed))) is not None
    ]
    assert second == pytest.approx(2 * spent[0])
    assert third == pytest.approx((spent[0] + spent[1]) / 2)
    assert witness.ended == [("popularity", True)] * 3


@pytest.fixture(scope="module")
def whole(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> CellFiles:
    """Two cells that were run without interruption."""
    files = CellFiles(tmp_path_factory.mktemp("whole"))
    run(files, [cell(), cell("lightgcn")], data)
    return files


@pytest.mark.parametrize("n_steps", [1, 10, 30, 60])
def test_a_run_that_was_stopped_goes_on_to_the_same_files(
    files: CellFiles, data: Dataset, whole: CellFiles, n_steps: int
) -> None:
    cells = [cell(), cell("lightgcn")]
    with pytest.raises(StoppedError, match="the same command, which goes on from here"):
        run(files, cells, data, Witness(n_steps))
    assert list(files.folder.rglob(FILE))
    witness = Witness()
    outcome = run(files, cells, data, witness)
    assert len(outcome.run) + len(outcome.kept) == len(cells)
    for one in cells:
        assert without_times(files.finished(one)) == without_times(whole.finished(one))
    assert not (files.folder / "checkpoints").exists()
    if n_steps == 10:  # two epochs were finished
        assert witness.resumed == [1, 2]


def test_a_request_to_stop_between_cells_runs_no_more(files: CellFiles, data: Dataset) -> None:
    witness = Witness(0)
    with pytest.raises(StoppedError, match="the reproduction was stopped"):
        run(files, [cell()], data, witness)
    assert witness.begun == []
    assert not (files.folder / "checkpoints").exists()


def test_a_checkpoint_of_another_run_is_dropped(files: CellFiles, data: Dataset) -> None:
    with pytest.raises(StoppedError):
        run(files, [cell()], data, Witness(5))
    other = cell(seed=1)
    files.checkpoints(other).folder.parent.mkdir(parents=True, exist_ok=True)
    files.checkpoints(cell()).folder.rename(files.checkpoints(other).folder)
    witness = Witness()
    assert run(files, [other], data, witness).run == [other]
    assert any("begun anew" in words for words in witness.said)


def test_a_time_budget_is_written_down(files: CellFiles, data: Dataset) -> None:
    run(files, [cell("popularity")], data, max_seconds=60.0)
    record = files.finished(cell("popularity"))
    assert record is not None
    assert record["max_seconds"] == 60
    assert record["command"].endswith("--max-seconds 60")


def planned(preset: str, dataset: str = "gowalla", seed: int = 0) -> Cell:
    found = cell_of(preset, dataset, protocol="validated", seed=seed)
    assert found is not None
    return found


def test_nothing_is_known_before_a_cell_is_finished() -> None:
    assert seconds_left([planned("ease")], {}, max_seconds=math.inf) is None


def test_nothing_is_left_when_nothing_is_missing() -> None:
    assert seconds_left([], {planned("ease"): 5.0}, max_seconds=math.inf) == 0


def test_a_cell_takes_as_long_as_those_most_alike() -> None:
    spent = {
        planned("dregn-cf"): 10.0,
        planned("dregn-cf", seed=1): 12.0,
        planned("dregn-cf", "yelp2018"): 100.0,
        planned("ease"): 1000.0,
    }

    def expected(one: Cell) -> float | None:
        return seconds_left([one], spent, max_seconds=math.inf)

    assert expected(planned("dregn-cf", seed=2)) == (10 + 12) / 2
    assert expected(planned("ease", "yelp2018")) == 1000
    assert expected(planned("enmf", "yelp2018")) == 100
    assert expected(planned("enmf", "amazon-book")) == (12 + 100) / 2


def test_no_cell_is_expected_to_exceed_its_budget() -> None:
    missing = [planned("ease", seed=1), planned("ease", seed=2)]
    assert seconds_left(missing, {planned("ease"): 500.0}, max_seconds=60) == 2 * 60
