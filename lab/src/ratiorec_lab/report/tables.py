"""Tables of numbers and words."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ratiorec_lab.report.axes import format_column, format_number
from ratiorec_lab.report.markup import Markup, escape, join, tag


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


Cell: TypeAlias = str | float | Estimate | None
"""What stands in a table; None leaves the place empty."""


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

    def html(self, level: int) -> Markup:
        columns = [self._column(k) for k in range(len(self.headers))]
        head = [
            tag("th", escape(text), scope="col", class_=column.css_class)
            for text, column in zip(self.headers, columns, strict=True)
        ]
        body = [
            tag("tr", *(column.cell(cell) for column, cell in zip(columns, row, strict=True)))
            for row in self.rows
        ]
        if not body:
            body = [tag("tr", tag("td", escape("no rows"), colspan=len(self.headers)))]
        table = tag(
            "table",
            tag("caption", tag("span", escape(self.caption))),
            tag("thead", tag("tr", *head)),
            tag("tbody", *body),
        )
        # A table wider than the screen scrolls by itself; the keyboard must reach it too.
        return tag(
            "div", table, class_="scroll", role="region", aria_label=self.caption, tabindex=0
        )

    def _column(self, k: int) -> _Column:
        cells = [row[k] for row in self.rows]
        numeric = all(cell is None or _is_number(cell) for cell in cells) and any(
            cell is not None for cell in cells
        )
        values = [_value(cell) for cell in cells]
        finite = [value for value in values if math.isfinite(value)]
        best = math.nan
        if len(finite) > 1 and k in self.highest:
            best = max(finite)
        elif len(finite) > 1 and k in self.lowest:
            best = min(finite)
        return _Column(format_column(finite), best, is_numeric=numeric, is_first=k == 0)


@dataclass(frozen=True)
class _Column:
    """How the cells of one column are written."""

    write: Callable[[float], str]
    best: float
    is_numeric: bool
    is_first: bool

    @property
    def css_class(self) -> str | None:
        return "number" if self.is_numeric else None

    def cell(self, cell: Cell) -> Markup:
        content = self._content(cell)
        if self.is_first:
            return tag("th", content, scope="row", class_=self.css_class)
        if _value(cell) == self.best:
            content = join(content, tag("span", escape(" (best)"), class_="unseen"))
            return tag("td", content, class_=f"{self.css_class or ''} best".strip())
        return tag("td", content, class_=self.css_class)

    def _content(self, cell: Cell) -> Markup:
        if isinstance(cell, Estimate):
            low, high = self.write(cell.low), self.write(cell.high)
            interval = tag("span", escape(f" {low} to {high}"), class_="interval")
            return join(tag("span", escape(self.write(cell.value)), class_="value"), interval)
        if isinstance(cell, str):
            return escape(cell)
        if _is_number(cell):
            return tag("span", escape(self.write(_value(cell))), class_="value")
        return escape(cell_text(cell))


def cell_text(cell: Cell) -> str:
    """A single cell in writing, without regard to others.

    >>> cell_text(29858), cell_text(Estimate(0.25, 0.2, 0.3)), cell_text(None)
    ('29,858', '0.25 (0.2 to 0.3)', '')
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, Estimate):
        value, low, high = map(format_number, (cell.value, cell.low, cell.high))
        return f"{value} ({low} to {high})"
    return format_number(cell)


def _is_number(cell: Cell) -> bool:
    # numpy's numbers are registered as Real; a bool is one as well, but reads as a word.
    real = isinstance(cell, numbers.Real) and not isinstance(cell, bool)
    return real or isinstance(cell, Estimate)


def _value(cell: Cell) -> float:
    """What a cell is compared by; a cell without a number equals nothing."""
    if isinstance(cell, Estimate):
        return cell.value
    if cell is None or isinstance(cell, str | bool):
        return math.nan
    return float(cell)
