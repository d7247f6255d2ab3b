"""Merging: rows of a source as pairs, weighed by kind of event, recency and repeats.

The weight of a row is its weight in the source, or 1, times the weight of its kind of event,
times 2^(−age / half-life). The weights of a pair's rows are summed. A row of weight 0 makes no
pair; a pair whose sum is 0 or less is taken back: it is unlabelled like any pair that never came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.identifiers import encode_ids
from ratiorec.data.formats.reading import Reading, Repeats, counted
from ratiorec.data.formats.values import Times, Values
from ratiorec.data.interactions import Interactions
from ratiorec.data.moments import duration, ticks_per_second, time_span
from ratiorec.data.vocabulary import WHOLE_NUMBER, starts_of_runs
from ratiorec.errors import ConfigError, DataError, NoPairsError, unknown_choice

REPEATS: tuple[Repeats, ...] = ("sum", "max", "once")
_MOST_HALF_LIVES = 100.0  # older rows count as this old, so that none weighs nothing
_ROUNDING = 1e-12  # 0.1 + 0.1 + 0.1 − 0.3 is above 0 in binary, and means 0
_SHOWN = 12


@dataclass(frozen=True)
class Weighting:
    """What a row weighs beside its own weight, and what the rows of one pair weigh together.

    Args:
        event_weights: The weight of each kind of event; 0 leaves its rows out, a negative one
            takes back what others gave.
        half_life: The age at which a row weighs half as much as the latest one, as "90d" with one
            of the units s, m, h, d, w, or a number in the unit of the timestamps.
        repeats: Whether the weights of a pair's rows are added ("sum"), the largest is taken
            ("max"), or each pair counts once. If left, they are added where rows have weights,
            and each pair counts once where they have none.

    Raises:
        ConfigError: A value cannot be used.
    """

    event_weights: Mapping[Any, float] | None = None
    half_life: str | float | None = None
    repeats: Repeats | None = None

    def __post_init__(self) -> None:
        if self.repeats not in (None, *REPEATS):
            what = "unknown way to count repeats"
            raise unknown_choice(what, self.repeats, REPEATS, where="repeats")
        if self.event_weights is not None:
            object.__setattr__(self, "event_weights", _checked(self.event_weights))
        if self.half_life is not None:
            duration(self.half_life, where="half_life")
        if self.repeats == "once" and self.half_life is not None and not self.has_negative:
            raise ConfigError(
                "a half-life changes nothing where each pair counts once",
                where="half_life",
                found=f"half-life {self.half_life} with repeats once",
                wanted='repeats="sum" or repeats="max", or no half-life',
            )

    @property
    def has_negative(self) -> bool:
        """Whether a kind of event takes back what others gave."""
        return any(weight < 0 for weight in (self.event_weights or {}).values())

    def require_event_column(self, column: str | int | None, *, spelt: str) -> None:
        """Refuse weights of kinds of event without the column that holds the kinds."""
        if self.event_weights is not None and column in (None, ""):
            raise ConfigError(
                "weights of kinds of event need the column of the kinds",
                where="event_weights",
                found="no event column",
                wanted=f"{spelt}, with the name of the column, or no event_weights",
            )

    def refuse_for(self, source: str, kind: str, *, allowed: tuple[Repeats, ...]) -> None:
        """Refuse what cannot be done for a source that has no rows but pairs."""
        given = {"event_weights": self.event_weights, "half_life": self.half_life}
        asked = [name for name, value in given.items() if value is not None]
        asked += ["repeats"] if self.repeats not in (None, *allowed) else []
        if asked:
            raise ConfigError(
                f"{kind} has no rows with events, times or repeats",
                where=asked[0],
                found=source,
                wanted=f"a table of rows, or no {', '.join(asked)}",
            )


class CheckedRows(NamedTuple):
    """Columns without faults, one value a row."""

    users: Values
    items: Values
    weights: NDArray[np.float64] | None = None
    times: Times | None = None
    events: Values | None = None

    def select(self, mask: NDArray[np.bool_]) -> CheckedRows:
        """The rows under the mask."""
        return CheckedRows(
            self.users.select(mask),
            self.items.select(mask),
            None if self.weights is None else self.weights[mask],
            None if self.times is None else Times(self.times.rows[mask], self.times.is_date),
            None if self.events is None else self.events.select(mask),
        )


def merged_interactions(
    rows: CheckedRows, weighting: Weighting, reading: Reading, *, is_text: bool = False
) -> Interactions:
    """Pairs of rows without faults, with the report of their reading."""
    reading = with_span(reading, rows.times, weighting)
    require_rows(len(rows.users), reading)
    weights, reading = _row_weights(rows, weighting, reading, is_text=is_text)
    if weights is not None and not (is_some := weights != 0).all():
        reading = replace(reading, n_zero_weight=int((~is_some).sum()))
        rows, weights = rows.select(is_some), weights[is_some]
        require_rows(len(rows.users), reading)
    n_rows, n_removed = len(rows.users), 0
    if weights is not None and (weighting.repeats == "max" or weights.min() < 0):
        (_, users), (item_ids, items) = _ids_of(rows, is_text=is_text)
        is_kept, weights, n_removed = settled(
            users * len(item_ids) + items, weights, takes_largest=weighting.repeats == "max"
        )
        rows, weights = rows.select(is_kept), weights[is_kept]
        reading = replace(reading, n_removed=n_removed)
        require_rows(len(rows.users), reading)
    data = _encoded(rows, weights, is_text=is_text)
    n_repeats = n_rows - n_removed - data.n_pairs
    data = replace(data, reading=replace(reading, n_repeats=n_repeats))
    return replace(data, weights=None) if weighting.repeats == "once" else data


def with_span(reading: Reading, times: Times | None, weighting: Weighting) -> Reading:
    """The report with the first and the last of these times."""
    first, last = (None, None) if times is None else time_span(times.rows, is_date=times.is_date)
    half_life = None if weighting.half_life is None else str(weighting.half_life)
    return replace(
        reading,
        first_time=first,
        last_time=last,
        half_life=half_life,
        repeats=weighting.repeats,
        has_dates=None if times is None else times.is_date,
    )


def require_rows(n_left: int, reading: Reading) -> None:
    """Refuse a source of which no row is left."""
    if n_left:
        return
    found = [counted(reading.n_rows - reading.n_dropped, "row")]
    found += [f"{reading.n_dropped:,} that cannot be used"] if reading.n_dropped else []
    found += [f"{reading.n_zero_weight:,} of weight 0"] if reading.n_zero_weight else []
    if reading.n_removed:
        found += [f"{counted(reading.n_removed, 'pair')} with weights that sum to 0 or less"]
    is_weighed = reading.n_zero_weight or reading.n_removed
    raise NoPairsError(
        "no pair is left" if is_weighed else "there are no rows",
        where=reading.source,
        found=", and ".join(found),
        wanted="at least one pair with a weight above 0"
        if is_weighed
        else "at least one row with a user and an item",
    )


def _row_weights(
    rows: CheckedRows, weighting: Weighting, reading: Reading, *, is_text: bool
) -> tuple[NDArray[np.float64] | None, Reading]:
    """What each row weighs, or None where nothing says that it weighs anything."""
    weights = rows.weights
    if rows.events is not None:
        of_events, counts = _event_weights(rows.events, weighting, reading, is_text=is_text)
        weights = of_events if weights is None else weights * of_events
        given = weighting.event_weights
        reading = replace(reading, event_weights=given and dict(given), event_rows=counts)
    if weighting.half_life is not None:
        weights = np.ones(len(rows.users)) if weights is None else weights
        times = rows.times
        length = length_of_half_life(times, weighting.half_life, reading)
        assert times is not None
        weights = decayed(weights, np.asarray((times.rows.max() - times.rows) / length))
    if weights is None and weighting.repeats in ("sum", "max"):
        weights = np.ones(len(rows.users))
    return weights, reading


def _event_weights(
    events: Values, weighting: Weighting, reading: Reading, *, is_text: bool
) -> tuple[NDArray[np.float64], dict[str, int]]:
    """The weight of each row's kind of event, and the number of rows of each kind."""
    vocabulary, codes = encode_ids(events, kind="event", is_text=is_text)
    kinds = vocabulary.ids.tolist()
    n_rows = np.bincount(codes, minlength=len(kinds)).tolist()
    weights, counts = weights_of_kinds(kinds, n_rows, weighting, reading)
    return np.array(weights, np.float64)[codes], counts


