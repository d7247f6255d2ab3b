"""Tables in words: the one form that the console, Markdown and the page render.

A table of measured figures is worded as it is; a panel of bars or curves becomes a table first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ratiorec.errors import DataError
from ratiorec_lab.report.writing import format_number
from ratiorec_lab.reproduce.exhibits import (
    CONFIDENCE,
    NOT_RUN,
    BarPanel,
    Measured,
    Panel,
    Row,
    TableExhibit,
)

NOT_FINITE = "not finite"
OURS, PUBLISHED = "this run", "published"
BETTER, WORSE, NEITHER = "better", "worse", "neither"
_HUGE = 1e10  # from here on a figure is written with a power of ten
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Cell:
    """One figure in words; a part that is not known is empty."""

    ours: str
    spread: str = ""
    published: str = ""
    difference: str = ""
    verdict: str = NEITHER
    note: str = ""  # the letter of its remark
    is_best: bool = False
    is_figure: bool = False  # the words for what was not run are not
    is_text: bool = False  # it stands as it was given

    @property
    def upper(self) -> str:
        """Our figure and its spread."""
        return " ".join(filter(None, (self.ours, self.spread)))

    @property
    def lower(self) -> str:
        """The published figure and by how much ours differs."""
        return ", ".join(filter(None, (self.published, self.difference)))


@dataclass(frozen=True)
class WordedTable:
    """A table in words; `notes` are remarks by their letters."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: Mapping[str, str]
    how_to_read: str


def panel_table(panel: BarPanel | Panel) -> TableExhibit:
    """A panel of a figure as a table."""
    columns, rows = _bars(panel) if isinstance(panel, BarPanel) else _curves(panel)
    return TableExhibit("", panel.title, "", columns, tuple(rows), is_ranking=False)


def _bars(panel: BarPanel) -> tuple[tuple[str, ...], list[Row]]:
    rows = [
        Row(
            bar.name,
            (
                NOT_RUN if bar.value is None else figure_text(bar.value),
                "" if bar.published is None else figure_text(bar.published),
                difference_text(bar.value, bar.published),
            ),
        )
        for bar in panel.bars
    ]
    return (f"{OURS}, {panel.value_label}", PUBLISHED, "difference"), rows


def _curves(panel: Panel) -> tuple[tuple[str, ...], list[Row]]:
    """The last and the highest point of every curve."""
    rows = []
    for one in panel.series:
        known = [point for point in one.points if all(map(math.isfinite, point))]
        entries: tuple[Measured | str, ...] = ("no points", "", "", "")
        if known:
            last, best = known[-1], max(known, key=lambda point: point[1])
            highest = Measured((best[1],))
            entries = figure_text(last[0]), Measured((last[1],)), highest, figure_text(best[0])
        rows.append(Row(f"{one.name}, {PUBLISHED}" if one.is_published else one.name, entries))
    return (f"last {panel.x_label}", f"last {panel.y_label}", "highest", "there"), rows


def worded(table: TableExhibit) -> WordedTable:
    """Every cell of a table in words, the best of each column among them.

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
    letters = _letters(table)
    columns = [_column(table, k, letters) for k in range(len(table.columns))]
    rows = tuple(
        (row.name, tuple(column[place] for column in columns))
        for place, row in enumerate(table.rows)
    )
    notes = {letter: remark for remark, letter in letters.items()}
    return WordedTable(table.columns, rows, notes, " ".join(_reading(table)))


def _column(table: TableExhibit, k: int, letters: Mapping[str, str]) -> list[Cell]:
    entries = [row.entries[k] for row in table.rows]
    measured = [entry for entry in entries if isinstance(entry, Measured)]
    write = _manner(measured, table.decimals)
    sign = -1 if k in table.lowest else 1
    best = _best(measured, write, sign) if table.is_ranking else None
    return [
        _cell(entry, write, sign if table.is_ranking else 0, best, letters)
        if isinstance(entry, Measured)
        else Cell(entry, is_text=True)
        for entry in entries
    ]


def _manner(measured: Sequence[Measured], decimals: int) -> Callable[[float], str]:
    """The one way to write all figures of a column; parts of one have no 0 before the point."""
    known = [v for one in measured for v in (_mean(one), one.published) if v is not None]
    below_one = 1 - 0.5 * 10.0**-decimals
    is_part = decimals > 0 and all(abs(v) < below_one for v in known if is_writable(v))

    def write(value: float) -> str:
        if not is_writable(value) or abs(value) >= _HUGE:
            return figure_text(value)
        text = f"{abs(value):,.{decimals}f}"
        return ("−" if value < 0 else "") + (text.removeprefix("0") if is_part else text)

    return write


def _mean(measured: Measured) -> float | None:
    """NaN where a seed's figure is not finite."""
    return measured.mean if all(map(is_writable, measured.values)) else math.nan


