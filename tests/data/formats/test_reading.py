"""What was read is reported, and rows that cannot be used are counted, told and written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ratiorec.data.formats import Columns, read
from ratiorec.data.formats.reading import Reading
from ratiorec.data.interactions import Interactions
from ratiorec.errors import ConfigError, DataError, NoPairsError

GOOD = [f"2026-02-{day:02},{day},S{day % 4},DE,C{day % 5}" for day in range(1, 29)]
BAD = {
    "2026-02-03,1,S1": "a row has another number of columns",
    "2026-02-03,abc,S1,DE,C1": "a weight cannot be read",
    "not-a-date,1,S1,DE,C1": "a timestamp cannot be read",
    "2026-02-03,-1,S1,DE,C1": "a weight is negative",
    "2026-02-03,1,,DE,C1": "missing item id",
    "2026-02-03,1,S1,DE,NULL": "missing user id",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    lines = ["event_time,qty,sku,country,customer", *GOOD[:10], *BAD, *GOOD[10:], GOOD[0]]
    path.write_text("\n".join(lines))
    return path


def reading_of(data: Interactions) -> Reading:
    assert data.reading is not None
    return data.reading


def test_columns_rows_repeats_and_times_are_reported(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("\n".join(["event_time,qty,sku,country,customer", *GOOD]))
    data = read(tmp_path / "x.csv")
    reading = reading_of(data)
    named = {"user": "customer", "item": "sku", "weight": "qty", "timestamp": "event_time"}
    assert reading.columns == named
    assert (reading.n_rows, reading.n_dropped) == (28, 0)
    assert reading.n_repeats == 28 - 20 == 28 - data.n_pairs
    [line] = reading.lines()
    assert "user = 'customer', item = 'sku', weight = 'qty', timestamp = 'event_time'" in line
    assert "28 rows, 8 of them repeats of a pair; 2026-02-01 00:00:00 to 2026-02-28" in line


def test_columns_without_a_header_are_reported_by_their_place(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    [line] = reading_of(read(tmp_path / "x.csv")).lines()
    assert "user = the first column, item = the second column (no header); 2 rows" in line


@pytest.mark.parametrize(
    ("times", "first"),
    [
        ([1_700_000_000, 1_700_086_400], "2023-11-14 22:13:20"),
        ([1_700_000_000_000, 1_700_086_400_000], "2023-11-14 22:13:20"),
        ([1_700_000_000.5, 1_700_086_400], "2023-11-14 22:13:20"),
        ([1_700_000_000 * 10**9, 1_700_086_400 * 10**9], "2023-11-14 22:13:20"),
        ([1, 2], "1"),
    ],
)
def test_numbers_like_unix_time_are_reported_as_dates(times: list[int], first: str) -> None:
    data = Interactions.from_pairs([1, 2], [1, 2], timestamps=times)
    assert reading_of(data).first_time == first


def test_a_frame_is_reported_like_a_file() -> None:
    frame = pd.DataFrame({"who": ["a", "a", "b"], "item": [1, 1, 2]})
    reading = reading_of(Interactions.from_frame(frame, user="who"))
    assert dict(reading.columns) == {"user": "who", "item": "item"}
    assert (reading.n_rows, reading.n_repeats) == (3, 1)


def test_one_run_tells_the_first_five_bad_rows_and_how_many_there_are(log: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(log)
    assert caught.value.what == f"{len(BAD)} of {len(GOOD) + len(BAD) + 1} rows cannot be used"
    told = caught.value.found.split("; ")
    assert len(told) == 5 + 1
    for number, (sentence, (row, what)) in enumerate(zip(told[:5], BAD.items(), strict=False), 12):
        assert sentence.startswith(f"line {number}: {what}, ")
        assert row in sentence
    assert told[-1] == "and 1 more"
    assert 'on_bad_rows="skip"' in caught.value.wanted


def test_bad_rows_are_skipped_counted_and_written(log: Path, tmp_path: Path) -> None:
    data = read(log, on_bad_rows="skip", bad_rows_file=tmp_path / "bad.tsv")
    reading = reading_of(data)
    assert (reading.n_rows, reading.n_dropped) == (len(GOOD) + len(BAD) + 1, len(BAD))
    assert reading.n_repeats == len(GOOD) + 1 - data.n_pairs
    assert "C1" in data.users.ids
    assert "NULL" not in data.users.ids
    written = (tmp_path / "bad.tsv").read_text().splitlines()
    assert written == [
        f"{log}, line {number}\t{what}\t{row}" for number, (row, what) in enumerate(BAD.items(), 12)
    ]
    clean = tmp_path / "clean.csv"
    clean.write_text("\n".join(["event_time,qty,sku,country,customer", *GOOD, GOOD[0]]))
    assert read(clean).sha256 == data.sha256
    assert reading.lines()[1].startswith("warning: dropped line 12: a row has another number")


def test_an_id_that_occurs_in_bad_rows_only_is_no_id(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item\nann,\nbob,x\ncy,y\n")
    data = read(tmp_path / "x.csv", on_bad_rows="skip")
    assert data.users.ids.tolist() == ["bob", "cy"]


def test_a_column_that_is_not_used_may_hold_anything(log: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(log, columns=Columns(weight="", timestamp=""))
    assert caught.value.what.startswith("3 of ")  # the short row and two missing ids


def test_a_file_of_bad_rows_only_has_no_pairs(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item\n,x\n,y\n")
    with pytest.raises(NoPairsError, match="2 that cannot be used"):
        read(tmp_path / "x.csv", on_bad_rows="skip")


def test_bad_rows_of_a_frame_are_skipped_or_told(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": ["a", None, "b"], "item": [1.0, 2.0, None], "rating": [1, 1, 1]})
    with pytest.raises(DataError, match="2 of 3 rows cannot be used") as caught:
        Interactions.from_frame(frame)
    assert "row 2 (the first is row 1): missing user id, null" in caught.value.found
    data = Interactions.from_frame(frame, on_bad_rows="skip")
    assert (data.n_pairs, reading_of(data).n_dropped) == (1, 2)
    assert data.items.ids.tolist() == [1]


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item\n1,2\n")
    with pytest.raises(ConfigError, match="stop, skip"):
        read(tmp_path / "x.csv", on_bad_rows="ignore")  # type: ignore[arg-type]
