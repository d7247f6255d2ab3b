"""Binary files that are damaged, too large or hostile: an error of ours, whatever is in them."""

from __future__ import annotations

import io
import os
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from ratiorec.data.formats import binary, read, reading
from ratiorec.errors import DataError, MemoryBudgetError
from ratiorec_lab.fuzz.run import run
from support.command_line import in_a_process

CORPUS = Path(__file__).parents[2] / "corpus"
TABLE = pa.table({"user": ["ann", "bob", "ann"], "item": [1, 2, 3]})

needs_statm = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory limit needs Linux"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "p.parquet")
    return tmp_path / "p.parquet"


def left(monkeypatch: pytest.MonkeyPatch, megabytes: float) -> None:
    """So much memory is left, whatever the machine has."""
    monkeypatch.setattr(reading, "available_memory_mb", lambda device: megabytes)


def never_called(*words: Any, **options: Any) -> Any:
    raise AssertionError("the size must be refused before")


def crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at: str) -> None:
    """A parser that ends its process by a segmentation fault at the files of this name.

    Only a process that has not imported pyarrow yet gets it.
    """
    fake = tmp_path / "fake" / "pyarrow"
    fake.mkdir(parents=True)
    (fake / "__init__.py").touch()
    (fake / "parquet.py").write_text(
        textwrap.dedent(
            f"""
            import os, signal

            def read_metadata(path):
                if path.name == {at!r}:
                    os.kill(os.getpid(), signal.SIGSEGV)
                raise ValueError("not what is looked for")
            """
        )
    )
    monkeypatch.syspath_prepend(fake.parent)


@pytest.mark.parametrize(
    "name",
    [
        "arrow/offsets-beyond-the-text.feather",
        "arrow/codes-beyond-the-dictionary.feather",
        "npz/rows-beyond-the-values.npz",
        "npz/rows-that-go-back.npz",
    ],
)
def test_a_file_that_crashed_its_reader_is_refused_in_one_line(name: str) -> None:
    done = in_a_process("data", "describe", CORPUS / name)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("ratiorec: the file cannot be read as")
    assert f"where: {CORPUS / name}" in line


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_crash_of_the_parser_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        pq.write_table(TABLE, tmp_path / f"{name}.parquet")
    crashing(tmp_path, monkeypatch, at="b.parquet")
    with pytest.raises(DataError, match="its parser crashes") as caught:
        read(tmp_path / "*.parquet")
    assert caught.value.where == str(tmp_path / "b.parquet")
    assert caught.value.found == "a process that ended with SIGSEGV"
    assert caught.value.wanted == "a complete Parquet file"


@pytest.mark.parametrize("trusted", ["", "0", "1"])
def test_who_trusts_the_files_parses_them_once(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    crashing(tmp_path, monkeypatch, at="p.parquet")
    monkeypatch.setenv(binary.TRUST, trusted)
    if trusted == "1":
        assert read(table).n_pairs == 3
    else:
        with pytest.raises(DataError):
            read(table)


@pytest.mark.parametrize(("name", "value"), [("executable", ""), ("frozen", True)])
def test_without_a_python_to_start_files_are_parsed_here(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    crashing(tmp_path, monkeypatch, at="p.parquet")
    monkeypatch.setattr(sys, name, value, raising=False)
    assert read(table).n_pairs == 3


def test_where_no_process_can_be_started_files_are_parsed_here(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    assert read(table).n_pairs == 3


def test_an_error_of_the_parser_is_told_as_it_says_it(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_bytes(b"PAR1" * 10)
    with pytest.raises(DataError, match="cannot be read as Parquet") as caught:
        read(tmp_path / "p.parquet")
    assert "crash" not in caught.value.what


# Memory


def test_more_rows_than_memory_can_hold_are_refused_before_any_is_read(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(monkeypatch, 119 / 2**20)  # three rows need 120 bytes
    monkeypatch.setattr(pq, "ParquetFile", never_called)
    with pytest.raises(MemoryBudgetError) as caught:
        read(table)
    assert caught.value.found == "3 rows, and 0.0 GiB left"
    assert caught.value.where == str(table)


def test_rows_of_arrow_without_any_bytes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(monkeypatch, 2**10)
    schema = pa.schema({"user": pa.null(), "item": pa.null()})
    with pa.OSFile(str(tmp_path / "p.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
        nulls = pa.Array.from_buffers(pa.null(), 2**30, [None])
        file.write(pa.record_batch([nulls] * 2, schema=schema))
    with pytest.raises(MemoryBudgetError, match=r"40\.0 GiB"):
        read(tmp_path / "p.arrow")


@needs_statm
def test_one_long_text_in_many_rows_of_parquet_takes_its_memory_once() -> None:
    file = io.BytesIO()
    text = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), ["x" * 10**6])
    table = pa.table({"user": text, "item": np.arange(20_000)})  # 20 GB as plain text
    pq.write_table(table, file, store_schema=False)
    tally = run("parquet", [{"p.parquet": file.getvalue()}])
    assert tally.outcomes == {"read": 1}, tally.findings


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def test_a_small_file_that_asks_for_many_ids_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    scipy.sparse.save_npz(path, scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(2**36, 2**36)))
    assert path.stat().st_size < 2_000
    with pytest.raises(MemoryBudgetError) as caught:
        read(path)
    assert caught.value.what == "reading would need 2,048.0 GiB of memory"
    assert caught.value.found.startswith("68,719,476,736 users and 68,719,476,736 items, and ")


def test_arrays_that_are_packed_small_are_refused_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.npz"
    path.write_bytes(
        npz(format=b"csr", shape=[1, 1], data=np.zeros(2**20), indices=[0], indptr=[0])
    )
    assert path.stat().st_size < 20_000
    left(monkeypatch, 8)
    monkeypatch.setattr(scipy.sparse, "load_npz", never_called)
    with pytest.raises(MemoryBudgetError, match=r"where: .*m\.npz"):
        read(path)


def test_an_array_that_says_more_than_its_file_has_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"shape": (2**31,), "fortran_order": False, "descr": "<f8"}
    )
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("data.npy", header.getvalue() + bytes(64))
    with pytest.raises(DataError) as caught:
        read(tmp_path / "m.npz")
    assert caught.value.found == "data.npy says 17,179,869,184 bytes of values and has 64"
