from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from ratiorec.cli import options
from ratiorec.errors import DataError, DataNotFoundError
from support.command_line import CommandLine


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"\xef\xbb\xbfa\nb", ["a", "b"]),
        (b"a\n\n  \nb\n", ["a", "b"]),
        (b' a b \nc,"d"\n', [" a b ", 'c,"d"']),
        ("x\u2028y\nz\x0bw\n".encode(), ["x\u2028y", "z\x0bw"]),
        (b"", []),
    ],
)
def test_a_line_is_an_id_to_the_last_character(
    tmp_path: Path, content: bytes, lines: list[str]
) -> None:
    (tmp_path / "ids.txt").write_bytes(content)
    assert options.read_lines(tmp_path / "ids.txt") == lines


def test_a_file_of_ids_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="no such file of ids"):
        options.read_lines(tmp_path / "none.txt")


def test_a_file_of_ids_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read"):
        options.read_lines(tmp_path / "ids.txt")


def test_json_keeps_names_readable_and_refuses_what_is_not_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options.print_json({"name": "Zoë"})
    assert '"Zoë"' in capsys.readouterr().out
    with pytest.raises(ValueError, match="not JSON compliant"):
        options.print_json({"risk": float("nan")})


def test_words_for_people_never_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    options.say("hello")
    assert capsys.readouterr() == ("", "hello\n")


def test_figures_are_shown_with_four_digits() -> None:
    shown = options.format_metrics({"recall@20": 0.18134, "ndcg@20": 1.0})
    assert shown == "recall@20 0.1813, ndcg@20 1.0000"


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option(min=1)] = 3
    is_large: Annotated[bool, typer.Option("--large")] = False


def test_a_group_is_one_option_for_each_field() -> None:
    called: list[tuple[str, Size, bool]] = []

    @options.grouped
    def command(name: str, *, size: Size, json: options.Json = False) -> None:
        """What it does."""
        called.append((name, size, json))

    command(name="a", width=4, is_large=True, json=False)
    assert called == [("a", Size(4, True), False)]
    parameters = inspect.signature(command).parameters
    assert list(parameters) == ["name", "width", "is_large", "json"]
    assert parameters["width"].default == 3
    assert (command.__name__, command.__doc__) == ("command", "What it does.")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("data", "describe"), {"user", "item", "weight", "timestamp", "event"}),
        (("data", "split"), {"user", "item", "weight", "timestamp", "event"}),
        (("evaluate",), {"user", "item", "weight", "timestamp", "event"}),
        (("update",), {"user", "item", "weight", "timestamp", "event"}),
    ],
)
def test_a_command_has_the_columns_that_it_looks_at(
    cli: CommandLine, words: tuple[str, ...], expected: set[str]
) -> None:
    text = cli(*words, "--help").out
    assert set(re.findall(r"--(\w+)-column", text)) == expected
    assert {"--data-dir", "--delimiter", "--no-header"} <= set(re.findall(r"--[\w-]+", text))


def test_columns_are_those_of_the_options(clicks: Path) -> None:
    found = options.load_data(str(clicks), options.Source(item_column="user_id", user_column="1"))
    assert "item-007" in found.train.users.ids.tolist()
