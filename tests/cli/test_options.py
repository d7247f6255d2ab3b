from __future__ import annotations

from pathlib import Path

import pytest

from ratiorec.cli import options
from ratiorec.errors import DataError, DataNotFoundError


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
