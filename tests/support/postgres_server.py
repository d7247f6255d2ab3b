"""A PostgreSQL server of our own for tests, which they may stop and start as they like."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "open:sesame"
_ENCODED = "open%3Asesame"
_SETTINGS = ("fsync=off", "shared_buffers=16MB", "listen_addresses=127.0.0.1", "lc_messages=C")


@dataclass
class PostgresServer:
    """A cluster in a folder; it is reached over the loopback, by a password."""

    programs: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    n_databases: int = 0
    as_user: dict[str, Any] = field(default_factory=dict)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = (*_SETTINGS, f"port={self.port}", f"unix_socket_directories={self.folder}")
        options = [word for setting in settings for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *options],
                stdout=log,
                stderr=log,
                cwd="/",
                **self.as_user,
            )
        for _ in range(600):
            assert self.process.poll() is None, (self.folder / "log").read_text()
            ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise TimeoutError("PostgreSQL does not answer")

    def stop(self) -> None:
        """Stop the server at once, whoever is connected."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgresql://{user}:{_ENCODED}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of a database in which there is nothing yet."""
        self.n_databases += 1
        name = f"test_{self.n_databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement; the rows it gives, if it gives any."""
        import psycopg

        with closing(psycopg.connect(url or self.url(), autocommit=True)) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of a process; one that stops it starts it again."""
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with running(programs) as server:
        yield server


@contextmanager
def running(programs: Path) -> Iterator[PostgresServer]:
    """A new cluster, gone when the block ends."""
    as_user = _unprivileged()
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        (folder / "password").write_text(PASSWORD, encoding="utf-8")
        if as_user:
            for path in (folder, folder / "password"):
                shutil.chown(path, as_user["user"], as_user["group"])
        subprocess.run(
            [
                *(programs / "initdb", "--pgdata", folder / "data", "--username", "postgres"),
                *("--auth", "scram-sha-256", "--pwfile", folder / "password"),
                *("--no-sync", "--encoding", "UTF8", "--locale", "C"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd="/",
            **as_user,
        )
        server = PostgresServer(programs, folder, _free_port(), as_user=as_user)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _programs() -> Path | None:
    """The folder of the newest server that is installed; Debian keeps it off the path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(folders, key=lambda folder: float(folder.parent.name), default=None)


def _unprivileged() -> dict[str, Any]:
    """Someone else where we are root, as whom PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
