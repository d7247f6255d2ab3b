"""Exhibits of a report: tables, curves and bars as data, whoever draws them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from scipy.stats import t as student

CONFIDENCE = 0.95
NOT_RUN = "not run"
AGREES, DIFFERS, NOTE = "agrees", "differs", "note"  # with the paper; a note is neither


class Remark(str):
    """A sentence about an exhibit that knows its side; a plain sentence is a note."""

    __slots__ = ("side",)
    side: str

    def __new__(cls, text: str, side: str = NOTE) -> Remark:
        """The sentence with its side."""
        told = super().__new__(cls, text)
        told.side = side
        return told


def by_side(remarks: Iterable[str]) -> dict[str, list[str]]:
    """The sentences of each side in their order, agreements first."""
    found: dict[str, list[str]] = {AGREES: [], DIFFERS: [], NOTE: []}
    for remark in remarks:
        found[getattr(remark, "side", NOTE)].append(str(remark))
    return {side: sentences for side, sentences in found.items() if sentences}


@dataclass(frozen=True)
class Measured:
    """One figure, a value for each seed, beside the published one."""

    values: tuple[float, ...]
    published: float | None = None
    remark: str = ""  # what a reader must know of it, such as a run that was cut
    files: tuple[str, ...] = field(default=(), compare=False)  # of the runs, beside the report

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None where nothing was run."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of the mean; one seed says nothing of it."""
        n = len(self.values)
        if n < 2:
            return None
        mean = statistics.fmean(self.values)
        reach = float(student.ppf((1 + CONFIDENCE) / 2, n - 1))
        reach *= statistics.stdev(self.values) / math.sqrt(n)
        return mean - reach, mean + reach

    @property
    def relative_difference(self) -> float | None:
        """(ours − published)/published."""
        if self.mean is None or not self.published:
            return None
        return self.mean / self.published - 1


Runs = tuple[tuple[str, tuple[str, ...]], ...]
"""The files of runs, by the name of what they show."""


@dataclass(frozen=True)
class Row:
    """A line of a table: text stands as it is."""

    name: str
    entries: tuple[Measured | str, ...]


@dataclass(frozen=True)
class TableExhibit:
    """A table; `decimals` is how many places of a figure are shown."""

    id: str
    title: str
    caption: str
    columns: tuple[str, ...]  # without that of the names
    rows: tuple[Row, ...]
    decimals: int = 4
    remarks: tuple[str, ...] = ()
    is_ranking: bool = True  # whether the best figure of each column is marked
    lowest: tuple[int, ...] = ()  # columns, counted from 0, in which the best is the lowest
    runs: Runs = ()  # where the lines are not measured figures, which know their own


@dataclass(frozen=True)
class Series:
    """A line of a panel; points are (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]
    is_published: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class CurveExhibit:
    """A figure of one or more panels of curves."""

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    remarks: tuple[str, ...] = ()
    runs: Runs = ()


@dataclass(frozen=True)
class Bar:
    """One bar, of ours or of the published figure."""

    name: str
    value: float | None  # None where nothing was run
    published: float | None = None


@dataclass(frozen=True)
class BarPanel:
    """Bars that share an axis."""

    title: str
    value_label: str
    bars: tuple[Bar, ...]
    log: bool = False


@dataclass(frozen=True)
class BarExhibit:
    """A figure of one or more panels of bars."""

    id: str
    title: str
    caption: str
    panels: tuple[BarPanel, ...]
    remarks: tuple[str, ...] = ()


Exhibit = TableExhibit | CurveExhibit | BarExhibit


def runs_of(exhibit: Exhibit) -> Runs:
    """The runs that an exhibit shows; bars are followed by a table of theirs."""
    if isinstance(exhibit, BarExhibit):
        return ()
    if exhibit.runs or isinstance(exhibit, CurveExhibit):
        return exhibit.runs
    found = {
        row.name: dict.fromkeys(
            file for one in row.entries if isinstance(one, Measured) for file in one.files
        )
        for row in exhibit.rows
    }
    return tuple((name, tuple(files)) for name, files in found.items() if files)
