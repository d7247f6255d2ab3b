"""Sinks from what is written after `-o`: a path, or the URL of a database."""

from __future__ import annotations

import re
from pathlib import Path

from ratiorec.errors import ConfigError
from ratiorec.sinks.csv_file import CsvFile
from ratiorec.sinks.job import Sink
from ratiorec.sinks.parquet import ParquetFile
from ratiorec.sinks.parts import FileOfParts
from ratiorec.sinks.postgres import Postgres
from ratiorec.sinks.sql import check_table_name
from ratiorec.sinks.sqlite import Sqlite

DEFAULT_TABLE = "recommendations"
_WANTED = (
    "a file name that ends in .parquet or .csv, sqlite:///FILE, "
    "postgresql://USER@HOST/DATABASE, or --json"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^:@/?#,\[\]\s]*)(?::\d+)?"
_POSTGRES = re.compile(
    r"(?P<scheme>postgres(?:ql)?://)"
    r"(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    rf"(?P<rest>{_HOST}(?:,{_HOST})*(?:/[^@/?#\s]*)?)"
    r"(?P<options>\?[^@#\s]*)?"
)


def sink_of(text: str, table: str | None = None) -> Sink:
    """The sink that a path or a URL names.

    >>> sink_of("postgresql://ada:secret@db/shop").where
    'postgresql://ada@db/shop'
    """
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _file(text, table)
    name = check_table_name(DEFAULT_TABLE if table is None else table)
    match scheme[1].lower():
        case "sqlite":
            return _sqlite(text, name)
        case "postgresql" | "postgres":
            return postgres_of(text, name)
    raise ConfigError(
        "there is no sink of this kind",
        where="-o",
        found=f"{scheme[1]}://…",  # no more of it: it may hold a password
        wanted=_WANTED,
    )


def _file(text: str, table: str | None) -> FileOfParts:
    path = Path(text)
    kind = {".parquet": ParquetFile, ".csv": CsvFile}.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(
            "lists are written as Parquet or CSV, or to a database",
            where="-o",
            found=text,
            wanted=_WANTED,
        )
    if table is not None:
        raise ConfigError(
            "a file has no table",
            where="--table",
            found=table,
            wanted="the URL of a database after -o, or no --table",
        )
    return kind(path)


def _sqlite(text: str, table: str) -> Sqlite:
    path = text[len("sqlite://") :].removeprefix("/")
    if not text.lower().startswith("sqlite:///") or path in ("", ":memory:"):
        raise ConfigError(
            "the URL names no SQLite file",
            where="-o",
            found=text,
            wanted="sqlite:///FILE, with a fourth stroke where the path starts at the root",
        )
    return Sqlite(Path(path), table)


def postgres_of(text: str, table: str, *, where: str = "-o") -> Postgres:
    """The table of a PostgreSQL database; the options, which may hold a password, are not shown."""
    found = _POSTGRES.fullmatch(text)
    if found is None:
        raise ConfigError(
            "the URL of the database cannot be read",
            where=where,
            found="postgresql://… (not shown, since it may hold a password)",
            wanted="postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS, with every special "
            "character of a name or password written as % and two digits",
        )
    user = f"{found['user']}@" if found["user"] else ""
    options = re.findall(r"[?&](?:ssl)?password=([^&]*)", found["options"] or "")
    secrets = [secret for secret in (found["password"], *options) if secret]
    return Postgres(text, f"{found['scheme']}{user}{found['rest']}", table, tuple(secrets))
