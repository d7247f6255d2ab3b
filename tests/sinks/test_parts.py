"""What every file of lists keeps to: parts that outlive an interrupted run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import StorageError
from ratiorec.sinks import CsvFile, FileOfParts, Job, ParquetFile, sink_of, write_lists
from support.command_line import everything_in, full_disk
from support.sink_places import (
    PulledPlugError,
    expected,
    in_csv,
    in_parquet,
    small_model,
    stop_after,
)

MODEL = small_model()
JOB = Job.of(MODEL, MODEL.users.ids, 5)
ROWS = {ParquetFile: in_parquet, CsvFile: in_csv}


@pytest.fixture(params=["lists.parquet", "lists.csv"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> FileOfParts:
    sink = sink_of(str(tmp_path / request.param))
    assert isinstance(sink, FileOfParts)
    return sink


def interrupt(file: FileOfParts) -> Path:
    """Stop after thirty users; the folder of the parts."""
    with pytest.raises(PulledPlugError):
        write_lists(JOB, file, users_at_a_time=10, progress=stop_after(35))
    (folder,) = file.path.parent.glob(f".{file.path.name}.*.parts")
    return folder


def test_users_stand_in_the_order_of_the_job_and_columns_have_their_types(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    write_lists(JOB, ParquetFile(path), users_at_a_time=25)
    table = pq.read_table(path)
    assert table.to_pylist() == MODEL.recommend(MODEL.users.ids, 5).to_dicts()
    assert table.schema.types == [*(pa.int64(), pa.int64(), pa.float32(), pa.int64(), pa.string())]
    assert pq.ParquetFile(path).num_row_groups == 3


def test_a_csv_has_one_header_names_and_the_shortest_scores(tmp_path: Path) -> None:
    path = tmp_path / "lists.csv"
    model = small_model(["ada", 'b"c'], ["tea, green", "jam", "oats"])
    names = Vocabulary(model.items.ids, "item", model.items.ids + " & more")
    object.__setattr__(model, "items", names)
    write_lists(
        Job.of(model, model.users.ids, 2, exclude_seen=False), CsvFile(path), users_at_a_time=1
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "user_id,item_id,item_name,score,rank,kind"
    assert len(lines) == 5
    (best, *_) = model.recommend(["ada"], 1, exclude_seen=False).to_dicts()
    quoted = [f'"{text}"' if "," in text else text for text in (best["item_id"], best["item_name"])]
    score = str(model.recommend(["ada"], 1, exclude_seen=False).scores[0])
    assert lines[1] == f"ada,{quoted[0]},{quoted[1]},{score},1,personal"
    assert lines[3].startswith('"b""c",')


def test_nothing_but_the_file_is_left(file: FileOfParts) -> None:
    interrupt(file)
    write_lists(JOB, file)
    assert list(file.path.parent.iterdir()) == [file.path]


def test_an_interrupted_job_leaves_the_old_file_and_whole_parts(file: FileOfParts) -> None:
    file.path.write_bytes(b"what stood there before")
    folder = interrupt(file)
    assert file.path.read_bytes() == b"what stood there before"
    assert sorted(part.name for part in folder.iterdir()) == [
        f"users-{start:012d}-{start + 10:012d}{file.part_suffix}" for start in (0, 10, 20)
    ]


@pytest.mark.parametrize("fault", ["cut short", "cut in a number", "empty", "missing"])
def test_parts_count_up_to_the_first_that_is_not_whole(file: FileOfParts, fault: str) -> None:
    said: list[str] = []
    part = sorted(interrupt(file).iterdir())[1]
    if fault == "missing":
        part.unlink()
    else:
        length = {"cut short": 200, "cut in a number": part.stat().st_size - 1, "empty": 0}[fault]
        part.write_bytes(part.read_bytes()[:length])
    write_lists(JOB, file, users_at_a_time=20, notify=said.append)
    assert said == ["10 users were written before; going on after them"]
    assert ROWS[type(file)](file.path) == expected(MODEL)


def test_what_a_killed_writer_left_of_a_part_does_no_harm(file: FileOfParts) -> None:
    half = interrupt(file) / f".users-000000000030-000000000040{file.part_suffix}.0a.tmp"
    half.write_bytes(b"half")
    write_lists(JOB, file, users_at_a_time=10)
    assert ROWS[type(file)](file.path) == expected(MODEL)
    assert list(file.path.parent.iterdir()) == [file.path]


def test_a_disk_that_fills_up_while_parts_are_joined_costs_no_part(file: FileOfParts) -> None:
    said: list[str] = []
    with full_disk(3_000), pytest.raises(StorageError, match="could not write the file"):
        write_lists(JOB, file, users_at_a_time=10, notify=said.append)
    assert not file.path.exists()
    assert said == ["60 of 60 users are written; the same command goes on after them"]
    ranked: list[int] = []
    write_lists(JOB, file, progress=lambda done, _: ranked.append(done))
    assert ranked == []
    assert ROWS[type(file)](file.path) == expected(MODEL)


def test_a_disk_that_fills_up_before_the_first_part_leaves_nothing(file: FileOfParts) -> None:
    with full_disk(500), pytest.raises(StorageError, match=rf"where: .*{file.path.name};"):
        write_lists(JOB, file)
    assert everything_in(file.path.parent) == {}


@pytest.mark.parametrize("name", ["", "missing/lists.parquet", "file/lists.parquet"])
def test_a_place_that_can_hold_no_file_is_refused_before_ranking(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    ranked: list[int] = []
    with pytest.raises(StorageError, match="could not write the file"):
        write_lists(JOB, ParquetFile(tmp_path / name), progress=lambda done, _: ranked.append(done))
    assert ranked == []


def test_parts_of_other_files_are_left_alone(file: FileOfParts) -> None:
    folder = interrupt(file)
    write_lists(JOB, type(file)(file.path.with_name(f"more-{file.path.name}")))
    assert len(list(folder.iterdir())) == 3