def weights_of_kinds(
    kinds: Sequence[Any], n_rows: Sequence[int], weighting: Weighting, reading: Reading
) -> tuple[list[float], dict[str, int]]:
    """The weight of each kind of event, and the rows of each, kinds that are one put together."""
    names, counts = [_kind(kind) for kind in kinds], Counter[str]()
    for name, n in zip(names, n_rows, strict=True):
        counts[name] += n
    given = weighting.event_weights or {}
    if missing := [kind for kind, _ in counts.most_common() if kind not in given]:
        raise _unweighted(counts, missing, given, reading)
    return [given[name] for name in names], dict(counts)


def _unweighted(
    counts: Counter[str], missing: list[str], given: Mapping[str, float], reading: Reading
) -> DataError:
    listed = [f"{kind!r} ({counted(n, 'row')})" for kind, n in counts.most_common(_SHOWN)]
    more = f" and {len(counts) - _SHOWN:,} more" if len(counts) > _SHOWN else ""
    known = f"weights for {', '.join(map(repr, given))}" if given else "no weights"
    example = {**given, **dict.fromkeys(missing[:_SHOWN], 0 if given else 1)}
    spelt = ", ".join(f"{kind!r}: {weight:g}" for kind, weight in example.items())
    return DataError(
        "some kinds of event have no weight" if given else "the kinds of event have no weights",
        where=f"{reading.source}, event column {reading.columns.get('event', '')!r}",
        found=f"the kinds {', '.join(listed)}{more}, and {known}",
        wanted=f"a weight for each kind, 0 to leave its rows out, as event_weights={{{spelt}}}",
    )


