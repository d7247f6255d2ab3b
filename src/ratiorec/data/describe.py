"""Description of data in numbers, with warnings about what is hard to learn from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import LeaveLast

_EARLY_UNIX_TIME = 10**8  # March 1973, in seconds
_ENOUGH_PAIRS = 1_000_000  # for a verdict on their order
_FEWEST_COMPARED = 30  # neighbours; all of them agree by chance once in 2^30 cases
_MOST_WITHOUT = 0.5  # of the users; with more of them the last pairs are mostly chance
_SORTED = 0.99  # of the neighbours agree
_SURE = 4.0  # standard errors


@dataclass(frozen=True)
class DegreeSummary:
    """The spread of the numbers of pairs over the users, or over the items."""

    min: int
    median: float
    mean: float
    p90: float
    max: int

    @classmethod
    def of(cls, degrees: NDArray[np.int64]) -> DegreeSummary:
        """The summary of these degrees; zeros where there are none."""
        if not len(degrees):
            return cls(0, 0.0, 0.0, 0.0, 0)
        median, p90 = np.quantile(degrees, (0.5, 0.9))
        return cls(
            int(degrees.min()), float(median), float(degrees.mean()), float(p90), int(degrees.max())
        )


@dataclass(frozen=True)
class Drift:
    """The mean over users of later minus earlier log popularity, and its t statistic."""

    mean: float
    t: float
    n_users: int


@dataclass(frozen=True)
class OrderEvidence:
    """Whether the latest pairs of each user can be told, and from what.

    `drift` compares the last tenth of each user's pairs with the rest. `agreement` is the share of
    pairs of neighbours that stand in the same order in two users' lines: 1/2 where the order is
    chance, 1 where one key sorts all lines; `z` is its distance from 1/2 in standard errors, over
    `n_compared` such pairs. A key of the user's own, say her ratings, cannot be told from time.
    """

    is_informative: bool
    sentence: str
    drift: Drift | None = None
    agreement: float | None = None
    z: float | None = None
    n_compared: int = 0


@dataclass(frozen=True)
class Description:
    """Counts, density, degrees and inequality of the pairs, with warnings in words."""

    n_users: int
    n_items: int
    n_pairs: int
    density: float
    user_degrees: DegreeSummary
    item_degrees: DegreeSummary
    n_users_with_one_pair: int
    n_items_with_one_pair: int
    n_users_without_pair: int
    n_items_without_pair: int
    item_gini: float
    has_weights: bool
    has_timestamps: bool
    has_order: bool
    order: OrderEvidence
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The same as plain dictionaries, lists and numbers."""
        return {**asdict(self), "warnings": list(self.warnings)}


def describe(data: Interactions) -> Description:
    """Count users, items and pairs, and warn about what is hard to learn from."""
    of_users, of_items = data.user_degrees, data.item_degrees
    return Description(
        n_users=data.n_users,
        n_items=data.n_items,
        n_pairs=data.n_pairs,
        density=data.density,
        user_degrees=DegreeSummary.of(of_users),
        item_degrees=DegreeSummary.of(of_items),
        n_users_with_one_pair=int((of_users == 1).sum()),
        n_items_with_one_pair=int((of_items == 1).sum()),
        n_users_without_pair=int((of_users == 0).sum()),
        n_items_without_pair=int((of_items == 0).sum()),
        item_gini=gini(of_items),
        has_weights=data.weights is not None,
        has_timestamps=data.timestamps is not None,
        has_order=data.order is not None,
        order=order_evidence(data),
        warnings=_warnings(data),
    )


