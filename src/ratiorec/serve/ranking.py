"""The queue of requests, of which those that ask alike are ranked together.

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

from ratiorec.model.query import Query
from ratiorec.scorers.table import Recommendations
from ratiorec.serve.errors import RefusedError
from ratiorec.serve.models import Served

T = TypeVar("T")
Id = int | str
Row = dict[str, Any]

USERS_AT_ONCE = 32  # a longer request is cut, so that others need not wait for its end


@dataclass(frozen=True)
class ServedQuery:
    """A query of one model, for known users or unknown ones; equal ones share one product."""

    model: Served
    query: Query
    of_unknown_users: bool = False

    def answer(self, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        """The list of each user; unknown ones all have the same one."""
        if self.of_unknown_users:
            lists = list(self._ranked(user_ids[:1]).values())
            return dict.fromkeys(user_ids, lists[0]) if lists else {}
        return self._ranked(user_ids)

    def _ranked(self, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        return rows_by_query(self.model.artifact.recommend(list(user_ids), self.query))


def rows_by_query(table: Recommendations) -> dict[Id, list[Row]]:
    """The rows of a table as lists, one for each id that was asked about and has any."""
    lists: dict[Id, list[Row]] = {}
    asked = f"{table.query}_id"
    for row in table.to_dicts():
        lists.setdefault(row.pop(asked), []).append(row)
    return lists


class _Task:
    """A piece of work in the queue; a query has users, and anything else is a call."""

    def __init__(self, work: Callable[[], Any] | ServedQuery, user_ids: Sequence[Id] = ()) -> None:
        self.work = work
        self.user_ids = user_ids
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class RankingQueue:
    """Works off the queue in a thread, as numpy lets go of the interpreter while it multiplies."""

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
        self._waiting: deque[_Task] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ranking")
        self._is_busy = False

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    async def lists(self, query: ServedQuery, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        """The lists of some users; one without any item has none."""
        unique = list(dict.fromkeys(user_ids))
        blocks = range(0, len(unique), USERS_AT_ONCE)
        tasks = [_Task(query, unique[start : start + USERS_AT_ONCE]) for start in blocks]
        answers = await self._done(tasks)
        return {user: rows for answer in answers for user, rows in answer.items()}

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` returns, once its turn has come."""
        (result,) = await self._done([_Task(work)])
        answer: T = result
        return answer

    def close(self) -> None:
        """End the thread once it has finished what it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _done(self, tasks: Sequence[_Task]) -> list[Any]:
        if not tasks:
            return []
        self._refuse_more_than_can_wait()
        self._waiting.extend(tasks)
        self._start_next()
        try:
            async with asyncio.timeout(self._seconds):
                return [await task.outcome for task in tasks]
        except TimeoutError:
            raise RefusedError(
                "ranking took too long",
                status=429,
                where="this request",
                found=f"no answer after {self._seconds:g} s",
                wanted="a smaller request, or a server that is less busy",
            ) from None
        finally:
            for task in tasks:
                if not task.outcome.cancel() and not task.outcome.cancelled():
                    task.outcome.exception()  # it has been raised once, for the whole request

    def _refuse_more_than_can_wait(self) -> None:
        if len(self._waiting) >= self._max_waiting:
            raise RefusedError(
                "the server is busy",
                status=429,
                where="the queue of requests",
                found=f"{len(self._waiting)} waiting",
                wanted=f"fewer than {self._max_waiting}; try again in a second",
                headers={"Retry-After": "1"},
            )

    def _start_next(self) -> None:
        if self._is_busy:
            return
        while self._waiting and self._waiting[0].outcome.done():  # nobody waits for it any more
            self._waiting.popleft()
        if not self._waiting:
            return
        tasks = self._together()
        self._is_busy = True
        self._observe(sum(len(task.user_ids) for task in tasks))
        loop = asyncio.get_running_loop()
        running = self._thread.submit(_work, tasks[0].work, [task.user_ids for task in tasks])

        def hand_over(done: Future[list[Any]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._finish, tasks, done)

        running.add_done_callback(hand_over)

    def _together(self) -> list[_Task]:
        """The first in the queue, and those behind it who ask the same about other users."""
        first = self._waiting.popleft()
        if not isinstance(first.work, ServedQuery):
            return [first]
        together, n_users = [first], len(first.user_ids)
        for task in list(self._waiting):
            if n_users + len(task.user_ids) > USERS_AT_ONCE:
                break
            if task.work == first.work and not task.outcome.done():
                self._waiting.remove(task)
                together.append(task)
                n_users += len(task.user_ids)
        return together

    def _finish(self, tasks: Sequence[_Task], done: Future[list[Any]]) -> None:
        self._is_busy = False
        error = done.exception()
        for place, task in enumerate(tasks):
            if task.outcome.done():
                continue
            if error is not None:
                task.outcome.set_exception(error)
            else:
                task.outcome.set_result(done.result()[place])
        self._start_next()


def _work(work: Callable[[], Any] | ServedQuery, users_of: Sequence[Sequence[Id]]) -> list[Any]:
    """One result for each task of which these are the users."""
    if not isinstance(work, ServedQuery):
        return [work()]
    lists = work.answer(list(dict.fromkeys(user for users in users_of for user in users)))
    return [{user: lists[user] for user in users if user in lists} for users in users_of]
