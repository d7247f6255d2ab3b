"""The regenerated tables and figures as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratiorec_lab.report import page
from ratiorec_lab.report.markup import Markup, escape, join, tag
from ratiorec_lab.reproduce import drawing
from ratiorec_lab.reproduce.exhibits import BarPanel, CurveExhibit, Exhibit, Panel, TableExhibit
from ratiorec_lab.reproduce.wording import Cell, WordedTable, worded

_LEAST_WIDTH = 26.0
_WIDTHS = {".": 0.55, ",": 0.55, "−": 1.35}  # of signs, in widths of a digit
_LONGEST_FIGURE = 16  # a text as short as this, such as a time with its unit, is not broken
_FEW_REMARKS = 8  # more of them stand in columns
_LEAD = "The paper’s tables and figures, regenerated and set beside what was published."


def write_page(
    path: Path, exhibits: Sequence[Exhibit], *, title: str, facts: Mapping[str, str]
) -> None:
    """One HTML file with every exhibit, written whole or not at all."""
    how = [page.Section("How it was measured", page.Facts(facts))] if facts else []
    sections = [*how, *(_section(exhibit, k) for k, exhibit in enumerate(exhibits, 1))]
    page.write(page.Page(title, _LEAD, sections, footer="Made by ratiorec reproduce."), path)


def _section(exhibit: Exhibit, number: int) -> page.Section:
    remarks = [Remarks(exhibit.remarks)] if exhibit.remarks else []
    return page.Section(exhibit.title, *_blocks(exhibit, number), *remarks)


def _blocks(exhibit: Exhibit, number: int) -> Iterator[page.Block]:
    if isinstance(exhibit, TableExhibit):
        yield FigureTable(exhibit, f"note-{number}-")
        return
    yield page.Paragraph(exhibit.caption)
    if isinstance(exhibit, CurveExhibit):
        yield page.Columns([_curves(panel) for panel in exhibit.panels], _LEAST_WIDTH)
    else:
        yield page.Columns([_bars(panel) for panel in exhibit.panels], _LEAST_WIDTH)


def _curves(panel: Panel) -> page.Block:
    figure = page.Figure(drawing.curve_chart(panel), drawing.undrawn(panel))
    return _Plot(figure, page.Details("The numbers", drawing.curve_numbers(panel)))


def _bars(panel: BarPanel) -> page.Block:
    figure = page.Figure(drawing.bar_chart(panel))
    return _Plot(figure, page.Details("The numbers", drawing.bar_numbers(panel)))


@dataclass(frozen=True)
class _Plot:
    """A chart and its numbers."""

    figure: page.Figure
    numbers: page.Details

    def html(self, level: int) -> Markup:
        return join(self.figure.html(level), self.numbers.html(level))


@dataclass(frozen=True)
class Remarks:
    """What a reader must know of an exhibit, in sentences."""

    sentences: Sequence[str]

    def html(self, level: int) -> Markup:
        told = [tag("li", escape(_with_units(sentence))) for sentence in self.sentences]
        heading = tag(f"h{level}", escape("Where we differ"))
        return tag("div", heading, tag("ul", *told), class_=f"remarks{' many' * self.are_many}")

    @property
    def are_many(self) -> bool:
        return len(self.sentences) > _FEW_REMARKS


@dataclass(frozen=True)
class FigureTable:
    """A table whose cells hold our figure above the published one."""

    table: TableExhibit
    anchor: str  # what the names of its notes begin with

    def html(self, level: int) -> Markup:
        words = worded(self.table)
        digits = [_digits(cells) for cells in zip(*(cells for _, cells in words.rows), strict=True)]
        body = [
            tag(
                "tr",
                tag("th", escape(name), scope="row"),
                *(self._cell(cell, width) for cell, width in zip(cells, digits, strict=True)),
            )
            for name, cells in words.rows
        ]
        if not body:
            body = [tag("tr", tag("td", escape("no rows"), colspan=len(self.table.columns) + 1))]
        table = tag(
            "table",
            tag("caption", tag("span", escape(self.table.caption))),
            tag("thead", tag("tr", _corner(words), *self._headers())),
            tag("tbody", *body),
            class_="figures",
        )
        # A table wider than the screen scrolls by itself; the keyboard must reach it too.
        region = tag(
            "div", table, class_="scroll", role="region", aria_label=self.table.title, tabindex=0
        )
        return join(region, self._notes(words))

    def _headers(self) -> list[Markup]:
        return [tag("th", escape(name), scope="col") for name in self.table.columns]

    def _cell(self, cell: Cell, digits: float) -> Markup:
        if cell.is_text:
            is_short = len(cell.ours) <= _LONGEST_FIGURE
            return tag("td", escape(_unbroken(cell.ours) if is_short else cell.ours))
        if cell.is_figure:
            value = tag("span", escape(cell.ours), class_="value")
            spread = tag("span", escape(f" {cell.spread}"), self._mark(cell), class_="spread")
            parts = [value, spread]
        else:
            parts = [tag("span", escape(cell.ours), self._mark(cell), class_="words")]
        if cell.published:
            said = tag("span", escape(f", {drawing.PUBLISHED} "), class_="unseen")
            parts.append(tag("span", said, escape(cell.published), class_="published"))
        if cell.difference:
            text = escape(f" {_unbroken(cell.difference)}")
            parts.append(tag("span", text, class_=f"difference {cell.verdict}"))
        if cell.is_best:
            parts.append(tag("span", escape(" (best)"), class_="unseen"))
        inner = tag("div", *parts, class_="figure", style=f"--digits:{digits:g}ch")
        return tag("td", inner, class_="best" if cell.is_best else None)

    def _mark(self, cell: Cell) -> Markup:
        if not cell.note:
            return join()
        link = tag("a", escape(cell.note), href=f"#{self.anchor}{cell.note}")
        return tag("sup", link)

    def _notes(self, words: WordedTable) -> Markup:
        told = [
            tag("li", tag("sup", escape(letter)), escape(f" {remark}"), id=f"{self.anchor}{letter}")
            for letter, remark in words.notes.items()
        ]
        listed = tag("ol", *told) if told else join()
        return tag("div", tag("p", escape(_with_units(words.how_to_read))), listed, class_="notes")


def _corner(words: WordedTable) -> Markup:
    """What the upper and the lower line of a cell are."""
    cells = [cell for _, row in words.rows for cell in row]
    lines = [drawing.OURS] if any(cell.is_figure for cell in cells) else []
    lines += [drawing.PUBLISHED] if any(cell.published for cell in cells) else []
    return tag("td", *(tag("div", escape(line)) for line in lines))


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _with_units(sentence: str) -> str:
    """The sentence with per cent signs that stay with their figures."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", sentence)


def _digits(cells: Sequence[Cell]) -> float:
    """How many digits' widths the longest figure of a column needs."""
    texts = [text for cell in cells for text in (cell.ours * cell.is_figure, cell.published)]
    return max((sum(_WIDTHS.get(one, 1.0) for one in text) for text in texts), default=0.0)