def length_of_half_life(times: Times | None, half_life: str | float, reading: Reading) -> float:
    """A half-life in the unit of the timestamps, which their first and last are enough to tell."""
    if times is None:
        columns = ", ".join(f"{role} = {name!r}" for role, name in reading.columns.items())
        raise DataError(
            "a half-life needs timestamps",
            where=reading.source,
            found=f"{columns}, and no timestamp",
            wanted="the column of times, as columns=Columns(timestamp='NAME'), or no half-life",
        )
    length, is_in_seconds = duration(half_life, where="half_life")
    if is_in_seconds:
        otherwise = "half_life as a number in their unit"
        length *= (
            1e6
            if times.is_date
            else ticks_per_second(times.rows, where="half_life", otherwise=otherwise)
        )
    return length


def decayed(weights: NDArray[np.float64], half_lives: NDArray[Any]) -> NDArray[np.float64]:
    """The weights, halved for each half-life of age; none that is not 0 becomes 0."""
    smaller = weights * np.exp2(-np.minimum(half_lives, _MOST_HALF_LIVES))
    least = np.where(weights == 0, 0.0, np.finfo(np.float64).tiny)
    signed: NDArray[np.float64] = np.copysign(np.maximum(np.abs(smaller), least), weights)
    return signed


def settled(
    key: NDArray[np.int64], weights: NDArray[np.float64], *, takes_largest: bool
) -> tuple[NDArray[np.bool_], NDArray[np.float64], int]:
    """The rows that stay, weights that add up to those of their pairs, and the pairs taken back.

    A pair is a number of `key`. The row of the largest weight has all of its pair's weight, and
    the others 0. Rows below 0 are gone: they are no interactions, so that their times are none of
    the pair's.
    """
    order = np.lexsort((weights, key))
    starts, ascending = starts_of_runs(key[order]), weights[order]
    lengths = np.diff(starts, append=len(key))
    totals = np.add.reduceat(ascending, starts)
    is_left = totals > _ROUNDING * np.add.reduceat(np.abs(ascending), starts)
    largest = starts + lengths - 1
    new, is_kept = np.zeros(len(key)), np.zeros(len(key), dtype=bool)
    new[order[largest]] = ascending[largest] if takes_largest else totals
    is_kept[order] = np.repeat(is_left, lengths) & (ascending > 0)
    return is_kept, new, int((~is_left).sum())


def _ids_of(rows: CheckedRows, *, is_text: bool) -> list[tuple[Any, NDArray[np.int64]]]:
    return [
        encode_ids(column, kind=kind, is_text=is_text)
        for column, kind in ((rows.users, "user"), (rows.items, "item"))
    ]


def _encoded(
    rows: CheckedRows, weights: NDArray[np.float64] | None, *, is_text: bool
) -> Interactions:
    """The pairs over the ids of these rows, repeats merged."""
    (user_ids, user_rows), (item_ids, item_rows) = _ids_of(rows, is_text=is_text)
    times = rows.times
    return Interactions.from_indices(
        user_ids,
        item_ids,
        user_rows,
        item_rows,
        weights=weights,
        timestamps=None if times is None else times.rows,
        order=np.arange(len(user_rows), dtype=np.int32) if times is None else None,
    )


def _kind(identifier: Any) -> str:
    """A kind of event as text, a whole number without «.0»."""
    text = str(identifier).strip()
    whole = WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text


def _checked(event_weights: Mapping[Any, float]) -> dict[str, float]:
    """The weights by kind, once each is a finite number and one of them is above 0."""
    wanted = "a finite number for each kind, at least one of them above 0"
    checked: dict[str, float] = {}
    for kind, weight in event_weights.items():
        try:
            checked[_kind(kind)] = float(weight)
        except (TypeError, ValueError):
            checked[_kind(kind)] = np.nan
        if not np.isfinite(checked[_kind(kind)]):
            raise ConfigError(
                "the weight of an event is no number",
                where="event_weights",
                found=f"{weight!r} for {kind!r}",
                wanted=wanted,
            )
    if not any(weight > 0 for weight in checked.values()):
        raise ConfigError(
            "no kind of event makes a pair",
            where="event_weights",
            found=", ".join(f"{kind} {weight:g}" for kind, weight in checked.items()) or "none",
            wanted=wanted,
        )
    return checked
