"""Interactions: the (user, item) pairs of implicit feedback, as compressed sparse rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, UnknownIdError, unknown_choice


@dataclass(frozen=True, eq=False)
class Interactions:
    """Unique (user, item) pairs as a compressed sparse row matrix.

    The items of user u are `indices[indptr[u]:indptr[u + 1]]`, sorted. `weights` and
    `timestamps`, where given, stand beside `indices`. A user may have no pair.
    """

    users: Vocabulary
    items: Vocabulary
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    timestamps: NDArray[np.int64] | NDArray[np.float64] | None = None

    @classmethod
    def from_indices(
        cls,
        users: Vocabulary,
        items: Vocabulary,
        user_indices: ArrayLike,
        item_indices: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
    ) -> Interactions:
        """Merge repeated pairs (weights add up, the latest timestamp stays) and sort."""
        merged = merge_pairs(
            np.asarray(user_indices, np.int64),
            np.asarray(item_indices, np.int64),
            shape=(len(users), len(items)),
            weights=weights,
            timestamps=timestamps,
        )
        return cls(users, items, *merged)

    @classmethod
    def from_pairs(
        cls,
        user_ids: Iterable[Any],
        item_ids: Iterable[Any],
        *,
        weights: Iterable[Any] | None = None,
        timestamps: Iterable[Any] | None = None,
    ) -> Interactions:
        """Pairs given as two columns of ids, with or without weights and times.

        >>> Interactions.from_pairs(["ann", "bob", "ann"], [10, 10, 30]).n_pairs
        3
        """
        from ratiorec.data.formats.tables import interactions_from_pairs

        return interactions_from_pairs(user_ids, item_ids, weights=weights, timestamps=timestamps)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        weight: str | int | None = None,
        timestamp: str | int | None = None,
    ) -> Interactions:
        """Pairs from a pandas or polars frame, an Arrow table or a record batch.

        A column is given by name or by position; without either the usual names are looked for
        (`formats.Columns`), and an empty name leaves weight or timestamp out.
        """
        from ratiorec.data.formats import Columns
        from ratiorec.data.formats.tables import interactions_from_frame

        return interactions_from_frame(frame, Columns(user, item, weight, timestamp))

    @classmethod
    def from_csr(
        cls,
        matrix: Any,
        *,
        user_ids: Iterable[Any] | None = None,
        item_ids: Iterable[Any] | None = None,
    ) -> Interactions:
        """Pairs from a scipy sparse matrix of any format, users by items.

        Values become weights, unless all of them are one. Zeros that are stored are no pairs.
        """
        from ratiorec.data.formats.tables import interactions_from_sparse

        return interactions_from_sparse(matrix, user_ids=user_ids, item_ids=item_ids)

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_pairs(self) -> int:
        return len(self.indices)

    @property
    def density(self) -> float:
        """The share of all possible pairs that are there."""
        return self.n_pairs / max(self.n_users * self.n_items, 1)

    @cached_property
    def user_degrees(self) -> NDArray[np.int64]:
        """|I_u⁺|, the number of items of each user."""
        return np.diff(self.indptr)

    @cached_property
    def item_degrees(self) -> NDArray[np.int64]:
        """|U_i⁺|, the number of users of each item."""
        return np.bincount(self.indices, minlength=self.n_items).astype(np.int64)

    @cached_property
    def pair_users(self) -> NDArray[np.int32]:
        """The user of each pair, beside `indices`."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_degrees)

    def positives(self, user: int) -> NDArray[np.int32]:
        """I_u⁺, the items of one user."""
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def select(self, mask: NDArray[np.bool_]) -> Interactions:
        """The pairs under the mask, over the same users and items."""
        return replace(
            self,
            indptr=_row_ends(self.pair_users[mask], self.n_users),
            indices=self.indices[mask],
            weights=None if self.weights is None else self.weights[mask],
            timestamps=None if self.timestamps is None else self.timestamps[mask],
        )

    def known_to(self, users: Vocabulary, items: Vocabulary) -> NDArray[np.bool_]:
        """A mask of the pairs whose user and item are both in other vocabularies."""
        known_users = users.indices(self.users.ids, on_unknown="skip") >= 0
        known_items = items.indices(self.items.ids, on_unknown="skip") >= 0
        return known_users[self.pair_users] & known_items[self.indices]

    def aligned_to(
        self,
        users: Vocabulary,
        items: Vocabulary,
        *,
        on_unknown: Literal["raise", "skip"] = "raise",
    ) -> Interactions:
        """The same pairs over other vocabularies, say those of a model.

        With `on_unknown="skip"` the pairs of an unknown user or item are left out;
        `(~data.known_to(users, items)).sum()` is their number.

        Raises:
            UnknownIdError: A pair has an id that the other vocabulary lacks.
        """
        if on_unknown not in (policies := ("raise", "skip")):
            what = "unknown policy for unknown ids"
            raise unknown_choice(what, on_unknown, policies, where="on_unknown")
        known = self.known_to(users, items)
        if on_unknown == "raise" and not known.all():
            raise self._unknown_pairs(~known, users, items)
        new_users = users.indices(self.users.ids, on_unknown="skip")
        new_items = items.indices(self.items.ids, on_unknown="skip")
        return Interactions.from_indices(
            users,
            items,
            new_users[self.pair_users[known]],
            new_items[self.indices[known]],
            weights=None if self.weights is None else self.weights[known],
            timestamps=None if self.timestamps is None else self.timestamps[known],
        )

    def _unknown_pairs(
        self, unknown: NDArray[np.bool_], users: Vocabulary, items: Vocabulary
    ) -> UnknownIdError:
        first = int(np.argmax(unknown))
        user = self.users.ids[[self.pair_users[first]]].tolist()[0]
        item = self.items.ids[[self.indices[first]]].tolist()[0]
        is_user = users.indices([user], on_unknown="skip")[0] < 0
        return UnknownIdError(
            f"{int(unknown.sum()):,} of {self.n_pairs:,} pairs have an unknown user or item",
            where=f"the pair of user {user} and item {item}",
            found=f"user {user!r}" if is_user else f"item {item!r}",
            wanted=f"one of the {len(users):,} known users and {len(items):,} known items, "
            'or on_unknown="skip"',
        )

    @cached_property
    def sha256(self) -> str:
        """A fingerprint of the pairs, whatever order they came in."""
        digest = hashlib.sha256(f"{self.n_users} {self.n_items}\n".encode())
        digest.update(self.indptr.astype("<i8").tobytes())
        digest.update(self.indices.astype("<i4").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Dataset:
    """Named data; `train` and `test` share their vocabularies and no pair."""

    name: str
    train: Interactions
    test: Interactions | None = None

    def __post_init__(self) -> None:
        if self.test is None:
            return
        if self.test.users is not self.train.users or self.test.items is not self.train.items:
            raise DataError(
                "train and test do not share their users and items",
                where=f"data set {self.name}",
                found="two vocabularies",
                wanted="test.aligned_to(train.users, train.items)",
            )
        shared = np.intersect1d(_keys(self.train), _keys(self.test), assume_unique=True)
        if len(shared):
            user, item = divmod(int(shared[0]), self.train.n_items)
            raise DataError(
                "test pairs are in the training part",
                where=f"data set {self.name}",
                found=f"{len(shared):,} such pairs, the first of user "
                f"{self.train.users.ids[user]} and item {self.train.items.ids[item]}",
                wanted="no pair in both parts",
            )


def require_trainable(data: Interactions) -> Interactions:
    """The same data, once there is something to learn from: two users, two items, a pair."""
    for n, least, kind in (
        (data.n_users, 2, "user"),
        (data.n_items, 2, "item"),
        (data.n_pairs, 1, "pair"),
    ):
        if n < least:
            raise DataError(
                f"too few {kind}s to learn from",
                where="training data",
                found=f"{n} {kind}{'' if n == 1 else 's'}",
                wanted=f"at least {least} {kind}{'' if least == 1 else 's'}",
            )
    return data


def weights_are_ignored(data: Interactions) -> str | None:
    """The warning for whoever trains on pairs with weights; None where there are no weights."""
    if data.weights is None:
        return None
    return "the weights of the pairs are kept with the data and change no model yet"


class MergedPairs(NamedTuple):
    """Unique pairs sorted by user, then item; the fields of `Interactions` beside its ids."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    timestamps: NDArray[np.int64] | NDArray[np.float64] | None = None


def merge_pairs(
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    *,
    shape: tuple[int, int],
    weights: ArrayLike | None = None,
    timestamps: ArrayLike | None = None,
) -> MergedPairs:
    """Sort the pairs and merge repeats: weights add up, the latest timestamp stays."""
    n_users, n_items = shape
    _check_lengths(len(users), items=items, weights=weights, timestamps=timestamps)
    _check_range(users, n_users, "user")
    _check_range(items, n_items, "item")
    width = max(n_items, 1)
    key = users * width + items
    if weights is None and timestamps is None:  # sorting takes half the time without an order
        key.sort()
        key = key[_starts_of_runs(key)]
        return MergedPairs(_row_ends(key // width, n_users), (key % width).astype(np.int32))
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = _starts_of_runs(key)
    unique = key[starts]
    return MergedPairs(
        _row_ends(unique // width, n_users),
        (unique % width).astype(np.int32),
        None if weights is None else _add_up(_as_weights(weights)[order], key, starts),
        None if timestamps is None else _latest(_as_times(timestamps)[order], starts),
    )


def _latest(
    times: NDArray[np.int64] | NDArray[np.float64], starts: NDArray[np.int64]
) -> NDArray[np.int64] | NDArray[np.float64]:
    return np.maximum.reduceat(times, starts) if len(starts) else times


def _starts_of_runs(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """The start of each run of equal sorted keys."""
    is_start = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=is_start[1:])
    return np.flatnonzero(is_start)


def _row_ends(rows: NDArray[np.integer], n_rows: int) -> NDArray[np.int64]:
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=indptr[1:])
    return indptr


def _add_up(
    weights: NDArray[np.float64], key: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The sum of each run, smallest weight first, so that the order of the rows is no matter."""
    if len(starts) < len(key):
        weights = np.add.reduceat(weights[np.lexsort((weights, key))], starts)
    largest = float(np.finfo(np.float32).max)
    if len(weights) and weights.max() > largest:
        raise DataError(
            "a weight is too large",
            where="weights, summed by pair",
            found=f"{weights.max():g}",
            wanted=f"at most {largest:g}",
        )
    return weights.astype(np.float32)


def _as_weights(values: ArrayLike) -> NDArray[np.float64]:
    weights = np.asarray(values, dtype=np.float64)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            "a weight is negative or not a finite number",
            where=f"weights, row {row + 1}",
            found=str(weights[row]),
            wanted="a number from 0 upwards",
        )
    return weights


