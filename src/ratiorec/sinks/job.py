"""Bulk jobs: lists for many users, one block written to a sink while the next is ranked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Unpack

import numpy as np
from numpy.typing import NDArray

from ratiorec import __version__
from ratiorec.catalogue.attributes import Attributes
from ratiorec.errors import DataError, require_range
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Ids, Query, QueryOptions, ResolvedQuery
from ratiorec.reranking.rules import boost_of, pairs
from ratiorec.scorers.table import Recommendations
from ratiorec.scorers.topk import Progress

ROWS_AT_A_TIME = 2**17
"""Rows in a block: enough that a commit costs little beside ranking them."""

Notify = Callable[[str], None]
"""Told, in a sentence, what someone who waits would like to know."""


@dataclass(frozen=True)
class Tally:
    """How much is written: users, their rows, and how many of the users have none."""

    n_users: int = 0
    n_rows: int = 0
    n_without: int = 0

    @classmethod
    def of(cls, lists: Recommendations) -> Tally:
        """The users and rows of a table."""
        return cls(lists.n_users, len(lists), lists.n_users - int((lists.ranks == 1).sum()))

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


@dataclass(frozen=True, eq=False)
class Job:
    """A query about these users, each named once, as the model has their ids."""

    model: Artifact
    user_ids: NDArray[Any]
    query: Query

    @classmethod
    def of(
        cls,
        model: Artifact,
        user_ids: Ids,
        query: Query | int | None = None,
        **options: Unpack[QueryOptions],
    ) -> Job:
        """The job in the model's own ids; a user named twice is listed once."""
        asked, ids = Query.of(query, **options), model.users.ids
        if user_ids is not ids:
            found = asked.resolve(user_ids, users=model.users, filters=model.filters)
            once = list(dict.fromkeys(found.user_ids.tolist()))
            ids = np.array(once, found.user_ids.dtype)
        return cls(model, ids, asked)

    @cached_property
    def identity(self) -> str:
        """A hash of all that the lists depend on: the model, the users, the options."""
        model, asked = self.model, self._asked
        options = {
            name: value
            for name, value in asdict(self.query).items()
            if name not in ("allow", "deny", "filter", "on_unknown", "memory_mb", "attributes")
        }
        options["attributes"] = asked.attributes.describe()
        options |= {"scorer": model.scorer.kind, "version": __version__}
        if self.query.rules is not None:
            options["item table"] = model.item_table.describe()
            options["boosts"] = [  # without names, which may stand for something else later
                (str(model.filters.check(boost_of(text))), strength)
                for text, strength in pairs(self.query.rules.boosts)
            ]
        digest = hashlib.sha256(json.dumps(options).encode())
        parts: dict[str, NDArray[Any] | None] = {
            f"scorer.{name}": array for name, array in model.scorer.arrays().items()
        }
        parts |= {"seen.indptr": model.seen.indptr, "seen.indices": model.seen.indices}
        parts |= {"all users": model.users.ids, "items": model.items.ids}
        parts |= {"names": model.items.names, "users": self.user_ids}
        if self.query.rules is not None:
            parts |= model.item_table.arrays("item table.")
        parts |= asked.attributes.arrays("attributes.")
        if model.new_users is not None:
            parts |= {"new users": model.new_users.ids}
            parts |= model.new_users.attributes.arrays("new users.")
            parts |= model.user_table.arrays("user table.")
        for name, items in (("allow", asked.allow), ("deny", asked.deny)):
            parts[name] = None if items is None else np.unique(items)
        for name, part in parts.items():
            _add(digest, name, part)
        return digest.hexdigest()

    @property
    def attributes(self) -> Attributes:
        """What is given with each listed item."""
        return self._asked.attributes

    @cached_property
    def _asked(self) -> ResolvedQuery:
        return self.query.resolve([], users=self.model.users, filters=self.model.filters)

    @property
    def users_at_a_time(self) -> int:
        """Users in a block, unless someone says otherwise."""
        return max(1, ROWS_AT_A_TIME // max(1, min(self.query.k, len(self.model.items))))

    def block_length(self, asked: int | None, *, where: str) -> int:
        """The users in a block: as many as asked for, or else as suit the length of lists.

        Raises:
            DataError: The job has no user.
        """
        n_users = self.users_at_a_time if asked is None else asked
        require_range("users_at_a_time", n_users, at_least=1, what="a block must have users")
        if not len(self.user_ids):
            raise DataError(
                "there is nothing to write", where=where, found="no user", wanted="at least one"
            )
        return n_users

    def blocks(
        self,
        n_done: int,
        n_users: int,
        *,
        progress: Progress | None = None,
        n_threads: int | None = None,
    ) -> Iterator[Block]:
        """The lists of all but the first `n_done` users, `n_users` at a time.

        The blocks of ranking are small, to stay in the cache, and are joined here.
        """
        total = len(self.user_ids)
        for start in range(n_done, total, n_users):
            ids = self.user_ids[start : start + n_users]
            told = None if progress is None else _shifted(progress, start, total)
            tables = self.model.recommend_blocks(
                ids, self.query, progress=told, n_threads=n_threads
            )
            yield Block(start, ids, _joined(list(tables), like=ids))


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
    names = [table.answer_names for table in tables if table.answer_names is not None]
    kinds = [table.kinds for table in tables if table.kinds is not None]
    answers = [table.answers for table in tables if table.answers is not None]
    users = np.concatenate([table.query_ids for table in tables])
    if users.dtype != like.dtype:
        users = np.array([str(identifier) for identifier in users.tolist()], object)
    return replace(
        tables[0],
        query_ids=users,
        answer_ids=np.concatenate([table.answer_ids for table in tables]),
        scores=np.concatenate([table.scores for table in tables]),
        ranks=np.concatenate([table.ranks for table in tables]),
        n_users=sum(table.n_users for table in tables),
        answer_names=np.concatenate(names) if names else None,
        kinds=np.concatenate(kinds) if kinds else None,
        answers=np.concatenate(answers) if answers else None,
    )


class Writing(Protocol):
    """A sink that has been opened for one job."""

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


class Sink(Protocol):
    """Where lists go: a file, or a table of a database."""

    @property
    def where(self) -> str:
        """Its name for people, without a password."""
        ...

    def describe(self) -> dict[str, str]:
        """Its name for programs, without a password."""
        ...

    def open(self, job: Job, *, resume: bool, notify: Notify) -> AbstractContextManager[Writing]:
        """Make ready for a job, and go on with it where some of it is there and `resume`."""
        ...


def write_lists(
    job: Job,
    sink: Sink,
    *,
    resume: bool = True,
    users_at_a_time: int | None = None,
    progress: Progress | None = None,
    notify: Notify = lambda _: None,
) -> Tally:
    """Rank a job into a sink; what came of it, an earlier part of the same job included.

    Args:
        job: Whose lists, of which model.
        sink: Where they go.
        resume: Go on after what an interrupted run of the same job has written, where there is
            any; otherwise start with the first user.
        users_at_a_time: Users in a block, the unit in which lists are written; by default as
            many as have 131,072 rows. A job may go on with another number.
        progress: Told how many users are ranked, and of how many.
        notify: Told what was found, and what is kept when something fails.

    Raises:
        DataError: The job has no user.
        StorageError: The sink could not take the lists.
    """
    n_users = job.block_length(users_at_a_time, where=sink.where)
    with sink.open(job, resume=resume, notify=notify) as writing:
        if writing.done.n_users:
            notify(f"{writing.done.n_users:,} users were written before; going on after them")
        with kept_users_told(writing, len(job.user_ids), notify):
            with _behind(writing.write) as write:
                for block in job.blocks(writing.done.n_users, n_users, progress=progress):
                    write(block)
            writing.finish()
        return writing.done


class HasTally(Protocol):
    """What knows how much is written."""

    @property
    def done(self) -> Tally: ...


@contextmanager
def kept_users_told(writing: HasTally, total: int, notify: Notify) -> Iterator[None]:
    """Whatever ends the block early, say what is kept of it."""
    try:
        yield
    except BaseException:
        if writing.done.n_users:
            notify(
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
        _wait_for(pool)  # its thread runs: one that is only starting could be missed in the end
        try:
            yield call
            while waiting:
                waiting.pop().result()
        finally:
            _wait_for(pool)


def _wait_for(pool: ThreadPoolExecutor) -> None:
    """Wait until a pool of one thread has done all, however often Ctrl-C is pressed.

    What it writes to is closed after this. To join the thread would not do: interrupted once, that
    takes it for ended.
    """
    interrupt = None
    while True:
        try:
            pool.submit(lambda: None).result()
            break
        except KeyboardInterrupt as pressed:
            interrupt = pressed
    if interrupt is not None:
        raise interrupt
