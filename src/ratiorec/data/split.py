"""Splits that hold pairs out: at random, the latest of each user, or all after a moment.

Every splitter is a stage with the same call, `splitter(data, rng=rng) -> Split`. The two parts
are disjoint, together they are the data, and they depend on nothing but the pairs, their
timestamps or order where time decides, and the generator where chance does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.moments import ticks_per_second
from ratiorec.errors import ConfigError, DataError, require_range

_ROUNDING = 1e-9  # 0.29 · 50 is 14.499999999999998 in binary, and means 14.5
_NO_SHARE = "not a share of the pairs"


@dataclass(frozen=True, eq=False)
class Split:
    """Two parts over the same users and items, and which users are not in both.

    `n_users_kept_whole` have pairs in `train` only: they had too few to lose one, or none
    after the cut. `n_users_unseen` have pairs in `held_out` only, which happens when a cut in
    time comes before their first pair; a model trained on `train` knows nothing of them.
    `n_repeats` pairs of `train` come again after such a cut.
    """

    train: Interactions
    held_out: Interactions
    n_users_kept_whole: int
    n_users_unseen: int = 0
    n_repeats: int = 0

    @property
    def judged(self) -> Interactions:
        """The held-out pairs of users who are in `train`: those a trained model can answer for."""
        if not self.n_users_unseen:
            return self.held_out
        known = self.train.user_degrees > 0
        return self.held_out.select(known[self.held_out.pair_users])


@dataclass(frozen=True)
class RatioSplit:
    """A random share of each user's pairs, the paper's 9:1 by default.

    A user with n pairs loses fraction·n of them, rounded with halves upwards, and keeps at
    least one.
    """

    fraction: float = 0.1

    def __post_init__(self) -> None:
        require_range("RatioSplit.fraction", self.fraction, above=0, below=1, what=_NO_SHARE)

    def __call__(self, data: Interactions, *, rng: np.random.Generator) -> Split:
        return self.by_order(data, np.lexsort((rng.random(data.n_pairs), data.pair_users)))

    def by_order(self, data: Interactions, order: NDArray[np.int64]) -> Split:
        """Each user loses her last pairs, in an order that keeps the pairs of a user together."""
        quota = _share_of_each_user(data, self.fraction)
        return _parts(data, _last_of_each_user(data, order, quota))


@dataclass(frozen=True)
class LeaveLast:
    """The n latest pairs of each user, or a share of them rounded as `RatioSplit` does.

    Users with n pairs or fewer stay whole. Without timestamps, the order of the pairs in their
    source counts as time. Of pairs at the same time chance says which are later, unless their
    order is known too.
    """

    n: int = 1
    fraction: float | None = None

    def __post_init__(self) -> None:
        require_range("LeaveLast.n", self.n, at_least=1, what="nothing would be held out")
        if self.fraction is not None:
            require_range("LeaveLast.fraction", self.fraction, above=0, below=1, what=_NO_SHARE)

    def __call__(self, data: Interactions, *, rng: np.random.Generator | None = None) -> Split:
        if data.moments is None or not data.n_pairs:
            raise DataError(
                "which pairs of a user are the latest is not known",
                where="LeaveLast",
                found="neither timestamps nor an order" if data.n_pairs else "no pairs",
                wanted="pairs with a timestamp column, or in the order of a table or of the lines "
                "of a LightGCN folder",
            )
        if data.order is not None:
            return self.by_ties(data, data.order)
        apart = (rng or np.random.default_rng(0)).spawn(1)[0]  # takes no draw from what follows
        return self.by_ties(data, apart.random(data.n_pairs))

    def by_ties(self, data: Interactions, ties: NDArray[Any]) -> Split:
        """The split where, of pairs at the same time, those with the larger number are later."""
        assert data.moments is not None
        order = np.lexsort((ties, data.moments, data.pair_users))
        return _parts(data, _last_of_each_user(data, order, self._quota(data)))

    def share_without_earlier(self, data: Interactions) -> float:
        """The share of the users who lose pairs than which none that they keep is earlier."""
        assert data.moments is not None
        quota = self._quota(data)
        starts, firsts = data.indptr[:-1][quota > 0], (data.indptr[1:] - quota)[quota > 0]
        times = data.moments[data.by_moment()]
        return float((times[starts] == times[firsts]).mean()) if len(firsts) else 0.0

    def _quota(self, data: Interactions) -> NDArray[np.int64]:
        if self.fraction is not None:
            return _share_of_each_user(data, self.fraction)
        return np.where(data.user_degrees > self.n, self.n, 0)


@dataclass(frozen=True)
class TimeSplit:
    """The latest share of all pairs, whoever they belong to.

    Pairs at the very moment of the cut stay in `train`, so with equal timestamps the share may
    be smaller; it is larger only where the latest moment alone is more than the share. As with
    `SplitAt`, users who begin after the cut are in `held_out` alone.
    """

    fraction: float = 0.1

    def __post_init__(self) -> None:
        require_range("TimeSplit.fraction", self.fraction, above=0, below=1, what=_NO_SHARE)

    def __call__(self, data: Interactions, *, rng: np.random.Generator | None = None) -> Split:
        times = first_times(data, splitter="TimeSplit")
        rank = self.rank_of_cut(len(times), int((times < times.max()).sum()))
        return SplitAt(np.partition(times, rank)[rank].item())(data, rng=rng)

    def rank_of_cut(self, n_pairs: int, n_before_the_latest: int) -> int:
        """The place, in the order of time, of the last moment that is kept."""
        n_later = int(np.floor(self.fraction * n_pairs + 0.5 + _ROUNDING))
        return max(min(n_pairs - 1 - n_later, n_before_the_latest - 1), 0)


@dataclass(frozen=True)
class SplitAt:
    """All pairs that first come after a moment, which is in the unit of the timestamps.

    A pair that comes before the cut and again after it is a training pair: a model that has seen
    an item does not list it, so the repeat is no test of it, and is only counted (`n_repeats`). In
    `train` it has its first timestamp; its weight is that of all its repeats.

    Nothing after the cut is ever in `train`: a user whose every pair is later is held out whole
    and counted in `n_users_unseen`, for training on those pairs would tell the model the future.
    `Split.judged` leaves such users out where a model must know its users.
    """

    time: float

    def __call__(self, data: Interactions, *, rng: np.random.Generator | None = None) -> Split:
        times = first_times(data, splitter="SplitAt")
        self.require_both_parts(times.min().item(), times.max().item(), data.n_pairs)
        return self.parts(data)

    def require_both_parts(self, first: float, last: float, n_pairs: int) -> None:
        """Refuse a cut before the first moment or from the last one on."""
        if not first <= self.time < last:
            raise DataError(
                "one part would be empty",
                where=f"a split of {n_pairs:,} pairs after time {self.time}",
                found=f"timestamps from {first} to {last}",
                wanted="pairs up to the cut and pairs after it",
            )

    def parts(self, data: Interactions) -> Split:
        """The split, also where one part is empty."""
        split = _parts(data, first_times(data, splitter="SplitAt") > self.time)
        train = split.train
        if train.earliest is None or train.timestamps is None:
            return split
        again = train.timestamps > self.time
        known = np.where(again, train.earliest, train.timestamps)
        return replace(split, train=replace(train, timestamps=known), n_repeats=int(again.sum()))


def cut_in_time(
    data: Interactions, fraction: float, *, at: str | None = None, last_days: float | None = None
) -> TimeSplit | SplitAt:
    """The split at `--at`, a date or a number in the unit of the timestamps, or by `--last-days`.

    With neither, the share of `--fraction`. What comes at the moment itself is held out.
    """
    if at is None and last_days is None:
        return TimeSplit(fraction)
    times = first_times(data, splitter="--at" if last_days is None else "--last-days")
    return cut_between(times, np.asarray(data.timestamps).max(), at=at, last_days=last_days)


def cut_between(
    times: NDArray[Any], latest: float, *, at: str | None, last_days: float | None
) -> SplitAt:
    """The same where a moment or a number of days is given, of so many times as tell their unit."""
    if at is not None and last_days is not None:
        where, wanted = "--at, --last-days", "one of them"
        raise ConfigError("a split needs one cut", where=where, found="both", wanted=wanted)
    if last_days is not None:
        require_range("--last-days", last_days, above=0, what="no days would be held out")
        return SplitAt(float(latest) - last_days * 86_400 * _unit_of(times))
    return SplitAt(float(np.nextafter(_moment(str(at), times), -np.inf)))


def _moment(text: str, times: NDArray[Any]) -> float:
    """A date in the unit of the timestamps, in UTC where it names no time zone; or a number."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            "the cut is no moment",
            where="--at",
            found=repr(text),
            wanted="a date such as 2026-05-01 or 2026-05-01T12:00, or a number in the unit of "
            "the timestamps",
        ) from None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return date.timestamp() * _unit_of(times)


