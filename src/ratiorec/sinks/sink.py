"""What passes from a job to a destination, and what is asked of a destination."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.scorers.table import Recommendations

Notify = Callable[[str], None]
"""Told, in a sentence, what someone who waits would like to know."""


@dataclass(frozen=True)
class Tally:
    """How much is written: users, their rows, and how many of the users have none."""

    n_users: int = 0
    n_rows: int = 0
    n_without: int = 0

    def plus(self, other: Tally) -> Tally:
        return Tally(
            self.n_users + other.n_users,
            self.n_rows + other.n_rows,
            self.n_without + other.n_without,
        )


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive users of a job with their lists; `n_before` users of the job stand before."""

    n_before: int
    user_ids: NDArray[Any]
    lists: Recommendations

    @property
    def tally(self) -> Tally:
        n_users = len(self.user_ids)
        return Tally(n_users, len(self.lists), n_users - int((self.lists.ranks == 1).sum()))


class Order(NamedTuple):
    """What a destination knows of a job: which one it is, how long, and the type of its ids."""

    identity: str
    n_users: int
    user_type: np.dtype[Any]
    item_type: np.dtype[Any]


class Writing(Protocol):
    """A destination that has been opened for one job."""

    @property
    def done(self) -> Tally:
        """What is written and will stay, here and in an earlier run of the same job."""
        ...

    def write(self, block: Block) -> None:
        """Write the block that follows what is done, whole or not at all."""
        ...

    def finish(self) -> None:
        """The last block is written: hand the lists over."""
        ...


class Destination(Protocol):
    """A place for lists."""

    @property
    def where(self) -> str:
        """Its name for people, without a password."""
        ...

    def describe(self) -> dict[str, str]:
        """Its name for programs, without a password."""
        ...

    def open(
        self, order: Order, *, resume: bool, notify: Notify
    ) -> AbstractContextManager[Writing]:
        """Make ready for a job, and go on with it where some of it is there and `resume`.

        Raises:
            StorageError: It cannot take these lists; this is found out before any is ranked.
        """
        ...
