"""A request has one deadline, whatever it is made of."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ratiorec.scorers import InnerProduct
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service
from support.asgi_client import Answer, Client, answer_to
from support.small_models import small_model

ITEMS = [f"item{n}" for n in range(150)]
WHY = {"history": ITEMS[:120], "item": "item140"}
HISTORIES: dict[str, Any] = {"histories": [[item] for item in ITEMS[:60]], "k": 1}
LONG = [("/v1/why", WHY), ("/v1/recommend", HISTORIES)]
_DEADLINE = 0.5


def client_with(limits: Limits, folder: Path) -> Client:
    small_model(n_items=len(ITEMS)).save(folder)
    return Client(create_app(Service.of(ModelInUse(folder), limits)))


@pytest.mark.parametrize(("path", "asked"), LONG)
def test_a_request_of_many_blocks_is_refused_when_its_time_is_over(
    path: str, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_with(Limits(rank_seconds=_DEADLINE), tmp_path / "model")
    n_blocks, fold_in = 0, InnerProduct.with_users

    def slow(scorer: InnerProduct, users: Any) -> InnerProduct:
        nonlocal n_blocks
        n_blocks += 1
        time.sleep(0.9 * _DEADLINE)  # no block alone is beyond the deadline
        return fold_in(scorer, users)

    monkeypatch.setattr(InnerProduct, "with_users", slow)
    answer = client.post(path, asked)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.refusal["found"] == "no answer after 0.5 s"
    assert n_blocks <= 2  # and none is begun for a request that has been answered


def test_reloading_may_take_longer_than_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ratiorec.serve.security import Keys

    small_model().save(tmp_path / "model")
    models = ModelInUse(tmp_path / "model")
    service = Service.of(models, Limits(rank_seconds=0.05), admin=Keys.of(["a" * 16]))

    def slow() -> bool:
        time.sleep(0.2)
        return False

    monkeypatch.setattr(models, "reload", slow)
    key = {"Authorization": f"Bearer {'a' * 16}"}
    assert Client(create_app(service)).post("/v1/reload", {}, key).status == 200


class Held:
    """Fold-ins that begin and do not end before the test lets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun, self.release = threading.Event(), threading.Event()
        fold_in = InnerProduct.with_users

        def held(scorer: InnerProduct, users: Any) -> InnerProduct:
            self.has_begun.set()
            assert self.release.wait(20)
            return fold_in(scorer, users)

        monkeypatch.setattr(InnerProduct, "with_users", held)

    async def answers(
        self, client: Client, first: tuple[str, Any], *others: tuple[str, Any]
    ) -> tuple[Answer, list[Answer]]:
        """Of the first, which is at work when the others are asked, and of these."""
        working = asyncio.ensure_future(_post(client, *first))
        await asyncio.to_thread(self.has_begun.wait, 20)
        asked = [asyncio.ensure_future(_post(client, *other)) for other in others]
        await asyncio.wait(asked, timeout=0.2)
        self.release.set()
        return await working, await asyncio.gather(*asked)


async def _post(client: Client, path: str, asked: dict[str, Any]) -> Answer:
    import json

    headers = {"content-type": "application/json"}
    return await answer_to(
        client.app, "POST", path, headers=headers, chunks=[json.dumps(asked).encode()]
    )


@pytest.mark.parametrize("first", LONG)
def test_long_requests_beyond_the_limit_are_refused_and_short_ones_are_not(
    first: tuple[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_with(Limits(max_long=1), tmp_path / "model")
    short = ("/v1/recommend", {"histories": [["item1"]], "k": 1})
    held = Held(monkeypatch)
    done, answers = asyncio.run(held.answers(client, first, *LONG, short))
    assert done.status == 200
    assert [answer.status for answer in answers] == [429, 429, 200]
    assert answers[0].headers["retry-after"] == "1"
    assert answers[0].refusal["where"] == "long requests"


@pytest.mark.parametrize(
    ("limit", "path", "where"),
    [("max_why", "/v1/why", "history"), ("max_histories", "/v1/recommend", "histories")],
)
def test_long_requests_have_a_size_of_their_own(
    limit: str, path: str, where: str, tmp_path: Path
) -> None:
    client = client_with(Limits(**{limit: 3}), tmp_path / "model")
    asked = dict(LONG)[path]
    within = {
        name: value[:3] if isinstance(value, list) else value for name, value in asked.items()
    }
    assert client.post(path, within).status == 200
    answer = client.post(path, asked)
    assert (answer.status, answer.refusal["where"]) == (422, where)
    assert answer.refusal["wanted"].startswith("at most 3 ")
