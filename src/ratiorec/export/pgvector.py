"""Item vectors in a table of PostgreSQL, with an index of the extension pgvector."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, StorageError
from ratiorec.export.vectors import Judge, Measured, Vectors
from ratiorec.scorers import FloatMatrix, Indices
from ratiorec.sinks.address import postgres_of
from ratiorec.sinks.postgres import Postgres
from ratiorec.sinks.sql import check_table_name

if TYPE_CHECKING:
    from psycopg import Connection


@dataclass(frozen=True)
class VectorTable:
    """A new table that takes the place of `name` in the end, inside an open transaction.

    `name` is one that needs no escaping; other names are quoted by the server or the driver.
    """

    connection: Connection[Any]
    where: str
    name: str
    new_name: str = field(default_factory=lambda: f"ratiorec_export_{secrets.token_hex(6)}")

    def require_extension(self) -> None:
        """Make the extension where it is missing, and let its names be found wherever it is."""
        if not self._value("SELECT 1 FROM pg_extension WHERE extname = 'vector'"):
            if not self._value("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
                raise StorageError(
                    "the server has no pgvector",
                    where=self.where,
                    found="no extension named vector among those that can be created",
                    wanted="pgvector installed on the server, such as the package "
                    "postgresql-NN-pgvector; or --to faiss or parquet",
                )
            self._run("CREATE EXTENSION vector")
        self._run(
            "SELECT set_config('search_path', "
            "concat_ws(', ', nullif(current_setting('search_path'), ''), "
            "quote_ident(nspname)), true) "
            "FROM pg_extension JOIN pg_namespace AS n ON n.oid = extnamespace "
            "WHERE extname = 'vector'"
        )

    def has_hnsw(self) -> bool:
        return bool(self._value("SELECT 1 FROM pg_am WHERE amname = 'hnsw'"))

    def require_replaceable(self) -> None:
        """Refuse to replace anything but a table of vectors."""
        if self._old is None:
            return
        kind = self._value("SELECT relkind::text FROM pg_class WHERE oid = %s", self._old)
        found = self._run(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            self._old,
        ).fetchall()
        names = [name for name, _ in found]
        if kind != "r" or names != ["item_id", "embedding"] or found[1][1] != "vector":
            raise StorageError(
                "the table is not one of vectors and is left as it is",
                where=f"{self.where}, table {self.name}",
                found=", ".join(f"{name} {kind}" for name, kind in found) or "no columns",
                wanted="item_id, embedding vector; or another --table",
            )

    def fill(self, ids: NDArray[Any], vectors: FloatMatrix) -> None:
        """Make the new table and copy all rows into it."""
        kind = "bigint" if ids.dtype == np.int64 else "text"
        self._run(
            f"CREATE TABLE {self._new} (item_id {kind} PRIMARY KEY, "
            f"embedding vector({vectors.shape[1]}) NOT NULL)"
        )
        statement = f"COPY {self._new} (item_id, embedding) FROM STDIN"
        with self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for identifier, vector in zip(ids.tolist(), vectors, strict=True):
                copy.write_row((identifier, as_text(vector)))

    def index(self, definition: str, *, memory_mb: int = 0) -> None:
        """Build the index anew over the rows that are there, and let the planner know them."""
        self._run(f'DROP INDEX IF EXISTS {self._schema}."{self.new_name}_idx"')
        self._run(
            "SELECT set_config(name, %s, true) FROM pg_settings "
            "WHERE name = 'maintenance_work_mem' AND setting::bigint < %s",
            f"{memory_mb}MB",
            memory_mb * 1024,
        )
        self._run(f'CREATE INDEX "{self.new_name}_idx" ON {self._new} {definition}')
        self._run(f"ANALYZE {self._new}")
        # a small table would be read from end to end, and the index not be measured
        self._run("SET LOCAL enable_seqscan = off")

    def search_with(self, variable: str, value: int) -> None:
        """Let searches in this transaction look at more or fewer rows."""
        self._run("SELECT set_config(%s, %s, true)", variable, str(value))

    def search(self, vector: str, k: int) -> list[Any]:
        """The ids of the k rows with the largest inner products, as the index finds them."""
        rows = self._run(
            f"SELECT item_id FROM {self._new} ORDER BY embedding <#> %s::vector LIMIT %s", vector, k
        )
        return [row[0] for row in rows.fetchall()]

    def put_in_place(self, comment: str) -> None:
        """Drop the old table, give its name and the rights to it to the new one."""
        from psycopg import sql

        if self._old is not None:
            self._hand_over_rights()
            self._run(f'DROP TABLE {self._schema}."{self.name}"')
        self._run(f'ALTER TABLE {self._new} RENAME TO "{self.name}"')
        place = sql.SQL(f'{self._schema}."{self.name}"')
        self.connection.execute(
            sql.SQL("COMMENT ON TABLE {} IS {}").format(place, sql.Literal(comment))
        )

    def n_bytes(self) -> int:
        """The size of the table with its index, once it is in place."""
        place = f'{self._schema}."{self.name}"'
        return int(self._value("SELECT pg_total_relation_size(%s::regclass)", place))

    def _hand_over_rights(self) -> None:
        rights = self._run(
            "SELECT privilege_type, CASE WHEN grantee = 0 THEN 'PUBLIC' "
            "ELSE quote_ident(pg_get_userbyid(grantee)) END, is_grantable "
            "FROM pg_class, aclexplode(relacl) WHERE oid = %s AND grantee <> relowner",
            self._old,
        )
        for right, role, may_grant in rights.fetchall():
            suffix = " WITH GRANT OPTION" if may_grant else ""
            self._run(f"GRANT {right} ON {self._new} TO {role}{suffix}")

    @cached_property
    def _old(self) -> int | None:
        """The table that stands there, if any."""
        found = self._value("SELECT to_regclass(%s)::oid", f'"{self.name}"')
        return None if found is None else int(found)

    @cached_property
    def _schema(self) -> str:
        """That of the old table, or the first in which tables are made; quoted."""
        if self._old is None:
            return str(self._value("SELECT quote_ident(current_schema())"))
        return str(
            self._value(
                "SELECT quote_ident(relnamespace::regnamespace::name::text) FROM pg_class "
                "WHERE oid = %s",
                self._old,
            )
        )

    @property
    def _new(self) -> str:
        return f'{self._schema}."{self.new_name}"'

    def _run(self, statement: str, *values: Any) -> Any:
        return self.connection.execute(statement.encode(), values or None)

    def _value(self, statement: str, *values: Any) -> Any:
        row = self._run(statement, *values).fetchone()
        return None if row is None else row[0]


def as_text(vector: NDArray[np.float32]) -> str:
    """A vector as pgvector reads it, to the last digit.

    >>> as_text(np.array([0.5, -3], np.float32))
    '[0.5,-3]'
    """
    return "[" + ",".join(f"{value:.9g}" for value in vector.tolist()) + "]"


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
        """The table of that name in the database of that URL."""
        if not url.lower().startswith(("postgresql://", "postgres://")):
            raise ConfigError(
                "pgvector is an extension of PostgreSQL",
                where="--url",
                found="the name of something else",  # not shown: it may hold a password
                wanted="postgresql://USER@HOST/DATABASE",
            )
        return cls(postgres_of(url, check_table_name(table), where="--url"))

    def write(self, vectors: Vectors, judge: Judge) -> tuple[Measured, int]:
        """Replace the table; what its index finds, and its size in bytes."""
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
            found = {"settings": measured.settings, "vectors": vectors.kind, "k": judge.k}
            found["recall"] = measured.recall
            table.put_in_place(f"ratiorec export: {json.dumps(found)}")
            return measured, table.n_bytes()

    @contextmanager
    def _transaction(self) -> Iterator[VectorTable]:
        """A table to be written; nothing of it stays when the block raises."""
        with (
            closing(self.postgres.connect(where="--to pgvector")) as connection,
            self.postgres.told(_BACK),
            connection.transaction(),
        ):
            table = VectorTable(connection, self.postgres.where, self.postgres.table)
            table.require_extension()
            yield table


def _tries(
    table: VectorTable, plans: tuple[IndexPlan, ...], vectors: Vectors, judge: Judge
) -> Iterator[tuple[dict[str, Any], Indices]]:
    """One index after the other, each searched ever further."""
    for plan in plans:
        table.index(plan.definition, memory_mb=plan.memory_mb)
        for strength in plan.strengths:
            search = _search_in(table, plan.variable, strength, vectors)
            yield plan.settings(strength), judge.lists(search)


def _search_in(
    table: VectorTable, variable: str, strength: int, vectors: Vectors
) -> Callable[[FloatMatrix, int], Indices]:
    """Real queries that find so many items for some users [n, k]; -1 where they find fewer."""
    table.search_with(variable, strength)

    def search(users: FloatMatrix, k: int) -> Indices:
        found = np.full((len(users), k), -1, np.int64)
        for row, vector in enumerate(users):
            ids = table.search(as_text(vector), k)
            found[row, : len(ids)] = vectors.model.items.indices(ids)
        return found

    return search
