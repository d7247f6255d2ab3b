"""Figures in words: what stands in the cells of a table, on a page and in Markdown alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ratiorec.errors import DataError
from ratiorec_lab.report.axes import LARGEST, format_column, format_number, tick_labels
from ratiorec_lab.reproduce.exhibits import CONFIDENCE, NOT_RUN, Measured, TableExhibit

NOT_FINITE = "not finite"
BETTER, WORSE, NEITHER = "better", "worse", "neither"
_LONGEST = 1e10  # from here on a figure is written with a power of ten
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Cell:
    """One figure in writing; a part that is not known is empty."""

    ours: str
    spread: str = ""
    published: str = ""
    difference: str = ""
    verdict: str = NEITHER
    note: str = ""  # the letter of its remark
    is_best: bool = False
    is_figure: bool = False  # the words for what was not run are not
    is_text: bool = False  # it stands as it was given


@dataclass(frozen=True)
class WordedTable:
    """A table in writing; `notes` are remarks by their letters."""

    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: Mapping[str, str]
    how_to_read: str


def worded(table: TableExhibit) -> WordedTable:
    """Every cell of a table in writing, the best of each column among them.

    Raises:
        DataError: A row has not as many entries as the table has columns.
    """
    for row in table.rows:
        if len(row.entries) != len(table.columns):
            raise DataError(
                "a row does not fit its table",
                where=f"row «{row.name}» of {table.id}",
                found=f"{len(row.entries)} entries",
                wanted=f"{len(table.columns)}, one for each column",
            )
    notes = _letters(table)
    columns = [_column(table, k, notes) for k in range(len(table.columns))]
    rows = tuple(
        (row.name, tuple(column[place] for column in columns))
        for place, row in enumerate(table.rows)
    )
    named = {letter: remark for remark, letter in notes.items()}
    return WordedTable(rows, named, _how_to_read(table))


def is_writable(value: float | None) -> bool:
    """Whether a figure can be reckoned with and written."""
    return value is not None and abs(value) <= LARGEST  # which neither NaN nor infinity is


def figure_text(value: float) -> str:
    """A figure by itself.

    >>> figure_text(0.30112), figure_text(1234.5), figure_text(3e20), figure_text(float("nan"))
    ('0.3011', '1,234', '3×10²⁰', 'not finite')
    """
    if not is_writable(value):
        return NOT_FINITE
    return _with_power(value) if abs(value) >= _LONGEST else format_number(value)


def column_text(values: Sequence[float]) -> Callable[[float], str]:
    """The one manner of writing figures that suits all of these."""
    known = [value for value in values if is_writable(value)]
    if any(abs(value) >= _LONGEST for value in known):
        return figure_text
    write = format_column(known)
    return lambda value: write(value) if is_writable(value) else NOT_FINITE


def difference_text(value: float | None, published: float | None) -> str:
    """(value − published)/published with its sign; empty where there is none.

    >>> difference_text(0.1812, 0.1828), difference_text(3.0, 2.0), difference_text(3.0, 0.0)
    ('−0.9 %', '+50.0 %', '')
    """
    share = _relative(value, published)
    return "" if share is None else _percent(share)


def _relative(value: float | None, published: float | None) -> float | None:
    if value is None or not published or not is_writable(value) or not is_writable(published):
        return None
    share = value / published - 1
    return share if is_writable(share) else None


def _percent(share: float) -> str:
    percent = 100 * share
    if abs(percent) >= _LONGEST:
        return f"{'+' if percent > 0 else ''}{_with_power(percent)} %"
    written = f"{percent:+,.{1 if abs(percent) < 100 else 0}f}"
    # What rounds to nothing is neither more nor less.
    return ("0.0" if float(written.replace(",", "")) == 0 else _minus(written)) + " %"


def _with_power(value: float) -> str:
    return tick_labels((float(f"{value:.2e}"),))[0]


def _minus(number: str) -> str:
    return number.replace("-", "−")


@dataclass(frozen=True)
class _Manner:
    """How the figures of one column are written: with these decimals, with a nought or without."""

    n_decimals: int
    has_nought: bool

    def write(self, value: float) -> str:
        if not is_writable(value):
            return NOT_FINITE
        if abs(value) >= _LONGEST:
            return _with_power(value)
        written = f"{abs(value):,.{self.n_decimals}f}"
        kept = written if self.has_nought else written.removeprefix("0")
        return f"−{kept}" if value < 0 else kept


def _column(table: TableExhibit, k: int, notes: Mapping[str, str]) -> list[Cell]:
    entries = [row.entries[k] for row in table.rows]
    measured = [entry for entry in entries if isinstance(entry, Measured)]
    figures = [value for one in measured for value in (_mean(one), one.published)]
    known = [value for value in figures if value is not None and is_writable(value)]
    # Parts of one are written as papers do, without the nought that all of them share.
    below_one = 1 - 0.5 * 10.0**-table.decimals
    is_part = table.decimals > 0 and all(abs(value) < below_one for value in known)
    manner = _Manner(table.decimals, has_nought=not is_part)
    sign = -1 if k in table.lowest else 1
    best = _best(measured, manner, sign) if table.is_ranking else ""
    judged = sign if table.is_ranking else 0
    return [
        _cell(entry, manner, judged, best, notes)
        if isinstance(entry, Measured)
        else Cell(entry, is_text=True)
        for entry in entries
    ]


def _mean(measured: Measured) -> float | None:
    """NaN stands for a mean that cannot be reckoned."""
    if not all(map(is_writable, measured.values)):
        return math.nan
    return measured.mean


def _best(measured: Sequence[Measured], manner: _Manner, sign: int) -> str:
    """The best figure as it is written, so that what looks equal is marked alike."""
    means = [mean for one in measured if (mean := _mean(one)) is not None and is_writable(mean)]
    return manner.write(max(means, key=lambda mean: sign * mean)) if len(means) > 1 else ""


def _cell(
    measured: Measured, manner: _Manner, judged: int, best: str, notes: Mapping[str, str]
) -> Cell:
    mean = _mean(measured)
    ours = NOT_RUN if mean is None else manner.write(mean)
    difference = difference_text(mean, measured.published)
    return Cell(
        ours,
        _spread(measured, manner),
        "" if measured.published is None else manner.write(measured.published),
        difference,
        _verdict(difference, judged),
        notes.get(measured.remark, ""),
        is_best=bool(best) and ours == best,
        is_figure=is_writable(mean),
    )


def _spread(measured: Measured, manner: _Manner) -> str:
    if not all(map(is_writable, measured.values)) or measured.interval is None:
        return ""
    low, high = measured.interval
    return f"± {manner.write((high - low) / 2)}"


def _verdict(difference: str, judged: int) -> str:
    sign = {"+": 1, "−": -1}.get(difference[:1], 0) * judged
    return {1: BETTER, -1: WORSE}.get(sign, NEITHER)


def _letters(table: TableExhibit) -> dict[str, str]:
    """A letter for each remark, in reading order; the same remark has one letter."""
    remarks = dict.fromkeys(
        entry.remark
        for row in table.rows
        for entry in row.entries
        if isinstance(entry, Measured) and entry.remark
    )
    return {remark: _letter(k) for k, remark in enumerate(remarks)}


def _letter(k: int) -> str:
    """As columns of a spreadsheet are named: a … z, aa, ab …"""
    before, last = divmod(k, len(_LETTERS))
    return (_letter(before - 1) if before else "") + _LETTERS[last]


def _how_to_read(table: TableExhibit) -> str:
    return " ".join(_reading(table))


def _reading(table: TableExhibit) -> Iterator[str]:
    measured = [e for row in table.rows for e in row.entries if isinstance(e, Measured)]
    counts = sorted({len(one.values) for one in measured if one.values})
    if counts and counts[-1] > 1:
        seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        yield f"Means over {seeds} seeds, ± half of Student’s {100 * CONFIDENCE:.0f} % interval."
    elif counts and table.is_ranking:
        yield "Figures of one seed."
    if any(one.published is not None for one in measured):
        yield "Below each stands the published figure and by how much ours differs from it."
    if table.is_ranking and len(table.rows) > 1:
        yield "The best of each column is bold."
