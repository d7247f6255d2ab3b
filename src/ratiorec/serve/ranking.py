"""Requests wait in one line, and those that ask alike are ranked together.

Ranking for eight users takes about as long as for one, as the items' vectors are read once for
all of them. So nothing waits for company: whoever arrives while a product runs goes into the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ratiorec.data.vocabulary import OnUnknown
from ratiorec.scorers.table import Recommendations
from ratiorec.serve.errors import RefusedError
from ratiorec.serve.models import Served

T = TypeVar("T")
Id = int | str
Row = dict[str, Any]

USERS_AT_ONCE = 32  # a longer request is cut, so that others need not wait for its end


@dataclass(frozen=True)
class Question:
    """What is asked about some users; two that are equal are answered in one product."""

    model: Served
    k: int
    exclude_seen: bool = True
    allow: tuple[Id, ...] | None = None
    deny: tuple[Id, ...] | None = None
    on_unknown: OnUnknown = "raise"
    of_strangers: bool = False

    def answer(self, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        """The list of each user; strangers all have the same one."""
        if self.of_strangers:
            lists = list(self._ranked(user_ids[:1]).values())
            return dict.fromkeys(user_ids, lists[0]) if lists else {}
        return self._ranked(user_ids)

    def _ranked(self, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        return rows_by_query(
            self.model.artifact.recommend(
                list(user_ids),
                self.k,
                exclude_seen=self.exclude_seen,
                allow=self.allow,
                deny=self.deny,
                on_unknown=self.on_unknown,
            )
        )


def rows_by_query(table: Recommendations) -> dict[Id, list[Row]]:
    """The rows of a table as lists, one for each id that was asked about and has any."""
    lists: dict[Id, list[Row]] = {}
    asked = f"{table.query}_id"
    for row in table.to_dicts():
        lists.setdefault(row.pop(asked), []).append(row)
    return lists


class _Job:
    """A piece of work in the line; a question has users, and anything else is a call."""

    def __init__(self, work: Callable[[], Any] | Question, user_ids: Sequence[Id] = ()) -> None:
        self.work = work
        self.user_ids = user_ids
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Ranker:
    """Works off the line in a thread, as numpy lets go of the interpreter while it multiplies."""

    def __init__(
        self,
        *,
        max_waiting: int,
        seconds: float,
        observe: Callable[[int], None] = lambda n_users: None,
    ) -> None:
        self._max_waiting = max_waiting
        self._seconds = seconds
        self._observe = observe
        self._line: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ranking")
        self._is_busy = False

    @property
    def n_waiting(self) -> int:
        return len(self._line)

    async def lists(self, question: Question, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        """The lists of some users; one without any item has none.

        Raises:
            RefusedError: Too many wait already, or it took too long (both 429).
        """
        unique = list(dict.fromkeys(user_ids))
        blocks = range(0, len(unique), USERS_AT_ONCE)
        jobs = [_Job(question, unique[start : start + USERS_AT_ONCE]) for start in blocks]
        answers = await self._done(jobs)
        return {user: rows for answer in answers for user, rows in answer.items()}

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` returns, once its turn has come.

        Raises:
            RefusedError: Too many wait already, or it took too long (both 429).
        """
        (result,) = await self._done([_Job(work)])
        answer: T = result
        return answer

    def close(self) -> None:
        """End the thread once it has finished what it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _done(self, jobs: Sequence[_Job]) -> list[Any]:
        if not jobs:
            return []
        self._refuse_more_than_can_wait()
        self._line.extend(jobs)
        self._start_next()
        try:
            async with asyncio.timeout(self._seconds):
                return [await job.outcome for job in jobs]
        except TimeoutError:
            raise RefusedError(
                "ranking took too long",
                status=429,
                where="this request",
                found=f"no answer after {self._seconds:g} s",
                wanted="a smaller request, or a server that is less busy",
            ) from None
        finally:
            for job in jobs:
                if not job.outcome.cancel() and not job.outcome.cancelled():
                    job.outcome.exception()  # it has been raised once, for the whole request

    def _refuse_more_than_can_wait(self) -> None:
        if len(self._line) >= self._max_waiting:
            raise RefusedError(
                "the server is busy",
                status=429,
                where="the line of requests",
                found=f"{len(self._line)} waiting",
                wanted=f"fewer than {self._max_waiting}; try again in a second",
                headers={"Retry-After": "1"},
            )

    def _start_next(self) -> None:
        if self._is_busy:
            return
        while self._line and self._line[0].outcome.done():  # nobody waits for it any more
            self._line.popleft()
        if not self._line:
            return
        jobs = self._together()
        self._is_busy = True
        self._observe(sum(len(job.user_ids) for job in jobs))
        loop = asyncio.get_running_loop()
        running = self._thread.submit(_work, jobs[0].work, [job.user_ids for job in jobs])

        def hand_over(done: Future[list[Any]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._finish, jobs, done)

        running.add_done_callback(hand_over)

    def _together(self) -> list[_Job]:
        """The first in the line, and those behind it who ask the same about other users."""
        first = self._line.popleft()
        if not isinstance(first.work, Question):
            return [first]
        together, n_users = [first], len(first.user_ids)
        for job in list(self._line):
            if n_users + len(job.user_ids) > USERS_AT_ONCE:
                break
            if job.work == first.work and not job.outcome.done():
                self._line.remove(job)
                together.append(job)
                n_users += len(job.user_ids)
        return together

    def _finish(self, jobs: Sequence[_Job], done: Future[list[Any]]) -> None:
        self._is_busy = False
        error = done.exception()
        for place, job in enumerate(jobs):
            if job.outcome.done():
                continue
            if error is not None:
                job.outcome.set_exception(error)
            else:
                job.outcome.set_result(done.result()[place])
        self._start_next()


def _work(work: Callable[[], Any] | Question, users_of_jobs: Sequence[Sequence[Id]]) -> list[Any]:
    if not isinstance(work, Question):
        return [work()]
    lists = work.answer(list(dict.fromkeys(user for users in users_of_jobs for user in users)))
    return [{user: lists[user] for user in users if user in lists} for users in users_of_jobs]
