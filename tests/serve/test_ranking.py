from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import pytest

from ratiorec.errors import UnknownIdError
from ratiorec.model.query import Query, QueryOptions
from ratiorec.serve.errors import RefusedError
from ratiorec.serve.models import Served, read_served
from ratiorec.serve.ranking import USERS_AT_ONCE, RankingQueue, ServedQuery
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
            **({"max_waiting": 100, "seconds": 20} | options), observe=self.batches.append
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
    queue = RankingQueue(max_waiting=10, seconds=20)
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


def test_a_long_request_is_cut_so_that_a_short_one_comes_in_between(tmp_path: Path) -> None:
    n_users = 3 * USERS_AT_ONCE
    small_model(n_users=n_users).save(tmp_path / "many")
    model = read_served(tmp_path / "many")
    finished: list[str] = []

    async def ask() -> dict[Any, Any]:
        blocked = Blocked()
        held = await blocked.holding()

        async def note(name: str, asked: Awaitable[Any]) -> Any:
            answer = await asked
            finished.append(name)
            return answer

        users = [f"user{n}" for n in range(n_users)]
        long = note("long", blocked.queue.lists(query_of(model, k=2), users[: 2 * USERS_AT_ONCE]))
        short = note("short", blocked.queue.lists(query_of(model, k=3), ["user5"]))
        more = note("more", blocked.queue.lists(query_of(model, k=2), users[2 * USERS_AT_ONCE :]))
        tasks = [asyncio.ensure_future(task) for task in (long, short, more)]
        await asyncio.sleep(0)
        blocked.release.set()
        await held
        answers = await asyncio.gather(*tasks)
        assert max(blocked.batches) == USERS_AT_ONCE
        return {**answers[0], **answers[2]}

    lists = asyncio.run(ask())
    assert finished == ["long", "short", "more"]
    assert lists == {f"user{n}": expected(model, f"user{n}", 2) for n in range(n_users)}


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


def test_who_waits_too_long_is_told_so_and_is_not_ranked_for(model: Served) -> None:
    async def ask() -> tuple[RefusedError, list[int]]:
        blocked = Blocked(seconds=0.5)
        held = await blocked.holding()
        with pytest.raises(RefusedError) as refused:
            await blocked.queue.lists(query_of(model, k=5), ["user1"])
        with pytest.raises(RefusedError):
            await held
        blocked.release.set()
        await blocked.queue.call(lambda: None)
        return refused.value, blocked.batches

    refused, batches = asyncio.run(ask())
    assert refused.status == 429
    assert batches == [0, 0]  # the call that held the thread and the last one


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
    queue = RankingQueue(max_waiting=10, seconds=20)
    query = replace(query_of(model, k=4, on_unknown="fallback"), of_unknown_users=True)
    lists = asyncio.run(queue.lists(query, ["eve", "mallory"]))
    assert lists["eve"] == lists["mallory"] == expected(model, "eve", 4, on_unknown="fallback")


def test_nobody_asked_for_is_nobody_answered(model: Served) -> None:
    queue = RankingQueue(max_waiting=1, seconds=1)
    assert asyncio.run(queue.lists(query_of(model, k=4), [])) == {}


def test_the_line_goes_on_after_an_error(model: Served) -> None:
    async def ask() -> Any:
        queue = RankingQueue(max_waiting=10, seconds=20)

        def fail() -> None:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await queue.call(fail)
        return await queue.call(lambda: 7)

    assert asyncio.run(ask()) == 7
