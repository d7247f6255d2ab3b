from __future__ import annotations

from pathlib import Path

import pytest

from ratiorec.errors import ConfigError
from ratiorec.sinks import CsvFile, ParquetFile, Postgres, Sqlite, sink_of


@pytest.mark.parametrize(("name", "kind"), [("lists.parquet", ParquetFile), ("a.CSV", CsvFile)])
def test_a_path_is_a_file_of_the_kind_that_its_name_says(name: str, kind: type) -> None:
    assert sink_of(f"out/{name}") == kind(Path("out") / name)


def test_three_strokes_begin_a_relative_path_and_four_an_absolute_one() -> None:
    assert sink_of("sqlite:///a/b.db") == Sqlite(Path("a/b.db"), "recommendations")
    assert sink_of("sqlite:////a/b.db", "home") == Sqlite(Path("/a/b.db"), "home")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@db.example:5433/shop", "postgresql://ada@db.example:5433/shop"),
        ("postgres://ada:se:cret@db/shop", "postgres://ada@db/shop"),
        ("postgresql://db/shop?user=ada&password=secret", "postgresql://db/shop"),
        ("postgresql://db/shop?sslmode=require", "postgresql://db/shop"),
        ("postgresql://ada:secret@[::1]:5432/shop", "postgresql://ada@[::1]:5432/shop"),
        ("postgresql://ada@a:1,b:2/shop", "postgresql://ada@a:1,b:2/shop"),
        ("postgresql:///shop", "postgresql:///shop"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, shown: str) -> None:
    found = sink_of(url, "home")
    assert isinstance(found, Postgres)
    assert (found.url, found.where, found.table) == (url, shown, "home")
    assert found.describe() == {"database": shown, "table": "home"}
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:se@cret@db/shop",
        "postgresql://ada:se/cret@db/shop",
        "postgresql://ada:se?cret@db/shop",
        "postgresql://ada:se#cret@db/shop",
        "postgresql://ada:se cret@db/shop",
        "postgresql://ada:secret",
        "postgresql+driver://ada:secret@db/shop",
        "mysql://ada:secret@db/shop",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sink_of(url)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["lists.txt", "lists", "sqlite://", "sqlite:///", "sqlite://a.db", "sqlite:///:memory:"]
)
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        sink_of(text)


@pytest.mark.parametrize(
    "name",
    ["", "a b", 'a"; DROP TABLE x; --', "1st", "a.b", "é", "a\n", "a" * 64, "Ratiorec_Progress"],
)
def test_a_table_has_a_plain_name(name: str) -> None:
    with pytest.raises(ConfigError, match="name of a table"):
        sink_of("sqlite:///lists.db", name)


def test_a_file_has_no_table() -> None:
    with pytest.raises(ConfigError, match="a file has no table"):
        sink_of("lists.parquet", "home")