def _unit_of(times: NDArray[Any]) -> float:
    otherwise = "--at with a number in their unit, or --fraction"
    return ticks_per_second(times, where="--at, --last-days", otherwise=otherwise)


@dataclass(frozen=True)
class Folds:
    """Each user's pairs dealt by chance into n parts, of which each is held out once.

    A user with a single pair stays whole in all of them.
    """

    n: int = 5

    def __post_init__(self) -> None:
        require_range("Folds.n", self.n, at_least=2, what="too few folds")

    def __call__(self, data: Interactions, *, rng: np.random.Generator) -> list[Split]:
        order = np.lexsort((rng.random(data.n_pairs), data.pair_users))
        places = np.arange(data.n_pairs) - np.repeat(data.indptr[:-1], data.user_degrees)
        # users begin at any fold, or the first would have the odd pair of everybody
        starts = rng.integers(self.n, size=data.n_users)
        folds = np.empty(data.n_pairs, np.int64)
        folds[order] = (places + starts[data.pair_users]) % self.n
        folds[data.user_degrees[data.pair_users] == 1] = -1
        return [_parts(data, folds == fold) for fold in range(self.n)]


VALIDATION_BY: Mapping[str, Callable[[float], Callable[..., Split]]] = MappingProxyType(
    {
        "random": RatioSplit,
        "last": lambda fraction: LeaveLast(fraction=fraction),
        "time": TimeSplit,
    }
)
"""The ways to hold out a share for validation, by the names of `--validation-by`."""


