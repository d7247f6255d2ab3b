"""Cells of text files: equal to those of Python's reader, however the file is cut."""

from __future__ import annotations

import csv
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ratiorec.data.formats import delimited, read
from ratiorec.data.formats.dialect import Dialect
from ratiorec.errors import DataError

PAIRS = Dialect(",", True, False, ("", ""), (True, True))


def cells_of(text: str, *, block_bytes: int) -> list[list[str]]:
    """The rows of two columns, read in blocks of so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_BLOCK_BYTES", block_bytes)
        stream, rows = io.BytesIO(text.encode()), []
        for piece in delimited.pieces(stream, stream.read(block_bytes), PAIRS, "x.csv"):
            columns = (piece.texts(piece.column(position)) for position in (0, 1))
            rows += [list(row) for row in zip(*columns, strict=True)]
    return rows


def cells_by_python(text: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=False)
    return [row for row in reader if len(row) == 2]


@settings(max_examples=400)
@given(
    text=st.lists(st.sampled_from(['"', ",", "\n", "\r\n", "a", "é", '""', '"a,b"'])).map("".join),
    block_bytes=st.integers(2, 40),
)
@example(text='5" disk,"a ""b"""\r\nx,y', block_bytes=3)
@example(text='"two\r\nlines",x\ry,"z"', block_bytes=5)
def test_cells_are_those_of_pythons_reader(text: str, block_bytes: int) -> None:
    try:
        found = cells_of(text, block_bytes=block_bytes)
    except DataError:
        with pytest.raises(csv.Error):  # a quote is never closed
            list(csv.reader(io.StringIO(text, newline=""), strict=True))
    else:
        assert found == cells_by_python(text)


@given(rows=st.lists(st.tuples(*[st.text('ab",\n\r\té漢', max_size=5)] * 2), min_size=1))
def test_what_pythons_writer_wrote_is_read_in_blocks_of_any_size(
    rows: list[tuple[str, str]],
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    assert cells_of(text.getvalue(), block_bytes=7) == [list(row) for row in rows]


def test_a_quote_that_is_never_closed_is_told_by_its_line() -> None:
    with pytest.raises(DataError) as caught:
        cells_of('a,b\n"c\nd",e\nf,"g\nh,i\n', block_bytes=4)
    assert caught.value.where == "x.csv, line 4"


def test_a_long_cell_with_quotes_in_it_is_read(tmp_path: Path) -> None:
    long = 'say "ah"' * 50_000  # more than Python's reader takes
    (tmp_path / "x.csv").write_text('user,item\nu,"' + long.replace('"', '""') + '"\n')
    assert read(tmp_path / "x.csv").items.ids.tolist() == [long]


def test_one_long_id_makes_no_wide_array(tmp_path: Path) -> None:
    n_rows, long = 20_000, "x" * 100_000
    rows = [f"u{row % 100},{long if row == 77 else row % 50}" for row in range(n_rows)]
    (tmp_path / "x.csv").write_text("\n".join(["user,item", *rows]))
    tracemalloc.start()
    data = read(tmp_path / "x.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert long in data.items.ids.tolist()
    assert peak < 100 * (n_rows * 10 + len(long))  # a wide array takes 2 GB


def test_memory_does_not_grow_with_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 1 << 16)
    n_rows = 40_000
    comment = "c" * 200  # a column that nobody uses
    with (tmp_path / "x.csv").open("w") as file:
        file.write("user,item,comment\n")
        file.writelines(f"u{row % 100},i{row % 50},{comment}\n" for row in range(n_rows))
    read(tmp_path / "x.csv")  # imports do not count
    tracemalloc.start()
    read(tmp_path / "x.csv")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "x.csv").stat().st_size / 2


def test_ids_of_several_blocks_share_their_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 64)
    monkeypatch.setattr(delimited, "_SAMPLE_BYTES", 64)
    rows = [(f"u{row * 7 % 11}", f"i{row * 5 % 13}") for row in range(500)]
    text = "".join(
        f'{user},"{item}"\n' if n % 3 else f"{user},{item}\n" for n, (user, item) in enumerate(rows)
    )
    (tmp_path / "x.csv").write_text("user,item\n" + text)
    data = read(tmp_path / "x.csv")
    assert data.users.ids.tolist() == list(dict.fromkeys(user for user, _ in rows))
    assert data.n_pairs == len(set(rows))
    assert data.order is not None
    last = {pair: row for row, pair in enumerate(rows)}
    pairs = zip(data.users.ids[data.pair_users], data.items.ids[data.indices], strict=True)
    assert [last[pair] for pair in pairs] == data.order.tolist()


def test_weights_and_times_of_several_blocks_stay_with_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 50)
    monkeypatch.setattr(delimited, "_SAMPLE_BYTES", 60)
    rows = "".join(
        f"{row},{row},{row / 2 + 1},{row if row < 40 else row + 0.5}\n" for row in range(60)
    )
    (tmp_path / "x.csv").write_text(f"user,item,weight,time\n{rows}")
    data = read(tmp_path / "x.csv")
    assert data.weights is not None
    assert data.timestamps is not None
    np.testing.assert_array_equal(data.weights, np.arange(60) / 2 + 1)
    assert data.timestamps.tolist() == [row if row < 40 else row + 0.5 for row in range(60)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block_bytes", range(5, 20))
def test_lines_are_counted_however_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, block_bytes: int
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(delimited, "_SAMPLE_BYTES", 40)
    lines = ["user,item", *(f'"u{row}",i{row}' for row in range(30)), "bad", "u1,i1"]
    (tmp_path / "x.csv").write_bytes(ending.join(lines).encode())
    with pytest.raises(DataError) as caught:
        read(tmp_path / "x.csv")
    assert caught.value.where.endswith("x.csv, line 32")


@pytest.mark.parametrize("times", [("17", "2026-01-01"), ("2026-01-01", "17")])
def test_numbers_and_dates_of_different_blocks_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: tuple[str, str]
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 50)
    monkeypatch.setattr(delimited, "_SAMPLE_BYTES", 60)
    rows = [f"{row},{row},{times[row >= 30]}" for row in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["user,item,time", *rows]))
    with pytest.raises(DataError, match="30 of 60 rows cannot be used") as caught:
        read(tmp_path / "x.csv")
    assert "line 32: a timestamp cannot be read" in caught.value.found


def test_blank_lines_before_a_header_are_passed_over_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 4)
    monkeypatch.setattr(delimited, "_SAMPLE_BYTES", 24)
    (tmp_path / "x.csv").write_text("\n" * 10 + "user,item\n" + "1,2\n" * 5)
    assert read(tmp_path / "x.csv").users.ids.tolist() == [1]


def test_a_first_row_longer_than_the_sample_is_read(tmp_path: Path) -> None:
    rows = [f"{row},{row},{'c' * 100_000}" for row in range(3)]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    assert read(tmp_path / "x.csv").n_pairs == 3


def test_any_bytes_may_stand_beside_quoted_ids(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b'user,item,blob\n"a, b",x,\xff\xfe\n"c",y,"\xff,"\n')
    assert read(tmp_path / "x.csv").users.ids.tolist() == ["a, b", "c"]
