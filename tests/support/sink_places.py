"""Small models, and places to which their lists are written and from which they are read."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers.scorer import UserItems
from ratiorec.sinks import Sink
from ratiorec_lab.bench.random_data import random_model

Row = tuple[Any, Any, float, int, str]


@dataclass(frozen=True)
class Place:
    """A sink, and what lies there."""

    sink: Sink
    rows: Callable[[], list[Row]]


class PulledPlugError(Exception):
    """The process ends in mid-run."""


def stop_after(n_users: int) -> Callable[[int, int], None]:
    """A progress that ends in an exception once more than so many users are ranked."""

    def progress(done: int, total: int) -> None:
        if done > n_users:
            raise PulledPlugError

    return progress


def in_parquet(path: Path) -> list[Row]:
    return sorted((tuple(row.values()) for row in pq.read_table(path).to_pylist()), key=_key)


def in_csv(path: Path) -> list[Row]:
    """Ids as numbers where all are."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    numeric = all(row[0].isdigit() and row[1].isdigit() for row in rows)
    ids = [(int(row[0]), int(row[1])) if numeric else row[:2] for row in rows]
    scored = ((float(np.float32(row[-3])), int(row[-2]), row[-1]) for row in rows)
    return sorted(((*pair, *rest) for pair, rest in zip(ids, scored, strict=True)), key=_key)


def in_sqlite(path: Path, table: str = "recommendations") -> list[Row]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute(f'SELECT * FROM "{table}"').fetchall(), key=_key)


def expected(model: Artifact, k: int = 5, **options: Any) -> list[Row]:
    """The rows of `recommend`, in the order of users and ranks."""
    rows = model.recommend(model.users.ids, k, **options).to_dicts()
    columns = ("user_id", "item_id", "score", "rank", "kind")
    return sorted((tuple(row[name] for name in columns) for row in rows), key=_key)


def _key(row: Row) -> tuple[Any, int]:
    return row[0], row[3]


def small_model(
    user_ids: Any = None, item_ids: Any = None, *, n_users: int = 60, n_items: int = 40
) -> Artifact:
    """Random factors; user u has seen u % 7 items, and the last user everything."""
    users = np.arange(n_users) * 3 if user_ids is None else np.array(user_ids, object)
    items = np.arange(n_items) + 1000 if item_ids is None else np.array(item_ids, object)
    seen = [np.arange(u % min(7, len(items) + 1)) for u in range(len(users) - 1)]
    seen.append(np.arange(len(items)))
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in seen])]).astype(np.int64)
    return Artifact(
        random_model(len(users), len(items), 8),
        Vocabulary(users, "user"),
        Vocabulary(items, "item"),
        UserItems(indptr, np.concatenate(seen).astype(np.int32)),
    )
