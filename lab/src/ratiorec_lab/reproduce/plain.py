"""Exhibits in writing, for a terminal."""

from __future__ import annotations

from ratiorec_lab.reproduce.exhibits import BarExhibit, Exhibit, TableExhibit
from ratiorec_lab.reproduce.wording import Cell, figure_text, worded

MOST_WIDTH = 100


def lines(exhibit: Exhibit) -> list[str]:
    """A title, the figures of a table or of bars, and every remark; curves need a page."""
    told = [exhibit.title]
    if isinstance(exhibit, TableExhibit):
        told += _table(exhibit)
    elif isinstance(exhibit, BarExhibit):
        told += [
            f"  {panel.title}: "
            + ", ".join(f"{bar.name} {_value(bar.value)}" for bar in panel.bars)
            for panel in exhibit.panels
        ]
    return told + [f"  {remark}" for remark in exhibit.remarks]


def _table(table: TableExhibit) -> list[str]:
    words = worded(table)
    rows = [["", *table.columns]]
    rows += [[name, *map(_cell, cells)] for name, cells in words.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    told: list[str] = []
    for columns in _groups(widths):
        told += [""] if told else []
        for row in rows:
            cells = [row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in columns)]
            told.append("  ".join(["", *cells]).rstrip())
    return told


def _groups(widths: list[int]) -> list[list[int]]:
    """The columns after that of the names, in groups that fit on a line beside it.

    >>> _groups([10, 50, 50, 10])
    [[1], [2, 3]]
    """
    groups: list[list[int]] = [[]]
    room = left = MOST_WIDTH - widths[0]
    for column, width in enumerate(widths[1:], start=1):
        if groups[-1] and width + 2 > left:
            groups.append([])
            left = room
        groups[-1].append(column)
        left -= width + 2
    return groups


def _cell(cell: Cell) -> str:
    """`.1812 ± .0003 (.1810, +0.1 %)`, as far as it is known."""
    printed = ", ".join(part for part in (cell.published, cell.difference) if part)
    return " ".join(
        part for part in (cell.ours, cell.spread, f"({printed})" if printed else "") if part
    )


def _value(value: float | None) -> str:
    return "not run" if value is None else figure_text(value)
