"""Lists over HTTP for users of whom attributes alone are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.tables import IdTable
from ratiorec.model.artifact import Artifact
from ratiorec.model.tables import attach
from support.asgi_client import Client
from support.small_models import numbered_model, small_model

K: dict[str, Any] = {"k": 5, "on_unknown": "fallback"}


def with_segments(model: Artifact, new: list[Any]) -> Artifact:
    """Users are gold and new in turn; of new ones, the first is gold."""
    ids = [*model.users.ids.tolist(), *new]
    segments = [("gold", "new")[place % 2] for place in range(len(model.users))]
    segments += ["gold", "new", "gold"][: len(new)]
    table = {"id": ids, "segment": segments, "age": [30] * len(ids)}
    return attach(model, users=IdTable.read(table, kind="user"))[0]


@pytest.fixture
def artifact() -> Artifact:
    return with_segments(small_model(), ["zoe", "yan"])


def listed(row: dict[str, Any]) -> list[str]:
    assert row["fallback"] is True
    assert {item["kind"] for item in row["items"]} == {"fallback"}
    return [item["item_id"] for item in row["items"]]


def items_for(artifact: Artifact, profile: dict[str, Any]) -> list[str]:
    return [row["item_id"] for row in artifact.recommend_for([profile], k=5).to_dicts()]


def test_profiles_are_answered_in_their_order(client: Client, artifact: Artifact) -> None:
    profiles: list[dict[str, Any]] = [{"segment": "new"}, {}, {"segment": "gold"}]
    answer = client.post("/v1/recommend", {"profiles": profiles, "k": 5})
    assert answer.status == 200
    assert [row["profile"] for row in answer.json["lists"]] == [0, 1, 2]
    found = [listed(row) for row in answer.json["lists"]]
    assert found == [items_for(artifact, profile) for profile in profiles]
    assert found[0] != found[2]


def test_new_users_of_the_table_have_lists_of_their_own(client: Client, artifact: Artifact) -> None:
    users = ["zoe", "user1", "nobody", "yan"]
    rows = client.post("/v1/recommend", {"users": users, **K}).json["lists"]
    assert [row["user_id"] for row in rows] == users
    assert "fallback" not in rows[1]
    gold, new = (items_for(artifact, {"segment": name}) for name in ("gold", "new"))
    assert [listed(rows[0]), listed(rows[3])] == [gold, new]
    assert listed(rows[2]) == items_for(artifact, {})
    alone = client.get("/v1/recommend/yan", **K).json
    assert listed(alone) == new
    assert client.get("/v1/recommend/yan").status == 404


def test_ids_of_new_users_may_be_numbers() -> None:
    model = with_segments(numbered_model(), [1000, 1001])
    found = model.recommend([1001, 1000], k=5, on_unknown="fallback").to_dicts()
    assert [row["user_id"] for row in found] == [1001] * 5 + [1000] * 5
    assert [row["item_id"] for row in found[:5]] == [
        row["item_id"] for row in model.recommend_for([{"segment": "new"}], k=5).to_dicts()
    ]
    assert np.issubdtype(model.new_user_ids.ids.dtype, np.integer)


@pytest.mark.parametrize(
    ("profile", "where"),
    [
        ({"segmnt": "new"}, "profiles[0]"),
        ({"segment": 3}, "profiles[0], segment"),
        ({"age": 10**400}, "profiles[0], age"),
    ],
)
def test_a_profile_that_says_nothing_known_is_refused(
    client: Client, profile: dict[str, Any], where: str
) -> None:
    answer = client.post("/v1/recommend", {"profiles": [profile]})
    assert (answer.status, answer.refusal["where"]) == (422, where)
