from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratiorec.errors import StorageError
from ratiorec.sinks import Job, ParquetFile, write_lists
from support.command_line import everything_in, full_disk
from support.sink_places import (
    PulledPlugError,
    expected,
    in_parquet,
    small_model,
    stop_after,
)

MODEL = small_model()
JOB = Job.of(MODEL, MODEL.users.ids, 5)


def interrupt(path: Path, job: Job = JOB) -> Path:
    """Stop after thirty users; the folder of the parts."""
    with pytest.raises(PulledPlugError):
        write_lists(job, ParquetFile(path), users_at_a_time=10, progress=stop_after(35))
    (folder,) = path.parent.glob(".lists.parquet.*.parts")
    return folder


def test_users_stand_in_the_order_of_the_job_and_columns_have_their_types(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    write_lists(JOB, ParquetFile(path), users_at_a_time=25)
    table = pq.read_table(path)
    assert table.to_pylist() == MODEL.recommend(MODEL.users.ids, 5).to_dicts()
    assert table.schema.types == [pa.int64(), pa.int64(), pa.float32(), pa.int64()]
    assert pq.ParquetFile(path).num_row_groups == 3


def test_nothing_but_the_file_is_left(tmp_path: Path) -> None:
    interrupt(tmp_path / "lists.parquet")
    write_lists(JOB, ParquetFile(tmp_path / "lists.parquet"))
    assert [path.name for path in tmp_path.iterdir()] == ["lists.parquet"]


def test_an_interrupted_job_leaves_the_old_file_and_whole_parts(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    path.write_bytes(b"what stood there before")
    folder = interrupt(path)
    assert path.read_bytes() == b"what stood there before"
    assert sorted(part.name for part in folder.iterdir()) == [
        f"users-{start:012d}-{start + 10:012d}.arrow" for start in (0, 10, 20)
    ]


@pytest.mark.parametrize("fault", ["cut short", "empty", "missing"])
def test_parts_count_up_to_the_first_that_is_not_whole(tmp_path: Path, fault: str) -> None:
    path, said = tmp_path / "lists.parquet", []
    part = sorted(interrupt(path).iterdir())[1]
    if fault == "missing":
        part.unlink()
    else:
        part.write_bytes(part.read_bytes()[: 200 if fault == "cut short" else 0])
    write_lists(JOB, ParquetFile(path), users_at_a_time=20, notify=said.append)
    assert said == ["10 users were written before; going on after them"]
    assert in_parquet(path) == expected(MODEL)


def test_what_a_killed_writer_left_of_a_part_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    (interrupt(path) / ".users-000000000030-000000000040.arrow.0a.tmp").write_bytes(b"half")
    write_lists(JOB, ParquetFile(path), users_at_a_time=10)
    assert in_parquet(path) == expected(MODEL)
    assert [found.name for found in tmp_path.iterdir()] == ["lists.parquet"]


def test_a_disk_that_fills_up_while_parts_are_joined_costs_no_part(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    said: list[str] = []
    with full_disk(3_000), pytest.raises(StorageError, match="could not write the file"):
        write_lists(JOB, ParquetFile(path), users_at_a_time=10, notify=said.append)
    assert not path.exists()
    assert said == ["60 of 60 users are written; the same command goes on after them"]
    ranked: list[int] = []
    write_lists(JOB, ParquetFile(path), progress=lambda done, _: ranked.append(done))
    assert ranked == []
    assert in_parquet(path) == expected(MODEL)


def test_a_disk_that_fills_up_before_the_first_part_leaves_nothing(tmp_path: Path) -> None:
    with full_disk(500), pytest.raises(StorageError, match=r"where: .*lists\.parquet;"):
        write_lists(JOB, ParquetFile(tmp_path / "lists.parquet"))
    assert everything_in(tmp_path) == {}


@pytest.mark.parametrize("name", ["", "missing/lists.parquet", "file/lists.parquet"])
def test_a_place_that_can_hold_no_file_is_refused_before_ranking(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    ranked: list[int] = []
    with pytest.raises(StorageError, match="could not write the file"):
        write_lists(JOB, ParquetFile(tmp_path / name), progress=lambda done, _: ranked.append(done))
    assert ranked == []


def test_parts_of_other_files_are_left_alone(tmp_path: Path) -> None:
    folder = interrupt(tmp_path / "lists.parquet")
    write_lists(JOB, ParquetFile(tmp_path / "more-lists.parquet"))
    assert len(list(folder.iterdir())) == 3
