"""The queue of requests: short ones first, those that ask alike together, long ones in blocks.

Ranking for eight users takes about as long as for one, as the items' vectors are read once for
all of them. So nothing waits for company: whoever arrives while a product runs goes into the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ratiorec.model.query import Query
from ratiorec.scorers.table import Recommendations
from ratiorec.serve.errors import RefusedError
from ratiorec.serve.models import Served

S = TypeVar("S")
T = TypeVar("T")
Id = int | str
Row = dict[str, Any]
Work = Callable[[Sequence[Any]], Sequence[Any]]
"""Makes one result of each part of a request: of users their lists, say."""

SHORT = 8  # parts of a request that is worked on in one go; products take eight rows at a time
PARTS_AT_ONCE = 32
_BLOCK_SECONDS = 0.008  # about what a short request may wait for a long one


@dataclass(frozen=True)
class ServedQuery:
    """A query of one model, for known users or unknown ones; equal ones share one product."""

    model: Served
    query: Query
    of_unknown_users: bool = False

    def __call__(self, user_ids: Sequence[Id]) -> list[list[Row]]:
        """The list of each user; unknown ones all have the same one."""
        ranked = user_ids[:1] if self.of_unknown_users else user_ids
        lists = rows_by_query(self.model.artifact.recommend(list(ranked), self.query))
        if self.of_unknown_users:
            return [next(iter(lists.values()), [])] * len(user_ids)
        by_text = {str(user): rows for user, rows in lists.items()}
        return [by_text.get(str(user), []) for user in user_ids]


def rows_by_query(table: Recommendations) -> dict[Id, list[Row]]:
    """The rows of a table as lists, one for each id that was asked about and has any."""
    lists: dict[Id, list[Row]] = {}
    asked = f"{table.query}_id"
    for row in table.to_dicts():
        lists.setdefault(row.pop(asked), []).append(row)
    return lists


class _Queued:
    """A request in the queue, and the results of those of its parts that are done."""

    def __init__(self, work: Work, parts: Sequence[Any], at_once: int) -> None:
        self.work = work
        self.parts = parts
        self.results: list[Any] = []
        self.at_once = at_once
        self.outcome: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    @property
    def n_left(self) -> int:
        return len(self.parts) - len(self.results)

    def block(self) -> Sequence[Any]:
        """The parts to be worked on next."""
        return self.parts[len(self.results) :][: self.at_once]

    def take(self, results: Sequence[Any], seconds: float) -> None:
        """The results of a block; the next is larger where it was quick, and smaller where slow."""
        self.results += results
        if seconds > _BLOCK_SECONDS:
            self.at_once = max(1, self.at_once // 2)
        elif seconds < _BLOCK_SECONDS / 3:
            self.at_once = min(PARTS_AT_ONCE, 2 * self.at_once)
        if not self.n_left:
            self.outcome.set_result(self.results)


class RankingQueue:
    """Works off the queue in a thread, as numpy lets go of the interpreter while it multiplies.

    Whoever has least left goes first. A long request is worked on in blocks that take about equal
    time, so a short one waits for a block of it, never for its end.
    """

    def __init__(
        self,
        *,
        max_waiting: int,
        max_long: int,
        observe: Callable[[int], None] = lambda n_users: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._max_waiting = max_waiting
        self._max_long = max_long
        self._observe = observe
        self._clock = clock
        self._waiting: list[_Queued] = []
        self._n_long = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ranking")
        self._at_work: list[_Queued] = []

    @property
    def n_waiting(self) -> int:
        return len(self._waiting) - len(self._at_work)

    async def lists(self, query: ServedQuery, user_ids: Sequence[Id]) -> dict[Id, list[Row]]:
        """The list of each of some users."""
        unique = list(dict.fromkeys(user_ids))
        return dict(zip(unique, await self._done(query, unique), strict=True))

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` returns, once its turn has come."""
        (result,) = await self._done(lambda _: [work()], [None])
        answer: T = result
        return answer

    async def fold_ins(
        self, work: Callable[[Sequence[S]], Sequence[T]], of: Sequence[S]
    ) -> list[T]:
        """What `work` makes of each; of those who ask for many, few are let in at once."""
        with self._let_in(is_long=len(of) > SHORT):
            return await self._done(work, of)

    async def steps(self, steps: Iterator[None], n_steps: int, *, is_long: bool) -> None:
        """Take steps one by one, or several at a time where they are quick."""
        with self._let_in(is_long=is_long):
            await self._done(lambda parts: [next(steps, None) for _ in parts], range(n_steps), 1)

    def close(self) -> None:
        """End the thread once it has finished what it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def _let_in(self, *, is_long: bool) -> Iterator[None]:
        """Long requests are few at once."""
        if is_long and self._n_long >= self._max_long:
            raise _busy("long requests", self._n_long, self._max_long)
        self._n_long += is_long
        try:
            yield
        finally:
            self._n_long -= is_long

    async def _done(self, work: Work, parts: Sequence[Any], at_once: int = SHORT) -> list[Any]:
        if not parts:
            return []
        if self.n_waiting >= self._max_waiting:
            raise _busy("the queue of requests", self.n_waiting, self._max_waiting)
        asked = _Queued(work, parts, at_once)
        self._waiting.append(asked)
        self._start_next()
        return await asked.outcome  # cancelled with whoever waits, and then no block follows

    def _start_next(self) -> None:
        if self._at_work:
            return
        self._waiting = [asked for asked in self._waiting if not asked.outcome.done()]
        if not self._waiting:
            return
        self._at_work = together = self._together()
        blocks = [asked.block() for asked in together]
        work = together[0].work
        self._observe(sum(map(len, blocks)) if isinstance(work, ServedQuery) else 0)
        loop = asyncio.get_running_loop()

        def hand_over(done: Future[tuple[list[Sequence[Any]], float]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._finish, together, done)

        self._thread.submit(self._timed, work, blocks).add_done_callback(hand_over)

    def _together(self) -> list[_Queued]:
        """Who has least left, and others who ask the same about a few other users."""
        first = min(self._waiting, key=lambda asked: asked.n_left)
        together, n_parts = [first], len(first.block())
        for other in self._waiting if isinstance(first.work, ServedQuery) else ():
            fits = other.n_left <= min(other.at_once, PARTS_AT_ONCE - n_parts)
            if fits and other is not first and other.work == first.work:
                together.append(other)
                n_parts += other.n_left
        return together

    def _timed(
        self, work: Work, blocks: Sequence[Sequence[Any]]
    ) -> tuple[list[Sequence[Any]], float]:
        """The results of each block, and the seconds of all."""
        started = self._clock()
        if len(blocks) == 1:
            results = [work(blocks[0])]
        else:
            users = list(dict.fromkeys(user for block in blocks for user in block))
            lists = dict(zip(users, work(users), strict=True))
            results = [[lists[user] for user in block] for block in blocks]
        return results, self._clock() - started

    def _finish(
        self, together: Sequence[_Queued], done: Future[tuple[list[Sequence[Any]], float]]
    ) -> None:
        self._at_work = []
        error = done.exception()
        for place, asked in enumerate(together):
            if asked.outcome.done():
                continue
            if error is not None:
                asked.outcome.set_exception(error)
            else:
                results, seconds = done.result()
                asked.take(results[place], seconds)
        self._start_next()


def _busy(where: str, found: int, most: int) -> RefusedError:
    return RefusedError(
        "the server is busy",
        status=429,
        where=where,
        found=f"{found} waiting",
        wanted=f"fewer than {most}; try again in a second",
        headers={"Retry-After": "1"},
    )
