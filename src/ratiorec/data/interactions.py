"""Interactions: the (user, item) pairs of implicit feedback, as compressed sparse rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ratiorec.data.vocabulary import Vocabulary, counts_of, merge_pairs, row_ends, shared_pairs
from ratiorec.errors import DataError, UnknownIdError, unknown_choice
from ratiorec.plain import html_table

if TYPE_CHECKING:
    from ratiorec.data.formats.reading import Reading, RowOptions


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Unique (user, item) pairs as a compressed sparse row matrix.

    The items of user u are `indices[indptr[u]:indptr[u + 1]]`, sorted. `weights`, `timestamps` and
    `order`, where given, stand beside `indices`; `order` is the place of each pair in a source that
    has no timestamps. Of repeats `timestamps` has the latest, and `earliest` the first, where the
    source had any. A user may have no pair. `reading` says what was taken from the source.
    """

    users: Vocabulary
    items: Vocabulary
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32] | None = None
    timestamps: NDArray[np.int64] | NDArray[np.float64] | None = None
    order: NDArray[np.int32] | None = None
    earliest: NDArray[np.int64] | NDArray[np.float64] | None = None
    reading: Reading | None = None
    mean_weight: float | None = None  # of the whole that these are a part of

    def _rows(self) -> list[tuple[str, str]]:
        """What it holds, for people."""
        counts = {"users": self.n_users, "items": self.n_items, "pairs": self.n_pairs}
        has = [name for name in ("weights", "timestamps") if getattr(self, name) is not None]
        return [*((name, f"{n:,}") for name, n in counts.items()), *((name, "yes") for name in has)]

    def __repr__(self) -> str:
        return f"Interactions({', '.join(f'{name}: {value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        return html_table([("Interactions", ""), *self._rows()])

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
        order: ArrayLike | None = None,
    ) -> Interactions:
        """Merge repeated pairs (weights add up, the latest timestamp and place stay) and sort."""
        merged = merge_pairs(
            np.asarray(user_indices, np.int64),
            np.asarray(item_indices, np.int64),
            shape=(len(users), len(items)),
            weights=weights,
            timestamps=timestamps,
            order=order,
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
        events: Iterable[Any] | None = None,
        **how: Unpack[RowOptions],
    ) -> Interactions:
        """Pairs given as two columns of ids, with or without weights, times and kinds of event.

        `how` are options of `read`: event_weights, half_life, repeats, on_bad_rows.

        >>> Interactions.from_pairs(["ann", "bob", "ann"], [10, 10, 30]).n_pairs
        3
        """
        from ratiorec.data.formats.tables import interactions_from_pairs

        given = {"user": user_ids, "item": item_ids, "weight": weights, "timestamp": timestamps}
        return interactions_from_pairs({**given, "event": events}, **how)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        weight: str | int | None = None,
        timestamp: str | int | None = None,
        event: str | int | None = None,
        **how: Unpack[RowOptions],
    ) -> Interactions:
        """Pairs from a pandas or polars frame, an Arrow table or a record batch.

        A column is given by name or by position; without either the usual names are looked for
        (`formats.Columns`), and an empty name leaves weight or timestamp out. A column of kinds of
        event is used where it is given. `how` are options of `read`: event_weights, half_life,
        repeats, on_bad_rows.
        """
        from ratiorec.data.formats import Columns
        from ratiorec.data.formats.tables import interactions_from_frame

        columns = Columns(user, item, weight, timestamp, event)
        return interactions_from_frame(frame, columns, **how)

    @classmethod
    def from_csr(
        cls,
        matrix: Any,
        *,
        user_ids: Iterable[Any] | None = None,
        item_ids: Iterable[Any] | None = None,
    ) -> Interactions:
        """Pairs from a scipy sparse matrix of any format, users by items.

        Values become weights, unless all of them are one; those of an entry that is stored several
        times add up, True as 1. Zeros that are stored are no pairs.
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
        return counts_of(self.indices, self.n_items)

    @cached_property
    def pair_users(self) -> NDArray[np.int32]:
        """The user of each pair, beside `indices`."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_degrees)

    @cached_property
    def relative_weights(self) -> NDArray[np.float32] | None:
        """c_ui, the weights over their mean; None where all pairs count alike (theory: W9)."""
        if self.weights is None or not self.n_pairs:
            return None
        mean = self.mean_weight or float(self.weights.mean(dtype=np.float64))
        if (self.weights == mean).all():
            return None
        return np.asarray(self.weights / mean, np.float32)

    @property
    def moments(self) -> NDArray[np.integer] | NDArray[np.float64] | None:
        """When each pair came: its timestamp, else its place in the source, as far as known."""
        return self.order if self.timestamps is None else self.timestamps

    def by_moment(self) -> NDArray[np.int64]:
        """The pairs user by user, the earliest first; of pairs at one time the smaller item."""
        assert self.moments is not None
        return np.lexsort((self.moments, self.pair_users))

    def positives(self, user: int) -> NDArray[np.int32]:
        """I_u⁺, the items of one user."""
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def _beside(self, places: NDArray[np.bool_] | slice) -> dict[str, Any]:
        """What stands beside `indices`, at these places."""
        names = ("indices", "weights", "timestamps", "order", "earliest")
        return {name: v[places] for name in names if (v := getattr(self, name)) is not None}

    def select(self, mask: NDArray[np.bool_]) -> Interactions:
        """The pairs under the mask, over the same users and items."""
        indptr = row_ends(self.pair_users[mask], self.n_users)
        return replace(self, indptr=indptr, **self._beside(mask))

    def of_users(self, rows: slice) -> Interactions:
        """The pairs of consecutive users, its only ones; a pair counts as before."""
        mean = self.mean_weight
        if self.weights is not None and mean is None:
            mean = float(self.weights.mean(dtype=np.float64))
        start, stop = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        return replace(
            self,
            users=Vocabulary(self.users.ids[rows], self.users.kind),
            indptr=self.indptr[rows.start : rows.stop + 1] - start,
            mean_weight=mean,
            **self._beside(slice(start, stop)),
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
            order=None if self.order is None else self.order[known],
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
        """A fingerprint of the pairs and their relative weights, whatever order they came in."""
        digest = hashlib.sha256(f"{self.n_users} {self.n_items}\n".encode())
        digest.update(np.ascontiguousarray(self.indptr, "<i8").data)
        digest.update(np.ascontiguousarray(self.indices, "<i4").data)
        if self.relative_weights is not None:
            digest.update(np.ascontiguousarray(self.relative_weights, "<f4").data)
        return digest.hexdigest()


@dataclass(frozen=True, repr=False)
class Dataset:
    """Named data; `train` and `test` share their vocabularies and no pair."""

    name: str
    train: Interactions
    test: Interactions | None = None

    def __repr__(self) -> str:
        test = "" if self.test is None else f", test: {self.test!r}"
        return f"Dataset({self.name!r}, train: {self.train!r}{test})"

    def _repr_html_(self) -> str:
        test = [] if self.test is None else [("test pairs", f"{self.test.n_pairs:,}")]
        return html_table([("Dataset", self.name), *self.train._rows(), *test])

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
        n_shared, first = shared_pairs(self.train, self.test, self.train.n_items)
        if first is not None:
            raise DataError(
                "test pairs are in the training part",
                where=f"data set {self.name}",
                found=f"{n_shared:,} such pairs, the first of user "
                f"{self.train.users.ids[first[0]]} and item {self.train.items.ids[first[1]]}",
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
