"""A report: one HTML file that needs nothing else to be read.

A page is a value made of values; `render` turns it into text and `write` into a file.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ratiorec.files import atomic_write
from ratiorec_lab.report.style import style_sheet
from ratiorec_lab.report.writing import clean, format_column, format_number

Block: TypeAlias = object
"""A part of a section; the macro of its class's name in blocks.html.j2 writes it."""


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


Cell: TypeAlias = str | float | Estimate | None
"""What stands in a table; None leaves the place empty."""


class Written(NamedTuple):
    """A cell as it is shown."""

    text: str
    css_class: str | None
    interval: str = ""
    is_best: bool = False


@dataclass(frozen=True)
class Table:
    """Rows below headers; the first cell of a row names it.

    A column of numbers is set to the right, with the same decimals in each row. In the columns
    `highest` and `lowest` (counted from 0) the best value is marked.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str
    highest: Collection[int] = ()
    lowest: Collection[int] = ()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.headers):
                raise ValueError(
                    f"row {number} of «{self.caption}» has {len(row)} cells"
                    f" for {len(self.headers)} headers"
                )

    def written(self) -> tuple[list[Written], list[list[Written]]]:
        """The headers and the rows in writing."""
        columns = [self._column(k) for k in range(len(self.headers))]
        heads, *rows = map(list, zip(*columns, strict=True)) if columns else [[]]
        return heads, rows

    def _column(self, k: int) -> list[Written]:
        cells = [row[k] for row in self.rows]
        values = [_value(cell) for cell in cells]
        finite = [value for value in values if math.isfinite(value)]
        best = math.nan
        if len(finite) > 1 and (k in self.highest or k in self.lowest):
            best = max(finite) if k in self.highest else min(finite)
        known = [cell for cell in cells if cell is not None]
        css_class = "number" if known and all(map(_is_number, known)) else None
        write = format_column(finite)
        column = [Written(self.headers[k], css_class)]
        for cell, value in zip(cells, values, strict=True):
            text = write(value) if _is_number(cell) else cell_text(cell)
            spread = ""
            if isinstance(cell, Estimate):
                spread = f"{write(cell.low)} to {write(cell.high)}"
            column.append(Written(text, css_class, spread, is_best=value == best))
        return column


def cell_text(cell: Cell) -> str:
    """A single cell in writing, without regard to others.

    >>> cell_text(29858), cell_text("a"), cell_text(None)
    ('29,858', 'a', '')
    """
    return format_number(_value(cell)) if _is_number(cell) else str(cell or "")


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, numbers.Real | Estimate)  # numpy's numbers are registered as Real


def _value(cell: Cell) -> float:
    """What a cell is compared by; a cell without a number equals nothing."""
    if isinstance(cell, Estimate):
        return cell.value
    return math.nan if cell is None or isinstance(cell, str) else float(cell)


@dataclass(frozen=True)
class Figure:
    """A chart with words below it, and its numbers for those who open them."""

    svg: Markup
    caption: str = ""
    numbers: Table | None = None


@dataclass(frozen=True)
class KeyValues:
    """Figures worth seeing first, each under its name; or facts, one line each."""

    pairs: Mapping[str, Cell]
    in_lines: bool = False


@dataclass(frozen=True)
class Listing:
    """Lines of text and note below a heading, numbered where their order is a ranking."""

    heading: str
    entries: Sequence[tuple[str, str]]
    numbered: bool = False


@dataclass(frozen=True)
class Section:
    """Blocks that belong together, below a heading; links may lead to its `anchor`."""

    heading: str
    blocks: Sequence[Block]
    anchor: str = ""


@dataclass(frozen=True)
class Columns:
    """Blocks side by side, each on a card; on a narrow screen one below another."""

    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole report; `links` are texts by address, the footer says how it came about."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str = ""
    links: Mapping[str, str] = field(default_factory=dict)


def render(page: Page) -> str:
    """The page as one HTML document."""
    template = _environment().get_template("page.html.j2")
    return template.render(page=page, style=Markup(style_sheet()))


def write(page: Page, path: str | Path) -> None:
    """Write the page to a file, whole or not at all."""
    content = render(page).encode()
    with atomic_write(Path(path)) as handle:
        handle.write(content)


def html(block: Block, level: int = 3, *, card: bool = False) -> Markup:
    """A block as markup, with its headings at this level."""
    macros = _environment().get_template("blocks.html.j2").module
    written = Markup(getattr(macros, type(block).__name__)(block, level))
    if card and not isinstance(block, Paragraph | KeyValues | Columns):
        return Markup('<div class="card">{}</div>').format(written)
    return written


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_writable,
    )
    environment.filters |= {"html": html, "cell_text": cell_text, "breakable": _breakable}
    return environment


def _breakable(path: str) -> Markup:
    """A text, such as the path of a setting, that may be broken after each of its parts."""
    return Markup(re.sub(r"([._])(?=\w)", r"\1<wbr/>", str(escape(clean(path)))))


def _writable(value: Any) -> Any:
    return clean(value) if type(value) is str else value
