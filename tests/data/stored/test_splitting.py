"""Splits of a training set on disk."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.formats import Columns, read
from ratiorec.data.split import LeaveLast, Split, SplitAt, TimeSplit, cut_in_time
from ratiorec.data.stored import splitting
from ratiorec.data.stored.folder import open_stored
from ratiorec.data.stored.prepare import prepare
from ratiorec.data.stored.source import Asked
from ratiorec.data.stored.splitting import AskedSplit, hashed, nth_smallest
from ratiorec.data.texts import StoredTexts
from ratiorec.errors import ConfigError, DataError
from support.training_sets import MEMORY_MB, Pairs, by_ids, prepared, write_parts

N_ROWS = 400


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {
        "user": [f"u{n}" for n in rng.integers(0, 30, N_ROWS)],
        "item": rng.integers(-20, 20, N_ROWS).tolist(),
        "timestamp": rng.integers(1_700_000_000, 1_700_900_000, N_ROWS).tolist(),
    }
    return write_parts(tmp_path_factory.mktemp("log"), columns, [90, 300])


def both(folder: Path) -> tuple[Pairs, Pairs]:
    data = open_stored(folder)
    assert data.test is not None
    return by_ids(data.train), by_ids(data.test)


SPLITS = [
    (AskedSplit("last", n=2), LeaveLast(2)),
    (AskedSplit("time", fraction=0.25), TimeSplit(0.25)),
    (AskedSplit("time", at="1700500000"), SplitAt(np.nextafter(1_700_500_000, 0).item())),
]


@pytest.mark.parametrize(("asked", "splitter"), SPLITS, ids=["last", "share of time", "moment"])
def test_a_split_that_is_no_chance_is_the_one_of_data_in_memory(
    log: Path,
    tmp_path: Path,
    asked: AskedSplit,
    splitter: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(splitting, "_MOST_PAIRS", 40)  # in many ranges of users
    done = prepare(Asked(str(log), Columns()), tmp_path / "s", memory_mb=MEMORY_MB, split=asked)
    wanted: Split = splitter(read(log))
    assert both(tmp_path / "s") == (by_ids(wanted.train), by_ids(wanted.held_out))
    assert done.split is not None
    for name in ("n_users_kept_whole", "n_users_unseen", "n_repeats"):
        assert getattr(done.split, name) == getattr(wanted, name)


def test_the_last_days_are_counted_back_from_the_latest_row(log: Path, tmp_path: Path) -> None:
    prepared(log, tmp_path / "s", split=AskedSplit("time", last_days=3))
    wanted = cut_in_time(read(log), 0.1, last_days=3)(read(log))
    assert both(tmp_path / "s") == (by_ids(wanted.train), by_ids(wanted.held_out))


def test_a_random_split_is_one_of_each_user_and_depends_on_seed_and_ids_alone(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(log, tmp_path / "a", split=AskedSplit(fraction=0.25))
    whole, (train, test) = by_ids(read(log)), both(tmp_path / "a")
    assert train | test == whole
    users = [user for user, _ in whole]
    for user in set(users):
        n = users.count(user)
        assert sum(one == user for one, _ in test) == min(int(n / 4 + 0.5), n - 1)

    rows = read(log)
    order = list(range(rows.n_pairs))
    random.Random(1).shuffle(order)
    pairs = [(user, item, beside[1]) for (user, item), beside in whole.items()]
    user, item, timestamp = (
        list(column) for column in zip(*(pairs[n] for n in order), strict=True)
    )
    columns = {"user": user, "item": item, "timestamp": timestamp}
    shuffled = write_parts(tmp_path / "shuffled", columns, [7, 50, 51])
    monkeypatch.setattr(splitting, "_MOST_PAIRS", 30)
    prepared(shuffled, tmp_path / "b", split=AskedSplit(fraction=0.25))
    assert [set(part) for part in both(tmp_path / "b")] == [set(train), set(test)]
    prepared(log, tmp_path / "c", split=AskedSplit(fraction=0.25, seed=1))
    assert set(both(tmp_path / "c")[1]) != set(test)


def test_of_pairs_at_one_time_the_seed_and_the_ids_say_which_is_the_last(tmp_path: Path) -> None:
    columns = {"user": np.repeat(np.arange(300), 20).tolist(), "item": list(range(20)) * 300}
    log = write_parts(tmp_path / "log", columns | {"timestamp": [1] * 6000}, [])
    held_out = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        prepared(log, tmp_path / name, split=AskedSplit("last", n=10, seed=seed))
        test = open_stored(tmp_path / name).test
        assert test is not None
        np.testing.assert_allclose(test.item_degrees, 150, atol=4 * (300 * 0.25) ** 0.5)
        held_out.append(test.sha256)
    assert held_out[0] == held_out[1] != held_out[2]


def test_every_item_is_held_out_as_often(tmp_path: Path) -> None:
    columns = {"user": np.repeat(np.arange(500), 20).tolist(), "item": list(range(20)) * 500}
    log = write_parts(tmp_path / "log", columns, [])
    prepared(log, tmp_path / "s", split=AskedSplit(fraction=0.5))
    test = open_stored(tmp_path / "s").test
    assert test is not None
    spread = 4 * (500 * 0.5 * 0.5) ** 0.5
    np.testing.assert_allclose(test.item_degrees, 250, atol=spread)


def test_a_training_set_is_split_later_as_at_once(log: Path, tmp_path: Path) -> None:
    asked = AskedSplit(fraction=0.3, seed=5)
    prepared(log, tmp_path / "whole")
    prepared(tmp_path / "whole", tmp_path / "later", split=asked)
    prepared(log, tmp_path / "at-once", split=asked)
    assert both(tmp_path / "later") == both(tmp_path / "at-once")
    with pytest.raises(ConfigError, match=r"a training set already.*a test part"):
        prepared(tmp_path / "later", tmp_path / "again", split=asked)


def test_without_times_the_order_of_the_rows_tells_the_last(tmp_path: Path) -> None:
    columns = {"user": ["a", "b", "a", "a", "b"], "item": [3, 2, 1, 2, 1]}
    log = write_parts(tmp_path / "log", columns, [1, 3])
    prepared(log, tmp_path / "s", split=AskedSplit("last"))
    assert set(both(tmp_path / "s")[1]) == {("a", 2), ("b", 1)}
    with pytest.raises(DataError, match="a split by time needs pairs with timestamps"):
        prepared(log, tmp_path / "t", split=AskedSplit("time"))
    assert not (tmp_path / "t").exists()


def test_an_empty_part_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="one part would be empty"):
        prepared(log, tmp_path / "s", split=AskedSplit("time", at="1600000000"))


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1) | st.lists(st.floats(), min_size=1),
    st.data(),
)
def test_the_nth_smallest_value_is_found_piece_by_piece(values: list[Any], data: Any) -> None:
    column = np.array(values)
    column = column[~np.isnan(column)] + 0  # -0.0 is 0.0
    if not len(column):
        return
    n, cut = (data.draw(st.integers(0, len(column) - 1)) for _ in range(2))
    found = nth_smallest(lambda: iter([column[:cut], column[cut:]]), n)
    assert found == np.sort(column)[n]


@given(st.lists(st.text(max_size=12), max_size=8))
def test_the_hash_of_a_text_is_its_own(texts: list[str]) -> None:
    stored = StoredTexts.of(texts)
    for text, found in zip(texts, hashed(stored.text, stored.offsets).tolist(), strict=True):
        value = 0xCBF29CE484222325
        for letter in text.encode("utf-8", "surrogatepass"):
            value = (value ^ letter) * 0x100000001B3 % 2**64
        assert found == value


def test_draws_that_are_equal_in_their_first_bits_are_told_apart(tmp_path: Path) -> None:
    data = read(write_parts(tmp_path / "log", {"user": [1] * 4, "item": [1, 2, 3, 4]}, []))
    draws = np.array([3, 1, 2, 0], np.uint64) + np.uint64(2**63)
    assert splitting._order(replace(data), draws).tolist() == [3, 1, 2, 0]