def _as_times(values: ArrayLike) -> NDArray[np.int64] | NDArray[np.float64]:
    """Whole numbers as int64, dates as microseconds, all else as float64."""
    times = np.asarray(values)
    missing = ~np.isfinite(times)
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            "a timestamp is missing",
            where=f"timestamps, row {row + 1}",
            found=str(times[row]),
            wanted="a number or a date",
        )
    if times.dtype.kind == "M":
        return times.astype("datetime64[us]").astype(np.int64)
    return times.astype(np.int64) if times.dtype.kind in "iub" else times.astype(np.float64)


def _check_lengths(n_rows: int, **columns: ArrayLike | None) -> None:
    for name, values in columns.items():
        if values is not None and len(np.asarray(values)) != n_rows:
            raise DataError(
                "the columns differ in length",
                where=name,
                found=f"{len(np.asarray(values))} rows",
                wanted=f"{n_rows}, one for each user index",
            )


def _check_range(indices: NDArray[np.int64], n: int, kind: str) -> None:
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        worst = int(indices.min() if indices.min() < 0 else indices.max())
        raise DataError(
            f"{kind} index out of range",
            where=f"{kind} indices",
            found=str(worst),
            wanted=f"0 to {n - 1}",
        )


def _keys(data: Interactions) -> NDArray[np.int64]:
    return data.pair_users.astype(np.int64) * data.n_items + data.indices


def inclusion_probability(
    item_degrees: NDArray[np.int64], *, n_users: int, n_drawn: int
) -> NDArray[np.float64]:
    """s(i) = 1 − C(n_i⁻, |U_B|) / C(|U|, |U_B|), n_i⁻ the users without item i (theory: P1).

    An item that some drawn user must have is certain: n_i⁻ < |U_B| gives 1.

    >>> inclusion_probability(np.array([0, 1, 3]), n_users=4, n_drawn=2).round(6).tolist()
    [0.0, 0.5, 1.0]
    """
    from scipy.special import gammaln

    others = (n_users - np.asarray(item_degrees)).astype(np.float64)
    certain = others < n_drawn
    others = np.where(certain, n_drawn, others)
    log_missed = (
        gammaln(others + 1)
        - gammaln(others - n_drawn + 1)
        - gammaln(n_users + 1)
        + gammaln(n_users - n_drawn + 1)
    )
    return np.where(certain, 1.0, np.clip(-np.expm1(log_missed), 0.0, 1.0))
