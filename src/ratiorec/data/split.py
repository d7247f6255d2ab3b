"""Splits that hold pairs out: at random, the latest of each user, or all after a moment.

Every splitter is a stage with the same call, `splitter(data, rng=rng) -> Split`. The two parts
are disjoint, together they are the data, and they depend on nothing but the pairs, the
timestamps where time decides, and the generator where chance does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, require_range

_ROUNDING = 1e-9  # 0.29 · 50 is 14.499999999999998 in binary, and means 14.5
_NO_SHARE = "not a share of the pairs"


@dataclass(frozen=True, eq=False)
class Split:
    """Two parts over the same users and items, and which users are not in both.

    `n_users_kept_whole` have pairs in `train` only: they had too few to lose one, or none
    after the cut. `n_users_unseen` have pairs in `held_out` only, which happens when a cut in
    time comes before their first pair; a model trained on `train` knows nothing of them.
    """

    train: Interactions
    held_out: Interactions
    n_users_kept_whole: int
    n_users_unseen: int = 0

    @property
    def judged(self) -> Interactions:
        """The held-out pairs of users who are in `train`: those a trained model can answer for."""
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
        degrees = data.user_degrees
        quota = np.floor(self.fraction * degrees + 0.5 + _ROUNDING).astype(np.int64)
        order = np.lexsort((rng.random(data.n_pairs), data.pair_users))
        return _parts(data, _last_of_each_user(data, order, np.minimum(quota, degrees - 1)))


@dataclass(frozen=True)
class LeaveLast:
    """The n latest pairs of each user; users with n pairs or fewer stay whole.

    Of pairs at the same time, the one with the larger item index counts as later.
    """

    n: int = 1

    def __post_init__(self) -> None:
        require_range("LeaveLast.n", self.n, at_least=1, what="nothing would be held out")

    def __call__(self, data: Interactions, *, rng: np.random.Generator | None = None) -> Split:
        times = _timestamps(data, splitter="LeaveLast")
        order = np.lexsort((data.indices, times, data.pair_users))
        quota = np.where(data.user_degrees > self.n, self.n, 0)
        return _parts(data, _last_of_each_user(data, order, quota))


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
        times = np.sort(_timestamps(data, splitter="TimeSplit"))
        n_later = int(np.floor(self.fraction * len(times) + 0.5 + _ROUNDING))
        last_before_the_latest = np.searchsorted(times, times[-1]) - 1
        last_kept = min(len(times) - 1 - n_later, last_before_the_latest)
        return SplitAt(times[max(last_kept, 0)].item())(data, rng=rng)


@dataclass(frozen=True)
class SplitAt:
    """All pairs after a moment, which is given in the unit of the timestamps.

    Nothing after the cut is ever in `train`: a user whose every pair is later is held out
    whole and counted in `n_users_unseen`, for training on those pairs would tell the model the
    future. `Split.judged` leaves such users out where a model must know its users.
    """

    time: float

    def __call__(self, data: Interactions, *, rng: np.random.Generator | None = None) -> Split:
        times = _timestamps(data, splitter="SplitAt")
        later = times > self.time
        if later.all() or not later.any():
            raise DataError(
                "one part would be empty",
                where=f"a split of {data.n_pairs:,} pairs after time {self.time}",
                found=f"timestamps from {times.min()} to {times.max()}",
                wanted="pairs up to the cut and pairs after it",
            )
        return _parts(data, later)


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


def _timestamps(data: Interactions, *, splitter: str) -> NDArray[Any]:
    if data.timestamps is None or not data.n_pairs:
        raise DataError(
            "a split by time needs pairs with timestamps",
            where=splitter,
            found="no timestamps" if data.n_pairs else "no pairs",
            wanted="pairs with a timestamp column, or RatioSplit",
        )
    return data.timestamps