def _best(measured: Sequence[Measured], write: Callable[[float], str], sign: int) -> str | None:
    """The best figure as it is written, so that what looks equal is marked alike."""
    means = [mean for one in measured if (mean := _mean(one)) is not None and is_writable(mean)]
    return write(max(means, key=lambda mean: sign * mean)) if len(means) > 1 else None


def _cell(
    measured: Measured,
    write: Callable[[float], str],
    sign: int,
    best: str | None,
    letters: Mapping[str, str],
) -> Cell:
    mean = _mean(measured)
    ours = NOT_RUN if mean is None else write(mean)
    difference = difference_text(mean, measured.published)
    interval = measured.interval if is_writable(mean) else None
    direction = {"+": 1, "−": -1}.get(difference[:1], 0) * sign
    return Cell(
        ours,
        "" if interval is None else f"± {write((interval[1] - interval[0]) / 2)}",
        "" if measured.published is None else write(measured.published),
        difference,
        {1: BETTER, -1: WORSE}.get(direction, NEITHER),
        letters.get(measured.remark, ""),
        is_best=ours == best,
        is_figure=is_writable(mean),
    )


def _letters(table: TableExhibit) -> dict[str, str]:
    """A letter for each remark, in reading order; the same remark has one letter."""
    entries = (entry for row in table.rows for entry in row.entries)
    remarks = dict.fromkeys(e.remark for e in entries if isinstance(e, Measured) and e.remark)
    return {remark: _letter(k) for k, remark in enumerate(remarks)}


def _letter(k: int) -> str:
    """As columns of a spreadsheet are named: a … z, aa, ab …"""
    before, last = divmod(k, len(_LETTERS))
    return (_letter(before - 1) if before else "") + _LETTERS[last]


def _reading(table: TableExhibit) -> Iterator[str]:
    """Sentences on how to read a table."""
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


# Single figures


def is_writable(value: float | None) -> bool:
    """Whether a figure can be reckoned with and written."""
    return value is not None and math.isfinite(value)


def figure_text(value: float) -> str:
    """A figure by itself.

    >>> figure_text(0.30112), figure_text(29858), figure_text(3e20), figure_text(float("nan"))
    ('0.3011', '29,858', '3e+20', 'not finite')
    """
    if not is_writable(value):
        return NOT_FINITE
    return format_number(value) if abs(value) < _HUGE else f"{value:.3g}".replace("-", "−")


def figure(value: float) -> str:
    """A metric as papers print it.

    >>> figure(0.18116)
    '.1812'
    """
    return f"{value:.4f}".removeprefix("0")


def difference_text(value: float | None, published: float | None) -> str:
    """(value − published)/published with its sign; empty where there is none.

    >>> difference_text(0.1812, 0.1828), difference_text(3.0, 2.0), difference_text(3.0, 0.0)
    ('−0.9 %', '+50.0 %', '')
    """
    if value is None or not published or not is_writable(published):
        return ""
    percent = 100 * (value / published - 1)
    if not is_writable(percent):
        return ""
    if abs(percent) >= _HUGE:
        return f"{percent:+.3g} %"
    written = f"{percent:+,.{1 if abs(percent) < 100 else 0}f}"
    # What rounds to nothing is neither more nor less.
    return "0.0 %" if not written.strip("+-0.") else f"{written.replace('-', '−')} %"


def listed(words: Sequence[str]) -> str:
    """Words with commas, and «and» before the last.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
