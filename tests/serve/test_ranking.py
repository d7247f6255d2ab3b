from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest

from ratiorec.errors import UnknownIdError
from ratiorec.model.query import Query, QueryOptions
from ratiorec.serve.errors import RefusedError
from ratiorec.serve.models import Served, read_served
from ratiorec.serve.ranking import PARTS_AT_ONCE, SHORT, RankingQueue, ServedQuery
from support.small_models import small_model


@pytest.fixture
def model(folder: Path) -> Served:
    return read_served(folder)


def query_of(model: Served, **options: Unpack[QueryOptions]) -> ServedQuery:
    return ServedQuery(model, Query(**options))


def expected(
    model: Served, user: str, query: Query | int, **options: Unpack[QueryOptions]
) -> list[dict[str, Any]]:
    rows = model.artifact.recommend([user], query, **options).to_dicts()
    return [{name: row[name] for name in row if name != "user_id"} for row in rows]


class Blocked:
    """A queue whose thread is held until the test lets it go."""

    def __init__(self, **options: Any) -> None:
        self.batches: list[int] = []
        self.queue = RankingQueue(
            **({"max_waiting": 100, "max_long": 10} | options), observe=self.batches.append
        )
        self.release = threading.Event()
        self.has_begun = threading.Event()

    def hold(self) -> Awaitable[bool]:
        def wait() -> bool:
            self.has_begun.set()
            return self.release.wait(20)

        return asyncio.ensure_future(self.queue.call(wait))

    async def holding(self) -> Awaitable[bool]:
        held = self.hold()
        await asyncio.to_thread(self.has_begun.wait, 20)
        return held


def test_a_user_gets_the_list_that_the_model_gives(model: Served) -> None:
    queue = RankingQueue(max_waiting=10, max_long=1)
    lists = asyncio.run(queue.lists(query_of(model, k=5), ["user3"]))
    assert lists == {"user3": expected(model, "user3", 5)}


def test_requests_that_wait_together_are_ranked_in_one_product_each_with_its_own_users(
    model: Served,
) -> None:
    async def ask() -> tuple[list[Any], list[int]]:
        blocked = Blocked()
        held = await blocked.holding()
        query = query_of(model, k=5)
        asked = [
            asyncio.ensure_future(blocked.queue.lists(query, users))
            for users in (["user1"], ["user2", "user1"], ["user3"])
        ]
        await asyncio.sleep(0)
        blocked.release.set()
        await held
        return await asyncio.gather(*asked), blocked.batches

    answers, batches = asyncio.run(ask())
    assert [list(answer) for answer in answers] == [["user1"], ["user2", "user1"], ["user3"]]
    for answer in answers:
        for user, rows in answer.items():
            assert rows == expected(model, user, 5)
    assert batches == [0, 4]  # the call that held the thread, then all at once


def test_requests_that_ask_differently_are_ranked_apart(model: Served, tmp_path: Path) -> None:
    small_model(5).save(tmp_path / "other")
    other = read_served(tmp_path / "other")
    plain = query_of(model, k=5)
    queries = [
        plain,
        query_of(model, k=3),
        query_of(model, k=5, exclude_seen=False),
        query_of(model, k=5, deny=["item1", "item2"]),
        query_of(model, k=5, allow=["item1", "item2"]),
        query_of(other, k=5),
    ]

    async def ask() -> tuple[list[Any], list[int]]:
        blocked = Blocked()
        held = await blocked.holding()
        asked = [asyncio.ensure_future(blocked.queue.lists(query, ["user7"])) for query in queries]
        await asyncio.sleep(0)
        blocked.release.set()
        await held
        return await asyncio.gather(*asked), blocked.batches

    answers, batches = asyncio.run(ask())
    assert batches == [0, 1, 1, 1, 1, 1, 1]
    for query, answer in zip(queries, answers, strict=True):
        assert answer.get("user7", []) == expected(query.model, "user7", query.query)


def test_many_users_are_ranked_in_blocks_each_with_its_own_list(tmp_path: Path) -> None:
    n_users = 3 * PARTS_AT_ONCE
    small_model(n_users=n_users).save(tmp_path / "many")
    model = read_served(tmp_path / "many")
    users = [f"user{n}" for n in range(n_users)]
    blocked = Blocked()
    lists = asyncio.run(blocked.queue.lists(query_of(model, k=2), users))
    assert lists == {user: expected(model, user, 2) for user in users}
    assert blocked.batches[0] == SHORT
    assert max(blocked.batches) <= PARTS_AT_ONCE
    assert sum(blocked.batches) == n_users


class Steps:
    """Work of which each block begins only when the test has seen what came before."""

    def __init__(self, queue: RankingQueue) -> None:
        self.queue = queue
        self.order: list[str] = []

    def work(self, name: str, *, then: Callable[[], None] = lambda: None) -> Any:
        def note(parts: Sequence[int]) -> list[int]:
            self.order.append(name)
            if self.order == [name]:  # in the midst of the first block of all
                loop.call_soon_threadsafe(lambda: (then(), seen.set()))
                assert seen.wait(20)
            return [-part for part in parts]

        loop, seen = asyncio.get_running_loop(), threading.Event()
        return note


def test_a_short_request_waits_for_one_block_of_a_long_one() -> None:
    async def ask() -> tuple[list[str], list[list[int]]]:
        steps = Steps(RankingQueue(max_waiting=10, max_long=10))
        coming: list[asyncio.Task[list[int]]] = []

        def come() -> None:
            for name, n in (("long", 400), ("short", 1), ("shorter than long", 20)):
                asked = steps.queue.fold_ins(steps.work(name), range(n))
                coming.append(asyncio.ensure_future(asked))

        first = await steps.queue.fold_ins(steps.work("first", then=come), range(300))
        return steps.order, [first, *(await asyncio.gather(*coming))]

    order, answers = asyncio.run(ask())
    assert order[:3] == ["first", "short", "shorter than long"]
    assert [name for name, _ in itertools.groupby(order)] == [*order[:3], "first", "long"]
    assert answers == [[-n for n in range(size)] for size in (300, 400, 1, 20)]


