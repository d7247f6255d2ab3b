"""Report of a reading: what was taken from a source, and which rows could not be."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import DataError, unknown_choice
from ratiorec.files import atomic_write

OnBadRows = Literal["stop", "skip"]
Place = Callable[[int], str]
"""Says in words where a row stands, counted from 0."""

_SHOWN = 5
_PLACES = ("first", "second", "third", "fourth")
_EARLIEST_UNIX_TIME = 10**8  # March 1973 in seconds; a thousand times as much is the year 5138


@dataclass(frozen=True)
class Reading:
    """The columns of each role, by name or by position from 0, and what became of the rows."""

    source: str
    columns: Mapping[str, str | int]
    n_rows: int
    n_repeats: int = 0
    n_dropped: int = 0
    first_time: str | None = None
    last_time: str | None = None
    bad_rows: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The report for people, in one line, and a second one where rows were dropped."""
        roles = [f"{role} = {_called(column)}" for role, column in self.columns.items()]
        bare = any(isinstance(column, int) for column in self.columns.values())
        merged = f", {self.n_repeats:,} of them repeats of a pair" if self.n_repeats else ""
        dropped = f", {self.n_dropped:,} dropped" if self.n_dropped else ""
        span = "" if self.first_time is None else f"; {self.first_time} to {self.last_time}"
        told = [
            f"read {self.source}: {', '.join(roles)}{' (no header)' if bare else ''}; "
            f"{self.n_rows:,} rows{merged}{dropped}{span}"
        ]
        if self.n_dropped:
            rest = self.n_dropped - len(self.bad_rows)
            more = f"; and {rest:,} more" if rest else ""
            told.append(f"warning: dropped {'; '.join(self.bad_rows)}{more}")
        return told

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bad_rows": list(self.bad_rows)}


def _called(column: str | int) -> str:
    if isinstance(column, str):
        return repr(column)
    return f"the {_PLACES[column]} column" if column < len(_PLACES) else f"column {column} from 0"


def time_span(times: NDArray[Any] | None, *, is_date: bool) -> tuple[str | None, str | None]:
    """The first and the last time in words; numbers that look like Unix time as dates."""
    if times is None or not len(times):
        return None, None
    first, last = times.min().item(), times.max().item()
    for per_second in (1, 10**3, 10**6, 10**9):
        least = _EARLIEST_UNIX_TIME * per_second
        if not is_date and least <= first <= last < 1000 * least:
            return _date(first * 10**6 // per_second), _date(last * 10**6 // per_second)
    return (_date(first), _date(last)) if is_date else (str(first), str(last))


def _date(microseconds: float) -> str:
    moment = np.datetime64(int(microseconds), "us").astype(object)
    return moment.isoformat(" ", "seconds") if isinstance(moment, dt.datetime) else str(moment)


class Fault(NamedTuple):
    """One value that cannot be used."""

    what: str
    found: str
    wanted: str


Faults = dict[int, Fault]
"""The first fault of each bad row, by the row's number from 0."""


@dataclass
class BadRows:
    """The bad rows of a source: counted, the first five told, all written where a file is named.

    Raises:
        UnknownChoiceError: The policy is none.
    """

    policy: OnBadRows = "stop"
    file: Path | None = None
    n: int = 0
    shown: list[tuple[str, str, Fault]] = field(default_factory=list)
    _contents: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.policy not in (policies := ("stop", "skip")):
            what = "unknown policy for bad rows"
            raise unknown_choice(what, self.policy, policies, where="on_bad_rows")

    def add(self, faults: Faults, *, place: Place, content: Callable[[int], str]) -> None:
        """Take note of bad rows, which lie behind all that were noted before."""
        self.n += len(faults)
        for row in sorted(faults)[: _SHOWN - len(self.shown)]:
            self.shown.append((place(row), content(row), faults[row]))
        if self.file is not None and self.policy == "skip":
            self._contents += [
                f"{place(row)}\t{faults[row].what}\t{content(row)}" for row in sorted(faults)
            ]

    def settle(self, source: str, n_rows: int) -> None:
        """Refuse the source for its bad rows, or write them where a file is named.

        Raises:
            DataError: There are bad rows, and the policy is to stop.
        """
        if self.n and self.policy == "stop":
            raise self._refusal(source, n_rows)
        if self.file is not None:
            with atomic_write(self.file) as handle:
                handle.writelines(f"{line}\n".encode(errors="replace") for line in self._contents)

    def sentences(self, source: str) -> tuple[str, ...]:
        """The first bad rows in words."""
        told = []
        for place, content, fault in self.shown:
            row = f" in {content[:80]!r}" if content and content[:80] not in fault.found else ""
            told.append(f"{place.removeprefix(f'{source}, ')}: {fault.what}, {fault.found}{row}")
        return tuple(told)

    def _refusal(self, source: str, n_rows: int) -> DataError:
        place, _, fault = self.shown[0]
        way_out = 'on_bad_rows="skip" to leave such rows out'
        if self.n == 1:
            wanted = f"{fault.wanted}, or {way_out}"
            return DataError(fault.what, where=place, found=fault.found, wanted=wanted)
        more = f"; and {self.n - len(self.shown):,} more" if self.n > len(self.shown) else ""
        wanted = "; ".join(dict.fromkeys(fault.wanted for _, _, fault in self.shown))
        return DataError(
            f"{self.n:,} of {n_rows:,} rows cannot be used",
            where=source,
            found="; ".join(self.sentences(source)) + more,
            wanted=f"{wanted}; or {way_out}",
        )
