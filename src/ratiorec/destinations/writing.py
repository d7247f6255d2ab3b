"""Ranking and writing side by side: one block is written while the next is ranked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ratiorec.destinations.job import Job
from ratiorec.destinations.protocol import Block, Destination, Notify, Tally, Writing
from ratiorec.errors import ConfigError, DataError
from ratiorec.recommend import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator


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