def test_a_short_request_goes_between_two_steps_and_long_ones_are_counted() -> None:
    async def ask() -> tuple[list[str], Any]:
        steps = Steps(RankingQueue(max_waiting=10, max_long=1))
        coming: list[asyncio.Future[Any]] = []

        def come() -> None:
            short = steps.queue.fold_ins(steps.work("short"), [1])
            long = steps.queue.steps(iter(()), 1, is_long=True)
            coming.extend(map(asyncio.ensure_future, (short, long)))

        work = steps.work("step", then=come)
        await steps.queue.steps((None for _ in range(5) if work([1])), 6, is_long=True)
        (_, refused) = await asyncio.gather(*coming, return_exceptions=True)
        await steps.queue.steps(iter(()), 1, is_long=True)  # let in again
        return steps.order, refused

    order, refused = asyncio.run(ask())
    assert order == ["step", "short", *["step"] * 4]
    assert (refused.status, refused.where) == (429, "long requests")


@pytest.mark.parametrize(
    ("seconds_each", "sizes"),
    [(0.0001, [8, 16, 32, 32]), (0.0005, [8, 8, 8, 8]), (0.1, [8, 4, 2, 1, 1])],
)
def test_blocks_become_as_large_as_fits_a_short_time(seconds_each: float, sizes: list[int]) -> None:
    now, found = 0.0, []

    def work(parts: Sequence[int]) -> Sequence[int]:
        nonlocal now
        found.append(len(parts))
        now += len(parts) * seconds_each
        return parts

    queue = RankingQueue(max_waiting=10, max_long=1, clock=lambda: now)
    asyncio.run(queue.fold_ins(work, range(100)))
    assert found[: len(sizes)] == sizes


def test_of_long_requests_few_are_let_in_and_the_next_when_one_is_done() -> None:
    async def ask() -> RefusedError:
        blocked = Blocked(max_long=2)
        held = await blocked.holding()
        many = range(SHORT + 1)
        waiting = [asyncio.ensure_future(blocked.queue.fold_ins(list, many)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as refused:
            await blocked.queue.fold_ins(list, many)
        blocked.release.set()
        assert await blocked.queue.fold_ins(list, range(SHORT)) == list(range(SHORT))
        await held
        await asyncio.gather(*waiting)
        assert await blocked.queue.fold_ins(list, many) == list(many)
        return refused.value

    refused = asyncio.run(ask())
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})
    assert refused.where == "long requests"


def test_a_full_line_is_refused_with_a_time_to_come_back(model: Served) -> None:
    async def ask() -> tuple[RefusedError, Any]:
        blocked = Blocked(max_waiting=2)
        held = await blocked.holding()
        waiting = [
            asyncio.ensure_future(blocked.queue.lists(query_of(model, k=5), [user]))
            for user in ("user1", "user2")
        ]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as refused:
            await blocked.queue.lists(query_of(model, k=5), ["user3"])
        blocked.release.set()
        await held
        return refused.value, await asyncio.gather(*waiting)

    refused, answers = asyncio.run(ask())
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})
    assert [list(answer) for answer in answers] == [["user1"], ["user2"]]


def test_for_whoever_has_given_up_nothing_more_is_ranked(model: Served) -> None:
    async def ask() -> list[int]:
        blocked = Blocked()
        held = await blocked.holding()
        for asked in (
            blocked.queue.lists(query_of(model, k=5), ["user1"]),
            blocked.queue.fold_ins(pytest.fail, range(2 * SHORT)),
        ):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asked, 0.05)
        blocked.release.set()
        await held
        await blocked.queue.call(lambda: None)
        assert blocked.queue.n_waiting == 0
        return blocked.batches

    assert asyncio.run(ask()) == [0, 0]  # the call that held the thread and the last one


def test_an_error_reaches_all_who_asked_the_same_and_nobody_else(model: Served) -> None:
    async def ask() -> list[Any]:
        blocked = Blocked()
        held = await blocked.holding()
        bad = query_of(model, k=5, allow=["nothing"])
        asked = [
            asyncio.ensure_future(blocked.queue.lists(query, ["user1"]))
            for query in (bad, query_of(model, k=5), bad)
        ]
        await asyncio.sleep(0)
        blocked.release.set()
        await held
        return await asyncio.gather(*asked, return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert isinstance(first, UnknownIdError)
    assert isinstance(third, UnknownIdError)
    assert list(second) == ["user1"]


def test_unknown_users_all_get_the_items_with_most_users(model: Served) -> None:
    queue = RankingQueue(max_waiting=10, max_long=1)
    query = replace(query_of(model, k=4, on_unknown="fallback"), of_unknown_users=True)
    lists = asyncio.run(queue.lists(query, ["eve", "mallory"]))
    assert lists["eve"] == lists["mallory"] == expected(model, "eve", 4, on_unknown="fallback")


def test_nobody_asked_for_is_nobody_answered(model: Served) -> None:
    queue = RankingQueue(max_waiting=1, max_long=1)
    assert asyncio.run(queue.lists(query_of(model, k=4), [])) == {}


def test_the_line_goes_on_after_an_error(model: Served) -> None:
    async def ask() -> Any:
        queue = RankingQueue(max_waiting=10, max_long=1)

        def fail() -> None:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await queue.call(fail)
        return await queue.call(lambda: 7)

    assert asyncio.run(ask()) == 7
