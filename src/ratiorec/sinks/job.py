"""Bulk jobs: lists for many users, one block written while the next is ranked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec import __version__
from ratiorec.data.vocabulary import OnUnknown
from ratiorec.errors import ConfigError, DataError
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Ids, resolve
from ratiorec.scorers.table import Recommendations
from ratiorec.scorers.topk import Progress
from ratiorec.sinks.sink import Block, Destination, Notify, Order, Tally, Writing

if TYPE_CHECKING:
    from collections.abc import Iterator


ROWS_AT_A_TIME = 2**17
"""Rows in a block: enough that a commit costs little beside ranking them."""


@dataclass(frozen=True, eq=False)
class Job:
    """The lists of these users, each named once, with the options of `Artifact.recommend`."""

    model: Artifact
    user_ids: NDArray[Any]
    k: int = 20
    exclude_seen: bool = True
    allow: Ids | None = None
    deny: Ids | None = None
    on_unknown: OnUnknown = "raise"
    memory_mb: float = 512

    @classmethod
    def of(
        cls,
        model: Artifact,
        user_ids: Ids,
        k: int = 20,
        *,
        exclude_seen: bool = True,
        allow: Ids | None = None,
        deny: Ids | None = None,
        on_unknown: OnUnknown = "raise",
        memory_mb: float = 512,
    ) -> Job:
        """The job in the model's own ids; a user named twice is listed once.

        Raises:
            UnknownIdError: An id is unknown and `on_unknown` is "raise".
        """
        ids = model.users.ids
        if user_ids is not ids:
            found = resolve(
                user_ids, None, None, users=model.users, items=model.items, on_unknown=on_unknown
            )
            ids = _each_once(found.user_ids)
        return cls(model, ids, k, exclude_seen, allow, deny, on_unknown, memory_mb)

    @property
    def order(self) -> Order:
        """What a destination has to know."""
        types = self.user_ids.dtype, self.model.items.ids.dtype
        return Order(self.identity, len(self.user_ids), *types)

    @cached_property
    def identity(self) -> str:
        """A hash of all that the lists depend on: the model, the users, the options."""
        asked = resolve(
            [],
            self.allow,
            self.deny,
            users=self.model.users,
            items=self.model.items,
            on_unknown=self.on_unknown,
        )
        scorer, seen = self.model.scorer, self.model.seen
        options = {"k": self.k, "exclude_seen": self.exclude_seen, "scorer": scorer.kind}
        digest = hashlib.sha256(json.dumps(options | {"version": __version__}).encode())
        parts: dict[str, NDArray[Any] | None] = {
            f"scorer.{name}": array for name, array in scorer.arrays().items()
        }
        parts |= {"seen.indptr": seen.indptr, "seen.indices": seen.indices}
        parts |= {"all users": self.model.users.ids, "items": self.model.items.ids}
        parts |= {"names": self.model.items.names, "users": self.user_ids}
        parts |= {"allow": _as_a_set(asked.allow), "deny": _as_a_set(asked.deny)}
        for name, part in parts.items():
            _add(digest, name, part)
        return digest.hexdigest()

    @property
    def users_at_a_time(self) -> int:
        """Users in a block, unless someone says otherwise."""
        return max(1, ROWS_AT_A_TIME // max(1, min(self.k, len(self.model.items))))

    def blocks(
        self, n_done: int, n_users: int, *, progress: Progress | None = None
    ) -> Iterator[Block]:
        """The lists of all but the first `n_done` users, `n_users` at a time.

        The blocks of ranking are small, to stay in the cache, and are joined here.
        """
        total = len(self.user_ids)
        for start in range(n_done, total, n_users):
            ids = self.user_ids[start : start + n_users]
            told = None if progress is None else _shifted(progress, start, total)
            tables = self.model.recommend_blocks(
                ids,
                self.k,
                exclude_seen=self.exclude_seen,
                allow=self.allow,
                deny=self.deny,
                on_unknown=self.on_unknown,
                memory_mb=self.memory_mb,
                progress=told,
            )
            yield Block(start, ids, _joined(list(tables), like=ids))


def _each_once(ids: NDArray[Any]) -> NDArray[Any]:
    once = list(dict.fromkeys(ids.tolist()))
    return ids if len(once) == len(ids) else np.array(once, ids.dtype)


def _as_a_set(items: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    return None if items is None else np.unique(items)


def _add(digest: Any, name: str, part: NDArray[Any] | None) -> None:
    """Add an array to a hash, with what tells it from another of the same bytes."""
    if part is None:
        digest.update(f"{name}: none\n".encode())
        return
    digest.update(f"{name}: {part.dtype} {part.shape}\n".encode())
    if part.dtype == object:
        digest.update(json.dumps(part.tolist()).encode())
    else:
        digest.update(np.ascontiguousarray(part))


def _shifted(progress: Progress, n_before: int, total: int) -> Progress:
    return lambda done, _: progress(n_before + done, total)


def _joined(tables: Sequence[Recommendations], *, like: NDArray[Any]) -> Recommendations:
    """One table of all; user ids get the type of `like`, in which there may be unknown ones."""
    first = tables[0]
    names = [table.answer_names for table in tables if table.answer_names is not None]
    users = np.concatenate([table.query_ids for table in tables])
    if users.dtype != like.dtype:
        users = np.array([str(identifier) for identifier in users.tolist()], object)
    return replace(
        first,
        query_ids=users,
        answer_ids=np.concatenate([table.answer_ids for table in tables]),
        scores=np.concatenate([table.scores for table in tables]),
        ranks=np.concatenate([table.ranks for table in tables]),
        n_users=sum(table.n_users for table in tables),
        answer_names=np.concatenate(names) if names else None,
    )


def write_lists(
    job: Job,
    destination: Destination,
    *,
    resume: bool = True,
    users_at_a_time: int | None = None,
    progress: Progress | None = None,
    notify: Notify | None = None,
) -> Tally:
    """Rank a job into a destination; what came of it, an earlier part of the same job included.

    Args:
        job: Whose lists, of which model.
        destination: Where they go.
        resume: Go on after what an interrupted run of the same job has written, where there is
            any; otherwise start with the first user.
        users_at_a_time: Users in a block, the unit in which lists are written; by default as
            many as have 131,072 rows. A job may go on with another number.
        progress: Told how many users are ranked, and of how many.
        notify: Told what was found, and what is kept when something fails.

    Raises:
        DataError: The job has no user.
        StorageError: The destination could not take the lists.
    """
    n_users = job.users_at_a_time if users_at_a_time is None else users_at_a_time
    _check(job, destination, n_users)
    say = notify or _silence
    with destination.open(job.order, resume=resume, notify=say) as writing:
        if writing.done.n_users:
            say(f"{writing.done.n_users:,} users were written before; going on after them")
        with _kept_users_told(writing, len(job.user_ids), say):
            with _behind(writing.write) as write:
                for block in job.blocks(writing.done.n_users, n_users, progress=progress):
                    write(block)
            writing.finish()
        return writing.done


def _check(job: Job, destination: Destination, n_users: int) -> None:
    if n_users < 1:
        raise ConfigError(
            "a block must have users",
            where="users_at_a_time",
            found=str(n_users),
            wanted="1 or more",
        )
    if not len(job.user_ids):
        raise DataError(
            "there is nothing to write",
            where=destination.where,
            found="no user",
            wanted="at least one",
        )


def _silence(_: str) -> None:
    """Nobody asked."""


@contextmanager
def _kept_users_told(writing: Writing, total: int, say: Notify) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if writing.done.n_users:
            say(
                f"{writing.done.n_users:,} of {total:,} users are written; "
                "the same command goes on after them"
            )
        raise


@contextmanager
def _behind(work: Callable[[Block], None]) -> Iterator[Callable[[Block], None]]:
    """Calls of `work`, in order, in a thread of its own that is at most one block behind."""
    waiting: list[Future[None]] = []

    def call(block: Block) -> None:
        while waiting:
            waiting.pop().result()
        waiting.append(pool.submit(work, block))

    with ThreadPoolExecutor(1) as pool:
        yield call
        while waiting:
            waiting.pop().result()
