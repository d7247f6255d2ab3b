"""The regenerated tables and figures as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ratiorec_lab.report import page
from ratiorec_lab.reproduce import drawing
from ratiorec_lab.reproduce.exhibits import (
    AGREES,
    DIFFERS,
    NOTE,
    CurveExhibit,
    Exhibit,
    TableExhibit,
    by_side,
)
from ratiorec_lab.reproduce.verdict import RULES, Verdict, summary
from ratiorec_lab.reproduce.wording import OURS, PUBLISHED, Cell, WordedTable, worded

_WIDTHS = {".": 0.55, ",": 0.55, "−": 1.35}  # of signs, in widths of a digit
_LONGEST_FIGURE = 16  # a text as short as this, such as a time with its unit, is not broken
_LEAD = "The paper’s tables and figures, regenerated and set beside what was published."


def write_page(
    path: Path,
    exhibits: Sequence[Exhibit],
    *,
    title: str,
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict] = (),
    links: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """One HTML file with the verdicts first and how it was measured last, whole or not at all."""
    titles = {exhibit.id: exhibit.title for exhibit in exhibits}
    first = [page.Section("Verdict", [VerdictTable.of(verdicts, titles)], "verdict")]
    last = [page.Section("How it was measured", [page.KeyValues(facts, in_lines=True)], "facts")]
    sections = [
        *first[: len(verdicts)],
        *_sections(exhibits),
        *last[: len(facts)],
    ]
    footer = "Made by ratiorec reproduce."
    page.write(page.Page(title, _LEAD, sections, footer=footer, links=links), path)


HEADINGS = {AGREES: "Where we agree", DIFFERS: "Where we differ", NOTE: "Notes"}


def _sections(exhibits: Sequence[Exhibit]) -> Iterator[page.Section]:
    taken: set[str] = set()
    for number, exhibit in enumerate(exhibits, 1):
        section = _section(exhibit, number)
        yield replace(section, anchor="") if section.anchor in taken else section
        taken.add(section.anchor)


def _section(exhibit: Exhibit, number: int) -> page.Section:
    told = [
        Remarks(HEADINGS[side], [*map(_with_units, sentences)])
        for side, sentences in by_side(exhibit.remarks).items()
    ]
    return page.Section(exhibit.title, [*_blocks(exhibit, number), *told], anchor_of(exhibit))


def anchor_of(exhibit: Exhibit) -> str:
    """A name that a link may lead to, whatever the exhibit is called."""
    return "x-" + re.sub(r"[^A-Za-z0-9_-]+", "-", exhibit.id)


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
    """What a reader must know of an exhibit, in sentences of one side."""

    heading: str
    sentences: Sequence[str]


class VerdictRow(NamedTuple):
    """A claim in words."""

    sentence: str
    where: str
    status: str
    figures: Sequence[str]
    anchor: str
    exhibit: str


@dataclass(frozen=True)
class VerdictTable:
    """Every claim with its verdict and a link to the evidence."""

    caption: str
    rows: Sequence[VerdictRow]
    rules: Sequence[str] = RULES

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], titles: Mapping[str, str]) -> VerdictTable:
        """The verdicts, with the titles of the exhibits by id."""
        rows = [
            VerdictRow(
                one.claim.sentence,
                re.sub(r"(Table|Figure) ", "\\1\N{NO-BREAK SPACE}", one.claim.where),
                one.status,
                one.figures.split("; "),
                f"x-{one.claim.exhibit}",
                titles[one.claim.exhibit],
            )
            for one in verdicts
        ]
        return cls(summary(verdicts), rows)


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
