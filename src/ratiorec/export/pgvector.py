"""Item vectors in a table of PostgreSQL, with an index of the extension pgvector.

One transaction fills a new table, builds its index, searches it, and puts it in the place of the
old one: until it ends, others read the old table, and when it fails they go on doing so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from ratiorec.destinations.address import destination_of
from ratiorec.destinations.postgres import Postgres, _driver
from ratiorec.errors import ConfigError, MissingExtraError, StorageError
from ratiorec.export.pgvector_table import VectorTable, as_text
from ratiorec.export.trial import Judge, Measured
from ratiorec.export.vectors import Vectors
from ratiorec.scorers import Indices

_MOST_DIMENSIONS = 2000
_MOST_ITEMS_OF_HNSW = 2**20
_BACK = "the database back; then the same command again"
_EF_SEARCH = (40, 80, 160, 320, 640, 1000)  # 40 is what every session has unless it is told


@dataclass(frozen=True)
class IndexPlan:
    """An index of pgvector; `variable` says how far a session searches, weakest value first."""

    method: str
    options: dict[str, int]
    variable: str
    strengths: tuple[int, ...]

    memory_mb: int = 0
    """What building takes at least; a server refuses to begin with less."""

    @property
    def definition(self) -> str:
        options = ", ".join(f"{name} = {value}" for name, value in self.options.items())
        return f"USING {self.method} (embedding vector_ip_ops) WITH ({options})"

    def settings(self, strength: int) -> dict[str, Any]:
        return {"index": self.method, **self.options, self.variable: strength}


def plans_for(n_items: int, dimension: int, *, has_hnsw: bool) -> tuple[IndexPlan, ...]:
    """A graph and one with more links, or cells where items are many or pgvector is before 0.5.

    >>> plans_for(20_000, 64, has_hnsw=True)[0].definition
    'USING hnsw (embedding vector_ip_ops) WITH (m = 16, ef_construction = 64)'
    """
    if has_hnsw and n_items <= _MOST_ITEMS_OF_HNSW:
        # of a graph with few links some items are out of reach, however far a search goes
        return tuple(
            IndexPlan("hnsw", {"m": m, "ef_construction": 4 * m}, "hnsw.ef_search", _EF_SEARCH)
            for m in (16, 32)
        )
    n_lists = max(1, round(n_items / 1000 if n_items <= 10**6 else sqrt(n_items)))
    probes = sorted({max(1, n_lists // part) for part in (32, 16, 8, 4, 2)})
    # it draws 50 rows a cell and keeps how far each is from every cell
    memory_mb = 16 + 50 * n_lists * (n_lists + 2 * dimension) * 4 // 2**20
    return (IndexPlan("ivfflat", {"lists": n_lists}, "ivfflat.probes", tuple(probes), memory_mb),)


@dataclass(frozen=True)
class Pgvector:
    """A table item_id, embedding in a PostgreSQL database; indices to try by size unless given."""

    postgres: Postgres
    plans: tuple[IndexPlan, ...] | None = None

    @classmethod
    def at(cls, url: str, table: str = "items") -> Pgvector:
        """The table of that name in the database of that URL.

        Raises:
            ConfigError: The URL names no PostgreSQL database, or the table cannot have that name.
        """
        if not url.lower().startswith(("postgresql://", "postgres://")):
            raise ConfigError(
                "pgvector is an extension of PostgreSQL",
                where="--url",
                found="the name of something else",  # not shown: it may hold a password
                wanted="postgresql://USER@HOST/DATABASE",
            )
        try:
            found = destination_of(url, table)
        except ConfigError as error:
            where = "--url" if error.where == "-o" else error.where
            raise ConfigError(
                error.what, where=where, found=error.found, wanted=error.wanted
            ) from error
        assert isinstance(found, Postgres)
        return cls(found)

    def write(self, vectors: Vectors, judge: Judge) -> tuple[Measured, int]:
        """Replace the table; what its index finds, and its size in bytes.

        Raises:
            ConfigError: The index finds too little.
            StorageError: The database refused.
        """
        if vectors.dimension > _MOST_DIMENSIONS:
            raise ConfigError(
                "pgvector has no index over vectors of this length",
                where="--to pgvector",
                found=f"{vectors.dimension:,} dimensions",
                wanted=f"{_MOST_DIMENSIONS:,} at most, or --to faiss",
            )
        with self._transaction() as table:
            table.require_replaceable()
            plans = self.plans or plans_for(
                vectors.n_items, vectors.dimension, has_hnsw=table.has_hnsw()
            )
            table.fill(vectors.item_ids, vectors.items)
            measured = judge.first_that_reaches(_tries(table, plans, vectors, judge))
            found = {"settings": measured.settings, "k": judge.k, "recall": measured.recall}
            table.put_in_place(f"ratiorec export: {json.dumps(found)}")
            return measured, table.n_bytes()

    @contextmanager
    def _transaction(self) -> Iterator[VectorTable]:
        """A table to be written; nothing of it stays when the block raises."""
        with self._retold():
            connection = self.postgres._connection(_driver())
            try:
                with self.postgres.told(_BACK), connection.transaction():
                    table = VectorTable(connection, self.postgres.where, self.postgres.table)
                    table.require_extension()
                    yield table
            finally:
                connection.close()

    @contextmanager
    def _retold(self) -> Iterator[None]:
        """Errors of a destination of lists, in the words of an export."""
        try:
            yield
        except MissingExtraError as error:
            raise MissingExtraError(
                error.what, where="--to pgvector", found=error.found, wanted=error.wanted
            ) from error
        except StorageError as error:
            what = error.what.replace("the lists could", "the vectors could")
            wanted = error.wanted.replace("takes the lists", "takes the vectors")
            raise StorageError(what, where=error.where, found=error.found, wanted=wanted) from error


def _tries(
    table: VectorTable, plans: tuple[IndexPlan, ...], vectors: Vectors, judge: Judge
) -> Iterator[tuple[dict[str, Any], Indices]]:
    """One index after the other, each searched ever further."""
    for plan in plans:
        table.index(plan.definition, memory_mb=plan.memory_mb)
        for strength in plan.strengths:
            found = _lists(table, plan.variable, strength, vectors, judge)
            yield plan.settings(strength), found


def _lists(
    table: VectorTable, variable: str, strength: int, vectors: Vectors, judge: Judge
) -> Indices:
    """What real queries find for the users of the judge [n, k]; -1 where they find fewer."""
    table.search_with(variable, strength)
    found = np.full((len(judge.users), judge.k), -1, np.int64)
    for row, vector in enumerate(judge.vectors):
        ids = table.search(as_text(vector), judge.k)
        found[row, : len(ids)] = vectors.model.items.indices(ids)
    return found
