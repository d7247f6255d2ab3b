"""The regenerated tables and figures as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ratiorec_lab.report import page
from ratiorec_lab.reproduce import drawing
from ratiorec_lab.reproduce.exhibits import CurveExhibit, Exhibit, TableExhibit
from ratiorec_lab.reproduce.wording import OURS, PUBLISHED, Cell, WordedTable, worded

_WIDTHS = {".": 0.55, ",": 0.55, "−": 1.35}  # of signs, in widths of a digit
_LONGEST_FIGURE = 16  # a text as short as this, such as a time with its unit, is not broken
_LEAD = "The paper’s tables and figures, regenerated and set beside what was published."


def write_page(
    path: Path, exhibits: Sequence[Exhibit], *, title: str, facts: Mapping[str, str]
) -> None:
    """One HTML file with every exhibit, written whole or not at all."""
    how = [page.Section("How it was measured", [page.KeyValues(facts, in_lines=True)])]
    sections = [
        *how[: len(facts)],
        *(_section(exhibit, k) for k, exhibit in enumerate(exhibits, 1)),
    ]
    page.write(page.Page(title, _LEAD, sections, footer="Made by ratiorec reproduce."), path)


def _section(exhibit: Exhibit, number: int) -> page.Section:
    told = [Remarks([*map(_with_units, exhibit.remarks)])] if exhibit.remarks else []
    return page.Section(exhibit.title, [*_blocks(exhibit, number), *told])


def _blocks(exhibit: Exhibit, number: int) -> Iterator[page.Block]:
    if isinstance(exhibit, TableExhibit):
        yield FigureTable.of(exhibit, f"note-{number}-")
        return
    yield page.Paragraph(exhibit.caption)
    if isinstance(exhibit, CurveExhibit):
        figures = [
            page.Figure(drawing.curve_chart(one), drawing.undrawn(one), drawing.curve_numbers(one))
            for one in exhibit.panels
        ]
    else:
        figures = [
            page.Figure(drawing.bar_chart(one), numbers=drawing.bar_numbers(one))
            for one in exhibit.panels
        ]
    yield page.Columns(figures)


@dataclass(frozen=True)
class Remarks:
    """What a reader must know of an exhibit, in sentences."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class FigureTable:
    """A table whose cells hold our figure above the published one."""

    table: TableExhibit
    words: WordedTable
    anchor: str  # what the names of its notes begin with

    @classmethod
    def of(cls, table: TableExhibit, anchor: str) -> FigureTable:
        words = worded(table)
        rows = tuple((name, tuple(map(_unbroken, cells))) for name, cells in words.rows)
        read = _with_units(words.how_to_read)
        return cls(table, replace(words, rows=rows, how_to_read=read), anchor)

    @property
    def corner(self) -> list[str]:
        """What the upper and the lower line of a cell are."""
        cells = [cell for _, row in self.words.rows for cell in row]
        lines = [OURS] if any(cell.is_figure for cell in cells) else []
        return lines + ([PUBLISHED] if any(cell.published for cell in cells) else [])

    @property
    def digits(self) -> list[str]:
        """How many digits' widths the longest figure of each column needs."""
        columns = zip(*(cells for _, cells in self.words.rows), strict=True)
        return [f"{max(map(_digits, cells), default=0.0):g}" for cells in columns]


def _digits(cell: Cell) -> float:
    texts = (cell.ours * cell.is_figure, cell.published)
    return max(sum(_WIDTHS.get(one, 1.0) for one in text) for text in texts)


def _unbroken(cell: Cell) -> Cell:
    """A short text, such as a time with its unit, stays on one line."""
    if not cell.is_text or len(cell.ours) > _LONGEST_FIGURE:
        return cell
    return replace(cell, ours=cell.ours.replace(" ", "\N{NO-BREAK SPACE}"))


def _with_units(sentence: str) -> str:
    """The sentence with per cent signs that stay with their figures."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", sentence)
