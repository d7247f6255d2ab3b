"""A place of each kind to which lists are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ratiorec.sinks import Sqlite, sink_of
from support.postgres_server import PostgresServer, postgres
from support.sink_places import Place, Row, in_csv, in_parquet, in_sqlite

__all__ = ["postgres"]


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Place:
    path = tmp_path / "lists.db"
    return Place(Sqlite(path), lambda: in_sqlite(path))


@pytest.fixture
def postgres_place(postgres: PostgresServer) -> Place:
    url = postgres.new_database()
    query = 'SELECT * FROM recommendations ORDER BY user_id COLLATE "C", rank'
    number = "SELECT * FROM recommendations ORDER BY user_id, rank"

    def rows() -> list[Row]:
        kinds = postgres.execute(
            "SELECT data_type FROM information_schema.columns "
            "WHERE table_name = 'recommendations' AND column_name = 'user_id'",
            url,
        )
        found = postgres.execute(query if kinds == [("text",)] else number, url)
        # its shortest text for a float32 is not that of the same number as a float64
        return [(user, item, float(np.float32(score)), *rest) for user, item, score, *rest in found]

    return Place(sink_of(url), rows)


@pytest.fixture(params=["parquet", "csv", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param in ("sqlite", "postgres"):
        found = request.getfixturevalue(f"{request.param}_place")
        assert isinstance(found, Place)
        return found
    path = tmp_path / f"lists.{request.param}"
    rows = {"parquet": in_parquet, "csv": in_csv}[request.param]
    return Place(sink_of(str(path)), lambda: rows(path))
