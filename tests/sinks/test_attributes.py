"""Attributes of listed items in every place that lists are written to."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags, Texts
from ratiorec.errors import ConfigError
from ratiorec.sinks import Job, sink_of, write_lists
from support.postgres_server import PostgresServer
from support.sink_places import PulledPlugError, small_model, stop_after

ODD = 'unit\n"price", {%s} ?'
PRICES = np.array([1.5, np.nan, 3, 1e-9] * 10)
TEXTS = ["nan", None, 'a "quoted"\nline', "x,y"] * 10
MODEL = small_model().with_items(
    Attributes(
        40,
        {
            "kind": Categories.of(["tea", "jam", None, "nan"] * 10),
            ODD: Numbers(PRICES),
            "labels": Tags.of([["new"], [], ["fair", "new"], ["a b"]] * 10),
            "about": Texts(np.array(TEXTS, object)),
        },
    )
)
JOB = Job.of(MODEL, MODEL.users.ids, 6, attributes="all", memory_mb=1e-3)  # ranks one by one
NAMES = ("user_id", "item_id", "rank", "item_kind", ODD, "labels", "about")
Rows = list[tuple[Any, ...]]


def wanted(*, joined: bool) -> Rows:
    """The rows as Python has them; tags as one text where they are joined."""
    found = []
    for row in MODEL.recommend(MODEL.users.ids, 6, attributes="all").to_dicts():
        kind, price, labels, about = row["attributes"].values()
        tags = ("|".join(labels) or None) if joined else labels
        found.append((row["user_id"], row["item_id"], row["rank"], kind, price, tags, about))
    return found


def in_csv(path: Path) -> Rows:
    """Nothing is a missing value; numbers are numbers."""
    kinds = (int, int, int, str, float, str, str)
    with path.open(newline="", encoding="utf-8") as file:
        rows = [[row[name] or None for name in NAMES] for row in csv.DictReader(file)]
    return [
        tuple(None if cell is None else kind(cell) for kind, cell in zip(kinds, row, strict=True))
        for row in rows
    ]


def in_sqlite(path: Path) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute("SELECT * FROM recommendations ORDER BY user_id, rank")
        return [tuple(row[name] for name in NAMES) for row in found]


@pytest.fixture(params=["parquet", "csv", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], Rows]]:
    """What stands behind -o, and what is there afterwards."""
    path = tmp_path / f"lists.{request.param}"
    if request.param == "parquet":
        return str(path), lambda: [
            tuple(row[name] for name in NAMES) for row in pq.read_table(path).to_pylist()
        ]
    if request.param == "csv":
        return str(path), lambda: in_csv(path)
    if request.param == "sqlite":
        return f"sqlite:///{path}", lambda: in_sqlite(path)
    postgres: PostgresServer = request.getfixturevalue("postgres")
    url = postgres.new_database()
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in NAMES)
    query = f"SELECT {columns} FROM recommendations ORDER BY user_id, rank"
    return url, lambda: postgres.execute(query, url)


def test_every_place_has_the_attributes_also_after_an_interruption(
    place: tuple[str, Callable[[], Rows]],
) -> None:
    sink, rows = sink_of(place[0]), place[1]
    with pytest.raises(PulledPlugError):
        write_lists(JOB, sink, users_at_a_time=7, progress=stop_after(30))
    said: list[str] = []
    write_lists(JOB, sink, users_at_a_time=7, notify=said.append)
    assert "going on after them" in said[0]
    assert rows() == wanted(joined=".parquet" not in place[0])


def test_another_choice_of_attributes_is_another_run(tmp_path: Path) -> None:
    sink, said = sink_of(str(tmp_path / "lists.csv")), list[str]()
    with pytest.raises(PulledPlugError):
        write_lists(JOB, sink, users_at_a_time=7, progress=stop_after(30))
    other = Job.of(MODEL, MODEL.users.ids, 6, attributes=["kind"])
    write_lists(other, sink, users_at_a_time=7, notify=said.append)
    assert said == ["an unfinished run of another model or request is given up"]


@pytest.mark.parametrize("n_columns", [1, 700])
def test_a_table_of_a_database_may_be_wide(tmp_path: Path, n_columns: int) -> None:
    columns = {f"c{n}": Numbers(np.arange(40.0)) for n in range(n_columns)}
    model = MODEL.with_items(Attributes(40, columns))
    job = Job.of(model, model.users.ids[:3], 5, attributes="all")
    tally = write_lists(job, sink_of(f"sqlite:///{tmp_path / 'wide.db'}"))
    assert tally.n_rows == 15


def test_a_name_that_a_database_would_cut_is_refused(tmp_path: Path) -> None:
    model = MODEL.with_items(Attributes(40, {"p" * 64: Numbers(PRICES)}))
    job = Job.of(model, model.users.ids, 5, attributes="all")
    with pytest.raises(ConfigError, match=r"too long for a database.*at most 63 bytes"):
        write_lists(job, sink_of(f"sqlite:///{tmp_path / 'lists.db'}"))
    assert write_lists(job, sink_of(str(tmp_path / "lists.csv"))).n_users == 60
