"""Small tables for people: in a terminal, and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Rows = Sequence[Sequence[str]]
"""Rows of cells, the first of them the heading."""


def text_table(rows: Rows) -> str:
    """Columns of equal width; the first is flush left.

    >>> print(text_table([["preset", "ndcg@20"], ["ease", "0.25"]]))
    preset  ndcg@20
    ease       0.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(rows: Rows, *, caption: str = "") -> str:
    """The same for a notebook; whatever the cells hold is shown and never run."""
    heading, *others = rows
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in others
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
