"""What ranking asks of a model, and what a model folder asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ratiorec.seen import Pairs

FloatMatrix = NDArray[np.float32]
Indices = NDArray[np.int64]


class Scorer(Protocol):
    """Scores users against all items; the larger the score, the better the item.

    The row of a user has the same bits whatever other users it is computed with.
    """

    @property
    def n_users(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """One row of scores for each user [n, n_items], in `out` where that is given."""
        ...


@runtime_checkable
class Factored(Protocol):
    """A scorer whose scores are inner products, so that whoever multiplies faster may do so."""

    @property
    def item_vectors(self) -> FloatMatrix:
        """One vector for each item [n_items, d]."""
        ...

    def user_vectors(self, users: Indices) -> FloatMatrix:
        """One vector for each of these users [n, d]."""
        ...


class StoredScorer(Scorer, Protocol):
    """A scorer that a model folder can hold: a name for its kind, and plain arrays.

    The folder holds the pairs of training beside the arrays and hands them over as `histories`,
    which is where a model that scores by what a user has finds its users.
    """

    kind: ClassVar[str]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that the scorer is made of, but for the histories."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        """The scorer again.

        Raises:
            ModelError: The arrays are malformed, or their scores might not be finite.
            KeyError: One of them is missing.
        """
        ...

    def similarity(self) -> Scorer:
        """Scores items against items.

        Raises:
            ConfigError: This kind of model compares no items.
        """
        ...