def order_evidence(data: Interactions) -> OrderEvidence:
    """Timestamps, or else whether the order of the source looks like time, a key, or chance."""
    if data.moments is None or not data.n_pairs:
        return OrderEvidence(False, "neither timestamps nor an order of the pairs are known")
    step = -(-data.n_pairs // _ENOUGH_PAIRS)
    sample = data.select(data.pair_users % step == 0)
    last_tenth = LeaveLast(fraction=0.1)
    if data.timestamps is not None:
        if data.timestamps.min() == data.timestamps.max():
            return OrderEvidence(False, "all pairs have the same timestamp")
        return _evidence_of_times(last_tenth.share_without_earlier(sample))
    split = last_tenth(sample)
    drift = popularity_drift(split.train, split.held_out, data.item_degrees)
    agreement, n_compared = neighbour_agreement(sample)
    z = (2 * agreement - 1) * n_compared**0.5
    figures = (
        f"the last tenth of each user's items differs by {drift.mean:+.3f} in log popularity "
        f"(t = {drift.t:.1f}), and {agreement:.1%} of {n_compared:,} shared neighbours stand in "
        f"the same order (z = {z:.1f})"
    )
    if n_compared < _FEWEST_COMPARED:
        verdict = "the order of the pairs cannot be judged, too few neighbours are shared"
    elif agreement >= _SORTED:
        verdict = "the pairs are sorted by item, so their order says nothing of time"
    elif max(abs(drift.t), z) < _SURE:
        verdict = "the order of the pairs looks like chance"
    else:
        sentence = f"the order of the pairs counts as time: {figures}"
        return OrderEvidence(True, sentence, drift, agreement, z, n_compared)
    return OrderEvidence(False, f"{verdict}: {figures}", drift, agreement, z, n_compared)


def _evidence_of_times(share: float) -> OrderEvidence:
    """Timestamps tell nothing of users who have one day, or one order."""
    if share <= _MOST_WITHOUT:
        return OrderEvidence(True, "the pairs have timestamps")
    sentence = (
        f"for {share:.1%} of the users no pair is earlier than the last tenth of theirs, as where "
        "somebody has one day or one order"
    )
    return OrderEvidence(False, sentence)


def order_note(data: Interactions) -> str | None:
    """Why validation pairs are drawn at random, though the data have timestamps."""
    evidence = order_evidence(data)
    if data.timestamps is None or evidence.is_informative:
        return None
    return f"{evidence.sentence}; validation pairs are drawn at random"


def popularity_drift(
    earlier: Interactions, later: Interactions, popularity: NDArray[np.int64]
) -> Drift:
    """Mean log popularity of each user's later items minus that of the earlier ones.

    Zero on average where chance decides which pairs are later, if the popularity counts both parts.
    """
    both = (earlier.user_degrees > 0) & (later.user_degrees > 0)
    logs = np.log(popularity.clip(1))
    before, after = (
        np.bincount(part.pair_users, logs[part.indices], part.n_users)[both]
        / part.user_degrees[both]
        for part in (earlier, later)
    )
    gains, n_users = after - before, int(both.sum())
    spread = float(gains.std(ddof=1)) if n_users > 1 else 0.0
    mean = float(gains.mean()) if n_users else 0.0
    return Drift(mean, mean / spread * n_users**0.5 if spread else 0.0, n_users)


def neighbour_agreement(data: Interactions) -> tuple[float, int]:
    """The share of neighbours that two users have in the same order, and how many are compared.

    Each user's pairs, in their order, are taken two by two. Where several users have the same two
    items so, each is compared with the next; if every order is equally likely these comparisons
    are independent fair coins.
    """
    items = data.indices[data.by_moment()].astype(np.int64)
    places = np.arange(data.n_pairs) - np.repeat(data.indptr[:-1], data.user_degrees)
    ends = np.flatnonzero(places % 2 == 1)
    first, second = items[ends - 1], items[ends]
    key = np.minimum(first, second) * data.n_items + np.maximum(first, second)
    by_key = np.argsort(key, kind="stable")
    key, ascends = key[by_key], (first < second)[by_key]
    agrees = (ascends[1:] == ascends[:-1])[key[1:] == key[:-1]]
    return float(agrees.mean()) if len(agrees) else 0.5, len(agrees)


def gini(counts: NDArray[np.int64]) -> float:
    """The Gini coefficient: 0 where all are equal, towards 1 where one has everything.

    >>> gini(np.array([0, 0, 0, 4]))
    0.75
    """
    total = counts.sum()
    if not total:
        return 0.0
    n = len(counts)
    ranks = np.arange(1, n + 1)
    return float(2 * (ranks * np.sort(counts)).sum() / (n * total) - (n + 1) / n)


def _warnings(data: Interactions) -> tuple[str, ...]:
    found = []
    for kind, degrees in (("user", data.user_degrees), ("item", data.item_degrees)):
        if len(degrees) < 2:
            found.append(f"too few {kind}s to learn from: {len(degrees)}; at least 2 are needed")
        if n_single := int((degrees == 1).sum()):
            found.append(
                f"{_count(n_single, kind)} of {len(degrees):,} with one pair only: it cannot be "
                "held out and learnt from at once; two or more pairs are better"
            )
        if n_empty := int((degrees == 0).sum()):
            found.append(
                f"{_count(n_empty, kind)} of {len(degrees):,} without any pair: nothing can be "
                "learnt about them; leave them out or find their pairs"
            )
    return (*found, *filter(None, [note_of_times_as_weights(data)]))


def note_of_times_as_weights(data: Interactions) -> str | None:
    """The warning that the weights may be times, as of a log without a header."""
    if data.weights is None or not data.n_pairs or data.weights.min() <= _EARLY_UNIX_TIME:
        return None
    return (
        f"every weight is above {_EARLY_UNIX_TIME:,}, like a time in seconds: name the "
        "column as timestamp if that is what it is"
    )


def _count(n: int, kind: str) -> str:
    return f"{n:,} {kind}{'' if n == 1 else 's'}"
