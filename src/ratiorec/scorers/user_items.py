"""Items of each user in sparse rows: pairs without ids, weights and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError


class Pairs(Protocol):
    """Items of each user, as a compressed sparse row matrix."""

    @property
    def indptr(self) -> NDArray[np.int64]: ...

    @property
    def indices(self) -> NDArray[np.int32]: ...


@dataclass(frozen=True, eq=False)
class UserItems:
    """The items of user u are `indices[indptr[u]:indptr[u + 1]]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, pairs: Pairs) -> UserItems:
        """Only the pairs of an `Interactions`, without ids, weights and times."""
        return cls(pairs.indptr, pairs.indices)

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1


def pairs_of(pairs: Pairs, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """All pairs of the given users: the place in `users`, and the item."""
    starts = pairs.indptr[users]
    counts = pairs.indptr[users + 1] - starts
    rows = np.repeat(np.arange(len(users)), counts)
    before = np.cumsum(counts) - counts
    places = np.arange(len(rows)) - np.repeat(before - starts, counts)
    return rows, pairs.indices[places]


def some_of(pairs: Pairs, users: NDArray[np.int64]) -> UserItems:
    """The pairs of the given users alone, in this order."""
    rows, items = pairs_of(pairs, users)
    return UserItems(np.searchsorted(rows, np.arange(len(users) + 1)), items)


def identity_pairs(n: int) -> UserItems:
    """Pairs that join everything with itself, and with nothing else."""
    return UserItems(np.arange(n + 1), np.arange(n, dtype=np.int32))


def check_pairs(pairs: Pairs, n_items: int, *, name: str, n_users: int | None = None) -> None:
    """Refuse rows that overlap or end elsewhere, and items out of range.

    Raises:
        ModelError: `pairs`, which the message calls by `name`, are no rows of items.
    """
    indptr, indices = pairs.indptr, pairs.indices
    require_fit(f"axes of {name}", (indptr.ndim, indices.ndim), (1, 1), "two lists")
    types = (str(indptr.dtype), str(indices.dtype))
    require_fit(f"types of {name}", types, ("int64", "int32"), "indptr and indices")
    n_rows = max(len(indptr), 1) if n_users is None else n_users + 1
    require_fit(f"rows of {name}", len(indptr), n_rows, "one for each, and the end")
    ends = (int(indptr[0]), int(indptr[-1]))
    require_fit(f"ends of {name}", ends, (0, len(indices)), "from first to last")
    in_order = bool((np.diff(indptr) >= 0).all())
    require_fit(f"rows of {name} in order", in_order, True, "rows that do not overlap")
    in_range = not len(indices) or (indices.min() >= 0 and indices.max() < n_items)
    require_fit(f"{name} in range", bool(in_range), True, f"0 to {n_items - 1}")


def require_fit(where: str, found: object, wanted: object, why: str) -> None:
    """Refuse a part of a model that does not fit another.

    Raises:
        ModelError: `found` is not what is wanted.
    """
    if found != wanted:
        raise ModelError(
            "the parts of the model do not fit each other",
            where=where,
            found=str(found),
            wanted=f"{wanted} ({why})",
        )
