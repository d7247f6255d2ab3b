"""Report of a reading: what was taken from a source, and which rows could not be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypedDict

from ratiorec.errors import DataError, MemoryBudgetError, RatiorecError, unknown_choice
from ratiorec.files import atomic_write
from ratiorec.machine import available_memory_mb

OnBadRows = Literal["stop", "skip"]
Place = Callable[[int], str]
"""Says in words where a row stands, counted from 0."""

_SHOWN = 5
_PLACES = ("first", "second", "third", "fourth")


Repeats = Literal["sum", "max", "once"]
"""How the weights of the rows of one pair become its weight."""


class RowOptions(TypedDict, total=False):
    """What becomes of rows, as `formats.read` describes."""

    event_weights: Mapping[Any, float] | None
    half_life: str | float | None
    repeats: Repeats | None
    on_bad_rows: OnBadRows


_REPEATS: Mapping[str | None, str] = MappingProxyType(
    {
        None: ' (counted once; repeats="sum" counts them)',
        "sum": " (their weights are added)",
        "max": " (the largest weight is taken)",
        "once": " (counted once)",
    }
)


@dataclass(frozen=True)
class Reading:
    """The columns of each role, by name or by position from 0, and what became of the rows.

    `n_dropped` rows could not be used, `n_zero_weight` have the weight 0 and make no pair, and
    `n_repeats` of the rest repeat a pair; the weights of `n_removed` pairs sum to 0 or less.
    `event_rows` are the rows of each kind of event. `half_life` and `repeats` are as asked for;
    `unused_event` is a column that looks like kinds of event and was not asked for.
    """

    source: str
    columns: Mapping[str, str | int]
    n_rows: int
    n_repeats: int = 0
    n_dropped: int = 0
    first_time: str | None = None
    last_time: str | None = None
    bad_rows: tuple[str, ...] = ()
    n_zero_weight: int = 0
    n_removed: int = 0
    event_weights: Mapping[str, float] | None = None
    event_rows: Mapping[str, int] | None = None
    half_life: str | None = None
    repeats: Repeats | None = None
    unused_event: str | None = None
    has_dates: bool | None = None  # or numbers for times; None where there are no times

    def lines(self) -> list[str]:
        """The report for people: a line, and more where rows were weighed, dropped or unused."""
        roles = [f"{role} = {_called(column)}" for role, column in self.columns.items()]
        bare = any(isinstance(column, int) for column in self.columns.values())
        merged = f", {self.n_repeats:,} of them repeats of a pair" if self.n_repeats else ""
        merged += self._what_of_repeats() if self.n_repeats else ""
        zero = f", {self.n_zero_weight:,} left out for a weight of 0" if self.n_zero_weight else ""
        dropped = f", {self.n_dropped:,} dropped" if self.n_dropped else ""
        span = "" if self.first_time is None else f"; {self.first_time} to {self.last_time}"
        told = [
            f"read {self.source}: {', '.join(roles)}{' (no header)' if bare else ''}; "
            f"{self.n_rows:,} rows{merged}{zero}{dropped}{span}"
        ]
        if weighed := self._weighed():
            told.append(f"weights: {'; '.join(weighed)}")
        if self.n_dropped:
            rest = self.n_dropped - len(self.bad_rows)
            more = f"; and {rest:,} more" if rest else ""
            told.append(f"warning: dropped {'; '.join(self.bad_rows)}{more}")
        if self.unused_event is not None:
            told.append(
                f"note: the column {self.unused_event!r} is not used, every row counts alike; "
                f"columns=Columns(event={self.unused_event!r}) with event_weights={{'KIND': 1}} "
                "weighs each kind of event"
            )
        return told

    def _what_of_repeats(self) -> str:
        """How repeats count, where that was asked for or is other than by their weights."""
        is_plain = "weight" not in self.columns and not self._weighed()
        return _REPEATS[self.repeats] if self.repeats is not None or is_plain else ""

    def _weighed(self) -> list[str]:
        """The weight of each kind of event with its rows, the half-life, and the pairs removed."""
        told = []
        if self.event_weights is not None and self.event_rows is not None:
            told += [
                f"{kind} = {weight:g} ({counted(self.event_rows.get(kind, 0), 'row')})"
                for kind, weight in self.event_weights.items()
            ]
        if self.half_life is not None:
            told.append(f"half-life {self.half_life} back from {self.last_time}")
        if self.n_removed:
            pairs = counted(self.n_removed, "pair")
            told.append(f"{pairs} removed, for weights that sum to 0 or less")
        return told

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bad_rows": list(self.bad_rows)}


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(1200, "pair")
    ('1 row', '1,200 pairs')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


_BYTES_OF_A_ROW = 40  # the least that merging takes: 200 million equal rows took 41 each


def require_memory(n_bytes: float, *, where: str, found: str) -> None:
    """Refuse what would need more memory than is left, before it is taken.

    Raises:
        MemoryBudgetError: There is less.
    """
    left = available_memory_mb("cpu") * 2**20
    if n_bytes > left:
        raise MemoryBudgetError(
            f"reading would need {n_bytes / 2**30:,.1f} GiB of memory",
            where=where,
            found=f"{found}, and {left / 2**30:,.1f} GiB left",
            wanted=f"{n_bytes / 2**30:,.1f} GiB or more, or less data at once",
        )


def require_memory_for_rows(n_rows: int, *, where: str) -> None:
    """Refuse more rows than can be merged into pairs."""
    require_memory(_BYTES_OF_A_ROW * n_rows, where=where, found=counted(n_rows, "row"))


@contextmanager
def lack_of_memory_is_told(where: str) -> Iterator[None]:
    """Let memory that could not be had end as an error of ours, wherever it was asked for."""
    try:
        yield
    except RatiorecError:  # one of them is a MemoryError too
        raise
    except MemoryError as error:
        raise MemoryBudgetError(
            "reading needs more memory than is left",
            where=where,
            found=str(error) or "none left",
            wanted="more memory, or less data at once",
        ) from error


def _called(column: str | int) -> str:
    if isinstance(column, str):
        return repr(column)
    return f"the {_PLACES[column]} column" if column < len(_PLACES) else f"column {column} from 0"


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
