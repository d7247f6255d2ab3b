"""A second day's data: old ids keep their indices, and the pairs are those of both days at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec.data.stored import prepare as module
from ratiorec.data.stored.folder import MANIFEST, open_stored
from ratiorec.data.stored.splitting import AskedSplit
from ratiorec.errors import ConfigError, DataError, StorageError
from support.training_sets import by_ids, prepared, write_parts

ROWS = st.tuples(
    st.sampled_from(["ann", "bob", "cat", "dan"]),
    st.integers(0, 4),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.integers(1_700_000_000, 1_700_000_009),
)
DAY = st.lists(ROWS, min_size=1, max_size=12)
SHOWN = {"user": ["b", "a"], "item": [2, 1]}


@settings(max_examples=5)
@given(
    days=st.lists(DAY, min_size=2, max_size=2),
    n_columns=st.integers(2, 4),
    repeats=st.sampled_from([None, "sum", "max", "once"]),
)
def test_days_one_by_one_are_all_days_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    days: list[list[Any]],
    n_columns: int,
    repeats: str | None,
) -> None:
    folder = tmp_path_factory.mktemp("days")
    names = ("user", "item", "weight", "timestamp")[:n_columns]
    users: list[str] = []
    for place, day in enumerate(days):
        columns = dict(zip(names, map(list, zip(*day, strict=True)), strict=False))
        one = write_parts(folder / f"day-{place}", columns, [])
        data = prepared(one, folder / "set", append=place > 0, repeats=repeats)
        assert data.users.ids.tolist()[: len(users)] == users
        users = data.users.ids.tolist()
        assert data.users.indices(users).tolist() == list(range(len(users)))
    rows = [row for day in days for row in day]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=False))
    wanted = prepared(write_parts(folder / "all", columns, []), folder / "once", repeats=repeats)
    assert by_ids(data) == by_ids(wanted)
    assert sorted(data.items.ids.tolist()) == wanted.items.ids.tolist()
    assert data.reading is not None
    assert wanted.reading is not None
    for name in ("n_rows", "n_repeats", "first_time", "last_time"):
        assert getattr(data.reading, name) == getattr(wanted.reading, name)


@pytest.mark.parametrize("knows_kind", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1_700_000_000, 1_700_000_100], ["2024-01-01", "2024-01-02"]),
        (["2024-01-01", "2024-01-02"], [1_700_000_000, 1_700_000_100]),
        ([1_700_000_000, 1_700_000_100], [1_700_000_000_000, 1_700_000_000_001]),
        ([19_700, 19_701], [1_700_000_000.5, 1_700_000_100]),
    ],
    ids=["dates after seconds", "seconds after dates", "milliseconds", "seconds after days"],
)
def test_times_of_another_unit_are_refused(
    tmp_path: Path, first: list[Any], second: list[Any], knows_kind: bool
) -> None:
    one, two = (
        write_parts(tmp_path / f"day-{place}", {**SHOWN, "timestamp": times}, [])
        for place, times in enumerate((first, second))
    )
    prepared(one, tmp_path / "set")
    if not knows_kind:  # as it was before manifests told
        manifest = json.loads((tmp_path / "set" / MANIFEST).read_text())
        del manifest["reading"]["has_dates"]
        (tmp_path / "set" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="times are of another kind or unit"):
        prepared(two, tmp_path / "set", append=True)
    prepared(one, tmp_path / "set", append=True)


def test_dates_and_numbers_of_their_size_are_told_apart_and_counters_may_grow(
    tmp_path: Path,
) -> None:
    one, two, three = (
        write_parts(tmp_path / f"day-{place}", {**SHOWN, "timestamp": times}, [])
        for place, times in enumerate(([5, 6], [7000, 99_000_000], [110_000_000, 110_000_001]))
    )
    prepared(one, tmp_path / "counted")
    prepared(two, tmp_path / "counted", append=True)
    prepared(three, tmp_path / "counted", append=True)
    dates = write_parts(tmp_path / "dates", {**SHOWN, "timestamp": ["2024-01-01"] * 2}, [])
    prepared(dates, tmp_path / "set")
    alike = write_parts(tmp_path / "alike", {**SHOWN, "timestamp": [1_700_000_000_000_000] * 2}, [])
    with pytest.raises(DataError, match="dates, in microseconds"):
        prepared(alike, tmp_path / "set", append=True)


def test_what_would_not_be_both_days_at_once_is_refused(tmp_path: Path) -> None:
    one = write_parts(tmp_path / "one", {**SHOWN, "timestamp": [5, 6]}, [])
    prepared(one, tmp_path / "set")
    before = by_ids(open_stored(tmp_path / "set").train)
    others: list[tuple[dict[str, list[Any]], dict[str, Any], str]] = [
        ({"user": [7], "item": [1], "timestamp": [5]}, {}, "another type"),
        (SHOWN, {}, "other columns than the training set"),
        ({**SHOWN, "timestamp": [5, 6]}, {"half_life": 1}, "depend on all rows"),
        ({**SHOWN, "timestamp": [5, 6]}, {"repeats": "max"}, "weighed otherwise"),
        ({**SHOWN, "timestamp": [5, 6]}, {"split": AskedSplit()}, "takes no more pairs"),
    ]
    for place, (columns, how, what) in enumerate(others):
        two = write_parts(tmp_path / f"other-{place}", columns, [])
        with pytest.raises((DataError, ConfigError), match=what):
            prepared(two, tmp_path / "set", append=True, **how)
    assert by_ids(open_stored(tmp_path / "set").train) == before
    with pytest.raises(DataError, match="the training set is incomplete"):
        prepared(one, tmp_path / "nothing", append=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(StorageError, match=r"not a training set and is left.*thesis.tex"):
        prepared(one, tmp_path / "mine")


def test_two_appends_at_once_do_not_undo_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (
        write_parts(tmp_path / name, {"user": [name], "item": [1]}, []) for name in ("one", "two")
    )
    prepared(one, tmp_path / "set")
    merged = module._merged_parts

    def meanwhile(*words: Any) -> Any:
        monkeypatch.setattr(module, "_merged_parts", merged)
        prepared(two, tmp_path / "set", append=True)
        return merged(*words)

    monkeypatch.setattr(module, "_merged_parts", meanwhile)
    with pytest.raises(DataError, match="changed by another command"):
        prepared(one, tmp_path / "set", append=True)
    assert open_stored(tmp_path / "set").train.users.ids.tolist() == ["one", "two"]


def test_a_kill_leaves_the_old_folder_or_the_new_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one = write_parts(tmp_path / "one", SHOWN, [])
    many = {"user": rng.integers(0, 9000, 200_000).astype(str).tolist(), "item": [1] * 200_000}
    two = write_parts(tmp_path / "two", many, [])
    target = tmp_path / "set"
    prepared(one, target)
    words = ["data", "prepare", str(two), "-o", str(target), "--append"]
    found = []
    for moment in ("work/work.duckdb", "work/bucket-0", "manifest.json"):
        child = subprocess.Popen(
            [sys.executable, "-m", "ratiorec", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while child.poll() is None and not list(tmp_path.glob(f".set.*.tmp/{moment}")):
            time.sleep(0.0005)
        child.send_signal(signal.SIGKILL)
        child.wait()
        found.append(open_stored(target).train.n_users)
    assert set(found) <= {2, 9002}
    assert found[:2] == [2, 2]  # it was killed while it worked
    prepared(one, target)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".set")] == []