def hold_out(data: Interactions, fraction: float, *, by: str, rng: np.random.Generator) -> Split:
    """A share of the pairs held out in one of the ways of `VALIDATION_BY`."""
    try:
        return VALIDATION_BY[by](fraction)(data, rng=rng)
    except DataError as error:
        where, wanted = f"--validation-by {by}", f"{error.wanted}; or --validation-by random"
        raise DataError(error.what, where=where, found=error.found, wanted=wanted) from None


# enough to tell two epochs apart; more would make validation slower than training
MOST_VALIDATION_USERS = 50_000


def split_for_validation(
    data: Interactions,
    fraction: float,
    rng: np.random.Generator,
    by: str = "random",
    *,
    most_users: int | None = None,
) -> Split:
    """A share of the pairs held out in one of the ways of `VALIDATION_BY`, of so many users."""
    split = hold_out(data, fraction, by=by, rng=rng)
    held_out = split.judged
    if held_out.n_pairs == 0 < split.held_out.n_pairs:
        raise ConfigError(
            "no pair is left for validation",
            where=f"--validation-by {by}",
            found=f"{split.held_out.n_pairs:,} later pairs, all of users who have no earlier one",
            wanted="a larger --validation, or --validation-by random",
        )
    if held_out.n_pairs == 0:
        most = int(data.user_degrees.max())
        raise ConfigError(
            "no pair is left for validation",
            where="--validation",
            found=f"{fraction} of users with at most {most} pair{'s' if most > 1 else ''}",
            # of one pair no share can be held out
            wanted=f"{'a larger share' if most > 1 else 'users with two items or more'}, "
            "or 0 to train without validation",
        )
    judged = np.flatnonzero(held_out.user_degrees)
    n_users = min(MOST_VALIDATION_USERS, most_users or MOST_VALIDATION_USERS)
    if len(judged) > n_users:
        chosen = np.zeros(data.n_users, dtype=bool)
        chosen[rng.choice(judged, n_users, replace=False)] = True
        held_out = held_out.select(chosen[held_out.pair_users])
    return Split(split.train, held_out, split.n_users_kept_whole)


def _share_of_each_user(data: Interactions, fraction: float) -> NDArray[np.int64]:
    """So many pairs of each user as make the share, halves upwards, but never all."""
    degrees = data.user_degrees
    quota: NDArray[np.int64] = np.floor(fraction * degrees + 0.5 + _ROUNDING).astype(np.int64)
    return np.minimum(quota, degrees - 1, out=quota)


def _last_of_each_user(
    data: Interactions, order: NDArray[np.int64], quota: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Mark, in an order that keeps users together, the last `quota[u]` pairs of every user."""
    places_left = np.repeat(data.indptr[1:], data.user_degrees) - np.arange(data.n_pairs)
    mask = np.zeros(data.n_pairs, dtype=np.bool_)
    mask[order] = places_left <= quota[data.pair_users]
    return mask


def _parts(data: Interactions, is_held_out: NDArray[np.bool_]) -> Split:
    train, held_out = data.select(~is_held_out), data.select(is_held_out)
    stays, leaves = train.user_degrees > 0, held_out.user_degrees > 0
    return Split(train, held_out, int((stays & ~leaves).sum()), int((leaves & ~stays).sum()))


def first_times(data: Interactions, *, splitter: str) -> NDArray[Any]:
    """When each pair came first."""
    if data.timestamps is None or not data.n_pairs:
        raise DataError(
            "a split by time needs pairs with timestamps",
            where=splitter,
            found="no timestamps" if data.n_pairs else "no pairs",
            wanted="pairs with a timestamp column",
        )
    return data.timestamps if data.earliest is None else data.earliest
