"""Rows become pairs: kinds of event, recency and repeats, from every source."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.benchmarks import load
from ratiorec.data.formats import Columns, read, read_sql
from ratiorec.data.formats.reading import Reading
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import SplitAt
from ratiorec.errors import ConfigError, DataError, NoPairsError
from reference.merging import Pair, Row, merged

EVENTS = {"buy": 5, "view": 1, "return": -6, "ad": 0}
TABLE = {
    "user": ["ann", "ann", "bob", "bob", "cy", "cy", "dan"],
    "item": ["x", "x", "x", "x", "y", "y", "z"],
    "kind": ["view", "buy", "buy", "return", "view", "view", "ad"],
}
PAIRS = {("ann", "x"): 6.0, ("cy", "y"): 2.0}


def weights_by_pair(data: Interactions) -> dict[tuple[Any, Any], float]:
    assert data.weights is not None
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    keys = zip(user_ids.tolist(), item_ids.tolist(), strict=True)
    return dict(zip(keys, data.weights.tolist(), strict=True))


def reading_of(data: Interactions) -> Reading:
    assert data.reading is not None
    return data.reading


def csv_of(table: dict[str, list[Any]], separator: str = ",") -> str:
    lines = [list(table), *zip(*table.values(), strict=True)]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines)


# The definition

log_rows = st.lists(
    st.builds(
        Row,
        st.integers(0, 1),
        st.integers(0, 1),
        st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.5]),
        st.integers(0, 50),
        st.sampled_from(["buy", "view", "return", "ad"]),
    ),
    min_size=1,
    max_size=40,
)


@given(
    rows=log_rows,
    half_life=st.sampled_from([None, 0.5, 7, 1000]),
    repeats=st.sampled_from(["sum", "max", "once"]),
    returned=st.sampled_from([-0.5, -1.0, -5.0]),
)
def test_pairs_equal_a_loop_over_the_rows(
    rows: list[Row], half_life: float | None, repeats: Any, returned: float
) -> None:
    events = {"buy": 5.0, "view": 1.0, "return": returned, "ad": 0.0}
    pairs, n_zero, n_removed = merged(
        rows, event_weights=events, half_life=half_life, repeats=repeats
    )
    users, items, weights, times, kinds = zip(*rows, strict=True)

    def read_rows() -> Interactions:
        return Interactions.from_pairs(
            np.array(users),
            np.array(items),
            weights=weights,
            timestamps=times,
            events=kinds,
            event_weights=events,
            half_life=half_life,
            repeats=repeats,
        )

    if not pairs:
        with pytest.raises(NoPairsError):
            read_rows()
        return
    data = read_rows()
    reading = reading_of(data)
    assert (reading.n_zero_weight, reading.n_removed) == (n_zero, n_removed)
    assert reading.n_repeats == len(rows) - n_zero - len(pairs) - n_removed
    assert data.timestamps is not None
    earliest = data.timestamps if data.earliest is None else data.earliest
    found_weights = np.ones(data.n_pairs) if data.weights is None else data.weights
    assert (data.weights is None) == (repeats == "once")
    found = {
        (user, item): Pair(*figures)
        for user, item, *figures in zip(
            data.users.ids[data.pair_users].tolist(),
            data.items.ids[data.indices].tolist(),
            found_weights.tolist(),
            earliest.tolist(),
            data.timestamps.tolist(),
            strict=True,
        )
    }
    assert found.keys() == pairs.keys()
    for key, pair in pairs.items():
        assert found[key][1:] == pair[1:]
        assert found[key].weight == pytest.approx(max(pair.weight, 1e-37), rel=1e-5)


@given(rows=log_rows, seed=st.integers(0, 100))
def test_the_order_of_the_rows_does_not_change_a_bit(rows: list[Row], seed: int) -> None:
    shuffled = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    found = []
    for table in (rows, shuffled):
        users, items, weights, times, kinds = zip(*table, strict=True)
        options: dict[str, Any] = {"timestamps": times, "events": kinds, "half_life": 3}
        options |= {"weights": weights, "event_weights": {**EVENTS, "return": -1}}
        try:
            found.append(Interactions.from_pairs(np.array(users), np.array(items), **options))
        except NoPairsError:
            return
    one, other = found
    assert one.indices.tolist() == other.indices.tolist()
    np.testing.assert_array_equal(one.weights, other.weights)


# Every source


def from_csv(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    (folder / "log.csv").write_text(csv_of(table))
    return read(folder / "log.csv", columns=Columns(event="kind"), **options)


def from_tsv_without_header(folder: Path, table: dict[str, list[Any]], **o: Any) -> Interactions:
    (folder / "log.tsv").write_text(csv_of(table, "\t").partition("\n")[2])
    return read(folder / "log.tsv", columns=Columns(event=2), header=False, **o)


def from_parts(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    header, *lines = csv_of(table).splitlines(keepends=True)
    for part, start in enumerate((0, 3)):
        (folder / f"part-{part}.csv").write_text(
            "".join([header, *lines[start : start + 3 + part]])
        )
    return read(folder / "part-*.csv", columns=Columns(event="kind"), **options)


def from_parquet(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    pq.write_table(pa.table(table), folder / "log.parquet")
    return read(folder / "log.parquet", columns=Columns(event="kind"), **options)


def from_feather(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    feather.write_feather(pa.table(table), str(folder / "log.feather"))
    return read(folder / "log.feather", columns=Columns(event="kind"), **options)


def from_pandas(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    return Interactions.from_frame(pd.DataFrame(table), event="kind", **options)


def from_polars(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    frame = pl.DataFrame(table).with_columns(pl.col("kind").cast(pl.String).cast(pl.Categorical))
    return Interactions.from_frame(frame, event="kind", **options)


def from_query(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    with sqlite3.connect(folder / "log.db") as connection:
        connection.execute("CREATE TABLE log (user, item, kind)")
        connection.executemany(
            "INSERT INTO log VALUES (?, ?, ?)", zip(*table.values(), strict=True)
        )
    connection.close()
    url = f"sqlite:///{folder}/log.db"
    return read_sql("SELECT * FROM log", url, columns=Columns(event="kind"), **options)


def from_lists(folder: Path, table: dict[str, list[Any]], **options: Any) -> Interactions:
    return Interactions.from_pairs(table["user"], table["item"], events=table["kind"], **options)


SOURCES: list[Callable[..., Interactions]] = [
    *(from_csv, from_tsv_without_header, from_parts, from_parquet, from_feather),
    *(from_pandas, from_polars, from_query, from_lists),
]
every_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)


@every_source
def test_events_are_weighed_and_pairs_taken_back_from_every_source(
    source: Callable[..., Interactions], tmp_path: Path
) -> None:
    data = source(tmp_path, TABLE, event_weights=EVENTS)
    assert weights_by_pair(data) == PAIRS
    reading = reading_of(data)
    assert (reading.n_rows, reading.n_removed, reading.n_zero_weight) == (7, 1, 1)
    assert reading.n_repeats == 6 - len(PAIRS) - 1
    assert reading.event_rows == {"view": 3, "buy": 2, "return": 1, "ad": 1}
    assert "event" in reading.columns


@every_source
def test_a_kind_without_a_weight_is_refused_with_all_kinds_from_every_source(
    source: Callable[..., Interactions], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="some kinds of event have no weight") as caught:
        source(tmp_path, TABLE, event_weights={"buy": 5, "view": 1})
    assert "'view' (3 rows), 'buy' (2 rows), 'return' (1 row), 'ad' (1 row)" in caught.value.found
    assert "weights for 'buy', 'view'" in caught.value.found
    assert "event_weights={'buy': 5, 'view': 1, 'return': 0, 'ad': 0}" in caught.value.wanted


@every_source
def test_an_event_column_without_weights_is_refused_with_its_kinds_from_every_source(
    source: Callable[..., Interactions], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="the kinds of event have no weights") as caught:
        source(tmp_path, TABLE)
    assert "'view' (3 rows)" in caught.value.found
    assert "event_weights={'view': 1, 'buy': 1, 'return': 1, 'ad': 1}" in caught.value.wanted


@every_source
def test_whole_numbers_are_kinds_in_every_form(
    source: Callable[..., Interactions], tmp_path: Path
) -> None:
    table = {**TABLE, "kind": [1, 4, 4, 3, 1, 1, 2]}
    weights: dict[Any, float] = {1: 1, "2": 0, 3.0: -6, "4": 5}
    assert weights_by_pair(source(tmp_path, table, event_weights=weights)) == PAIRS


def test_a_missing_event_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item,kind\nann,x,buy\nbob,x,\n")
    options: dict[str, Any] = {"columns": Columns(event="kind"), "event_weights": {"buy": 1}}
    with pytest.raises(DataError, match="missing event") as caught:
        read(tmp_path / "x.csv", **options)
    assert caught.value.where.endswith("line 3")
    assert reading_of(read(tmp_path / "x.csv", on_bad_rows="skip", **options)).n_dropped == 1
    frame = pd.DataFrame({"user": [1, 2], "item": [1, 2], "kind": ["buy", None]})
    with pytest.raises(DataError, match="missing event"):
        Interactions.from_frame(frame, event="kind", event_weights={"buy": 1})


def test_weights_of_rows_and_of_events_are_multiplied() -> None:
    data = Interactions.from_pairs(
        [1, 1, 2],
        [1, 1, 2],
        weights=[2, 3, 4],
        events=["buy", "view", "view"],
        event_weights={"buy": 5, "view": 0.5},
    )
    assert weights_by_pair(data) == {(1, 1): 2 * 5 + 3 * 0.5, (2, 2): 4 * 0.5}


def test_a_negative_weight_in_a_plain_weight_column_stays_a_bad_row() -> None:
    with pytest.raises(DataError, match="a weight is negative"):
        Interactions.from_pairs(
            [1, 1], [1, 1], weights=[2, -1], events=["a", "a"], event_weights={"a": 1}
        )


def test_a_return_takes_back_a_purchase_and_is_no_dislike() -> None:
    data = Interactions.from_pairs(
        ["ann", "ann", "bob", "cy"],
        ["x", "x", "x", "y"],
        events=["buy", "return", "buy", "return"],
        event_weights={"buy": 1, "return": -1},
    )
    assert weights_by_pair(data) == {("bob", "x"): 1.0}
    assert data.users.ids.tolist() == ["bob"]  # nothing is known of the others
    assert data.items.ids.tolist() == ["x"]
    assert reading_of(data).n_removed == 2


def test_a_sum_that_is_0_but_for_rounding_is_taken_back() -> None:
    data = Interactions.from_pairs(
        [1, 1, 1, 1, 2],
        [1, 1, 1, 1, 2],
        events=["a", "a", "a", "b", "a"],
        event_weights={"a": 0.1, "b": -0.3},
    )
    assert data.users.ids.tolist() == [2]


def test_pairs_that_are_all_taken_back_leave_none() -> None:
    with pytest.raises(NoPairsError, match="no pair is left") as caught:
        Interactions.from_pairs(
            [1, 1, 2],
            [1, 1, 2],
            events=["a", "b", "c"],
            event_weights={"a": 1, "b": -1, "c": 0},
        )
    assert "1 of weight 0, and 1 pair with" in caught.value.found


@pytest.mark.parametrize(
    "weights", [{"a": "much"}, {"a": float("nan")}, {"a": -1, "b": 0}, {}, {"a": float("inf")}]
)
def test_weights_of_events_that_make_no_pair_are_refused(weights: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Interactions.from_pairs([1], [1], events=["a"], event_weights=weights)
    assert caught.value.where == "event_weights"


def test_weights_of_events_without_a_column_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(csv_of(TABLE))
    with pytest.raises(ConfigError, match="need the column") as caught:
        read(tmp_path / "x.csv", event_weights={"buy": 1})
    assert "columns=Columns(event='NAME')" in caught.value.wanted
    with pytest.raises(ConfigError) as caught:
        Interactions.from_frame(pd.DataFrame(TABLE), event_weights={"buy": 1})
    assert caught.value.wanted.startswith("event='NAME'")
    with pytest.raises(ConfigError, match="events=KINDS"):
        Interactions.from_pairs([1], [1], event_weights={"buy": 1})


@pytest.mark.parametrize("name", ["kind", "Event_Type", "event", "behavior_type", "action"])
def test_an_event_column_that_is_not_used_is_told(tmp_path: Path, name: str) -> None:
    table = {(name if column == "kind" else column): cells for column, cells in TABLE.items()}
    (tmp_path / "x.csv").write_text(csv_of(table))
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    for data in (
        read(tmp_path / "x.csv"),
        read(tmp_path / "x.parquet"),
        Interactions.from_frame(pd.DataFrame(table)),
    ):
        told = reading_of(data).lines()[-1]
        assert told.startswith(f"note: the column {name!r} is not used")
        assert f"columns=Columns(event={name!r})" in told
    left_out = read(tmp_path / "x.csv", columns=Columns(event=""))
    assert reading_of(left_out).unused_event is None


# Recency


def test_a_weight_is_halved_for_each_half_life() -> None:
    data = Interactions.from_pairs([1, 2, 3], [1, 2, 3], timestamps=[10, 7, 4], half_life=3)
    assert weights_by_pair(data) == {(1, 1): 1.0, (2, 2): 0.5, (3, 3): 0.25}


@pytest.mark.parametrize(
    ("half_life", "days"), [("2d", 2), ("48h", 2), ("2880m", 2), ("172800s", 2), ("1w", 7)]
)
@pytest.mark.parametrize("per_second", [1, 10**3, 10**6, 10**9])
def test_half_lives_have_units_and_so_have_timestamps(
    half_life: str, days: int, per_second: int
) -> None:
    start = 1_700_000_000
    times = [start * per_second, (start + days * 86_400) * per_second]
    data = Interactions.from_pairs([1, 2], [1, 2], timestamps=times, half_life=half_life)
    assert weights_by_pair(data) == {(1, 1): 0.5, (2, 2): 1.0}


@pytest.mark.parametrize("year", [1971, 2024])
def test_a_half_life_of_dates_is_right_in_any_year(tmp_path: Path, year: int) -> None:
    (tmp_path / "x.csv").write_text(
        f"user,item,date\nann,x,{year}-03-01\nbob,y,{year}-03-11T00:00:00\n"
    )
    data = read(tmp_path / "x.csv", half_life="10d")
    assert weights_by_pair(data) == {("ann", "x"): 0.5, ("bob", "y"): 1.0}
    assert reading_of(data).half_life == "10d"
    assert f"half-life 10d back from {year}-03-11 00:00:00" in reading_of(data).lines()[1]


def test_age_is_counted_from_the_latest_row_even_if_that_weighs_nothing() -> None:
    data = Interactions.from_pairs([1, 2], [1, 2], weights=[1, 0], timestamps=[0, 5], half_life=5)
    assert weights_by_pair(data) == {(1, 1): 0.5}


def test_very_old_pairs_keep_a_weight_above_0() -> None:
    data = Interactions.from_pairs(
        [1, 2, 3], [1, 2, 3], weights=[1, 1, 1e-30], timestamps=[10**6, 0, 0], half_life=1
    )
    weights = weights_by_pair(data)
    assert len(weights) == 3
    assert 0 < weights[3, 3] < weights[2, 2] < 1e-29


def test_a_purchase_that_was_returned_is_taken_back_however_old() -> None:
    data = Interactions.from_pairs(
        [1, 1, 2],
        [1, 1, 2],
        timestamps=[0, 0, 10**6],
        events=["buy", "return", "buy"],
        event_weights={"buy": 1, "return": -1},
        half_life=1,
    )
    assert data.users.ids.tolist() == [2]


def test_a_half_life_without_timestamps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item,day\nann,x,3\n")
    with pytest.raises(DataError, match="a half-life needs timestamps") as caught:
        read(tmp_path / "x.csv", half_life="90d")
    assert "columns=Columns(timestamp='NAME')" in caught.value.wanted


def test_a_half_life_with_a_unit_needs_timestamps_with_one() -> None:
    with pytest.raises(DataError, match="the timestamps are no dates") as caught:
        Interactions.from_pairs([1, 2], [1, 2], timestamps=[3, 700], half_life="90d")
    assert "numbers from 3 to 700" in caught.value.found
    assert "half_life as a number" in caught.value.wanted


@pytest.mark.parametrize("half_life", ["90 days", "d", "", "-3", "0d", 0, -1.5, "nan", "inf"])
def test_a_half_life_that_is_no_span_of_time_is_refused(half_life: Any) -> None:
    with pytest.raises(ConfigError, match="no span of time"):
        Interactions.from_pairs([1], [1], timestamps=[1], half_life=half_life)


# Repeats

TWICE: dict[str, Any] = {"user_ids": [1, 1, 1, 2], "item_ids": [1, 1, 1, 2]}


def test_repeats_without_weights_count_once_unless_asked() -> None:
    plain = Interactions.from_pairs(**TWICE)
    assert plain.weights is None
    assert (
        'repeats of a pair (counted once; repeats="sum" counts them)'
        in reading_of(plain).lines()[0]
    )
    counted = Interactions.from_pairs(**TWICE, repeats="sum")
    assert weights_by_pair(counted) == {(1, 1): 3.0, (2, 2): 1.0}
    assert "(their weights are added)" in reading_of(counted).lines()[0]


def test_of_repeats_with_weights_the_sum_the_largest_or_none_is_taken() -> None:
    weights = [2, 7, 1, 4]
    for repeats, expected in ((None, 10.0), ("sum", 10.0), ("max", 7.0)):
        data = Interactions.from_pairs(**TWICE, weights=weights, repeats=repeats)  # type: ignore[arg-type]
        assert weights_by_pair(data) == {(1, 1): expected, (2, 2): 4.0}
        assert reading_of(data).n_repeats == 2
    once = Interactions.from_pairs(**TWICE, weights=weights, repeats="once")
    assert (once.weights, once.n_pairs) == (None, 2)


def test_the_largest_repeat_keeps_the_first_and_the_last_time() -> None:
    data = Interactions.from_pairs(
        **TWICE, weights=[2, 7, 1, 4], timestamps=[5, 6, 9, 1], repeats="max"
    )
    assert data.timestamps is not None
    assert data.earliest is not None
    assert data.timestamps.tolist() == [9, 1]
    assert data.earliest.tolist() == [5, 1]
    split = SplitAt(7)(Interactions.from_pairs(**TWICE, timestamps=[5, 6, 9, 8], repeats="sum"))
    assert (split.train.n_pairs, split.held_out.n_pairs, split.n_repeats) == (1, 1, 1)


def test_a_return_is_no_moment_of_its_pair() -> None:
    data = Interactions.from_pairs(
        [1, 1, 1],
        [1, 1, 1],
        timestamps=[1, 3, 5],
        events=["buy", "buy", "return"],
        event_weights={"buy": 1, "return": -1},
    )
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [3]


def test_an_unknown_way_to_count_repeats_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of sum, max, once"):
        Interactions.from_pairs(**TWICE, repeats="mean")  # type: ignore[arg-type]


def test_a_half_life_that_could_change_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="changes nothing"):
        Interactions.from_pairs(**TWICE, timestamps=[1, 2, 3, 4], half_life=3, repeats="once")


# Sources without rows


def test_sources_without_rows_refuse_to_weigh_them(tmp_path: Path) -> None:
    scipy.sparse.save_npz(tmp_path / "m.npz", scipy.sparse.csr_matrix([[2, 0], [0, 1]]))
    assert read(tmp_path / "m.npz", repeats="once").weights is None
    assert read(tmp_path / "m.npz", repeats="sum").weights is not None
    for options in ({"half_life": "9d"}, {"repeats": "max"}):
        with pytest.raises(ConfigError, match="a sparse matrix has no rows"):
            read(tmp_path / "m.npz", **options)  # type: ignore[arg-type]
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.txt").write_text("0 1 2\n1 0\n")
    for data in ("synthetic", str(tmp_path / "folder")):
        assert load(data, repeats="once").train.n_pairs
        with pytest.raises(ConfigError, match="has no rows"):
            load(data, half_life="9d")
