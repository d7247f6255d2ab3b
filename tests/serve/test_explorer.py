"""What the explorer asks of the server, and that its files keep to the policy for pages."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.model.store import read_model, write_model
from ratiorec.scorers import Blend, InnerProduct, ItemFactors, ItemWeights, PopularityScorer
from ratiorec.scorers.item_map import principal_plane
from ratiorec.serve.answers import POINTS
from ratiorec.serve.models import Catalogue, ModelInUse
from ratiorec.serve.security import HEADERS, Keys
from ratiorec.serve.server import create_app, read_pages
from ratiorec.serve.service import Limits, Service
from ratiorec_lab.report.style import colour_rules
from support.asgi_client import Client
from support.small_models import numbered_model, small_model
from support.small_scorers import random_floats, rows_of


def client_of(artifact: Artifact, folder: Path, limits: Limits | None = None) -> Client:
    artifact.save(folder)
    return Client(create_app(Service.of(ModelInUse(folder), limits or Limits())))


def weighted_model() -> Artifact:
    """Three items; row j of the weights is what item j says of each."""
    weights = np.array([[0, 1, 4], [2, 0, -3], [5, 6, 0]], np.float32)
    seen = rows_of([[0, 1], [2]])
    return Artifact(
        ItemWeights(weights, seen),
        Vocabulary(np.array(["ada", "bob"], object), "user"),
        Vocabulary(np.array(["tea", "jam", "oats"], object), "item"),
        seen,
    )


# --- what a user had -------------------------------------------------------------------------


def test_a_user_s_history_is_what_training_had_of_them(client: Client, artifact: Artifact) -> None:
    answer = client.get("/v1/users/user3/history")
    had = artifact.seen.indices[artifact.seen.indptr[3] : artifact.seen.indptr[4]].tolist()
    assert answer.status == 200
    assert answer.json["n_items"] == len(had) > 0
    assert answer.json["items"] == [
        {"item_id": f"item{item}", "item_name": f"The {item}th Thing"} for item in had
    ]


def test_a_long_history_is_cut_and_still_counted(client: Client, artifact: Artifact) -> None:
    answer = client.get("/v1/users/user3/history", k=1)
    assert len(answer.json["items"]) == 1
    assert answer.json["n_items"] == artifact.seen.indptr[4] - artifact.seen.indptr[3] > 1


def test_a_user_without_items_has_an_empty_history(client: Client) -> None:
    assert client.get("/v1/users/user0/history").json["items"] == []


def test_the_history_of_an_unknown_user_is_not_found(client: Client) -> None:
    answer = client.get("/v1/users/eve/history")
    assert (answer.status, answer.refusal["found"]) == (404, "'eve'")


def test_more_of_a_history_than_the_limit_is_refused(client: Client) -> None:
    assert client.get("/v1/users/user3/history", k=1001).status == 422


def test_a_user_whose_id_has_a_slash_has_a_history(tmp_path: Path) -> None:
    model = weighted_model()
    users = Vocabulary(np.array(["a/history", "bob"], object), "user")
    client = client_of(Artifact(model.scorer, users, model.items, model.seen), tmp_path / "model")
    assert client.get("/v1/users/a%2Fhistory/history").json["user_id"] == "a/history"


# --- why -------------------------------------------------------------------------------------


def test_where_scores_are_sums_a_contribution_is_its_summand(tmp_path: Path) -> None:
    client = client_of(weighted_model(), tmp_path / "model")
    answer = client.post("/v1/why", {"history": ["jam", "tea"], "item": "oats"})
    assert answer.status == 200
    assert answer.json["score"] == 4 - 3
    assert answer.json["history"] == [
        {"item_id": "tea", "contribution": 4},
        {"item_id": "jam", "contribution": -3},
    ]


def test_a_contribution_is_what_the_score_loses_without_the_item(
    client: Client, artifact: Artifact
) -> None:
    history = ["item1", "item5", "item9"]
    answer = client.post("/v1/why", {"history": history, "item": "item2"}).json

    def score(items: list[str]) -> float:
        table = artifact.recommend_to([items], allow=["item2"], exclude_seen=False)
        return float(table.to_dicts()[0]["score"])

    assert answer["item_name"] == "The 2th Thing"
    assert answer["score"] == pytest.approx(score(history))
    expected = {
        item: score(history) - score([other for other in history if other != item])
        for item in history
    }
    found = {part["item_id"]: part["contribution"] for part in answer["history"]}
    assert found == pytest.approx(expected, abs=1e-6)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def blended(artifact: Artifact) -> Artifact:
    """A blend of vectors and item-item weights; it is trained by nobody, so members fold in."""
    factors = ItemFactors(random_floats(30, 9), random_floats(30, 9)[::-1], artifact.seen)
    weights = ItemWeights(random_floats(30, 30), artifact.seen)
    return replace(artifact, scorer=Blend((factors, weights), np.array([0.7, 0.3], np.float32)))


def test_of_a_blend_the_parts_of_its_members_add_up_to_the_score(
    artifact: Artifact, tmp_path: Path
) -> None:
    asked = {"history": ["item1", "item5", "item9"], "item": "item2"}
    answer = client_of(blended(artifact), tmp_path / "model").post("/v1/why", asked).json
    assert [part["member"] for part in answer["members"]] == ["item_factors", "item_weights"]
    assert [part["weight"] for part in answer["members"]] == pytest.approx([0.7, 0.3])
    factors, weights = (part["contribution"] for part in answer["members"])
    assert factors + weights == pytest.approx(answer["score"], abs=1e-5)
    said = random_floats(30, 30)[[1, 5, 9]].sum(0)
    assert weights == pytest.approx(0.3 * (said[2] - said.mean()) / said.std(), abs=1e-5)


def test_a_model_that_is_no_blend_has_no_members(client: Client) -> None:
    asked = {"history": ["item1"], "item": "item2"}
    assert "members" not in client.post("/v1/why", asked).json


def test_the_only_item_is_compared_with_nobody(client: Client) -> None:
    answer = client.post("/v1/why", {"history": ["item1"], "item": "item2"}).json
    (part,) = answer["history"]
    assert part["contribution"] == pytest.approx(answer["score"])  # nobody's vector is 0


def test_an_item_given_twice_counts_once(client: Client) -> None:
    once = client.post("/v1/why", {"history": ["item1", "item5"], "item": "item2"})
    twice = client.post("/v1/why", {"history": ["item1", "item5", "item1"], "item": "item2"})
    assert twice.json == once.json


def test_a_history_that_is_ranked_in_several_blocks_is_explained_whole(tmp_path: Path) -> None:
    client = client_of(small_model(n_items=80), tmp_path / "model")
    history = [f"item{n}" for n in range(70)]
    parts = client.post("/v1/why", {"history": history, "item": "item75"}).json["history"]
    assert {part["item_id"] for part in parts} == set(history)


def test_numbers_may_be_written_as_text(tmp_path: Path) -> None:
    client = client_of(numbered_model(), tmp_path / "model")
    answer = client.post("/v1/why", {"history": ["8", 9], "item": "10"})
    assert answer.json["item_id"] == 10
    assert {part["item_id"] for part in answer.json["history"]} == {8, 9}


@pytest.mark.parametrize(
    "asked",
    [{"history": ["tea-less"], "item": "item1"}, {"history": ["item1"], "item": "tea-less"}],
)
def test_why_of_an_unknown_item_is_not_found(client: Client, asked: dict[str, object]) -> None:
    answer = client.post("/v1/why", asked)
    assert (answer.status, answer.refusal["found"]) == (404, "'tea-less'")


@pytest.mark.parametrize(
    "asked",
    [{}, {"history": [], "item": "item1"}, {"history": ["item1"]}, {"history": "item1", "item": 1}],
)
def test_why_without_history_or_item_is_refused(client: Client, asked: dict[str, object]) -> None:
    answer = client.post("/v1/why", asked)
    assert answer.status == 422
    assert answer.refusal


def test_a_history_beyond_the_limit_is_not_explained(tmp_path: Path) -> None:
    client = client_of(small_model(), tmp_path / "model", Limits(max_why=2))
    asked = {"history": ["item1", "item2"], "item": "item3"}
    assert client.post("/v1/why", asked).status == 200
    answer = client.post("/v1/why", asked | {"history": ["item1", "item2", "item4"]})
    assert (answer.status, answer.refusal["where"]) == (422, "history")


# --- the map ---------------------------------------------------------------------------------


def test_the_map_has_every_item_of_a_small_model_once(client: Client, artifact: Artifact) -> None:
    answer = client.get("/v1/map")
    assert answer.status == 200
    assert answer.json["n_items"] == len(artifact.items)
    assert {row["item_id"] for row in answer.json["items"]} == set(artifact.items.ids)
    sides = [abs(row[axis]) for row in answer.json["items"] for axis in ("x", "y")]
    assert max(sides) == 1


def test_items_asked_for_lie_where_they_lie_on_the_whole_map(client: Client) -> None:
    whole = {row["item_id"]: row for row in client.get("/v1/map").json["items"]}
    some = client.get("/v1/map", item=["item7", "item3"]).json["items"]
    assert some == [whole["item7"], whole["item3"]]


def test_a_large_map_has_the_items_with_most_users(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_items = POINTS + 5
    factors = [rng.standard_normal((n, 2), dtype=np.float32) for n in (1, n_items)]
    model = Artifact(
        InnerProduct(*factors),
        Vocabulary(np.arange(1), "user"),
        Vocabulary(np.arange(n_items), "item"),
        rows_of([[n_items - 1]]),
    )
    answer = client_of(model, tmp_path / "model").get("/v1/map").json
    assert len(answer["items"]) == POINTS
    assert answer["items"][0]["item_id"] == n_items - 1


def test_an_unknown_item_is_not_on_the_map(client: Client) -> None:
    assert client.get("/v1/map", item="nothing").status == 404


def test_a_model_without_vectors_has_no_map(tmp_path: Path) -> None:
    model = weighted_model()
    popular = PopularityScorer(np.array([2, 1, 1], np.float32), n_users=2)
    for place, scorer in enumerate((model.scorer, popular)):
        artifact = Artifact(scorer, model.users, model.items, model.seen)
        answer = client_of(artifact, tmp_path / str(place)).get("/v1/map")
        assert (answer.status, answer.refusal["found"]) == (404, scorer.kind)


def test_the_map_is_the_one_that_was_saved(tmp_path: Path) -> None:
    small_model().save(tmp_path / "model")
    content, arrays = read_model(tmp_path / "model")
    parts = {name: content[name] for name in ("scorer", "users", "items", "settings", "card")}
    places = np.tile(np.array([0.25, -0.3], np.float32), (30, 1))
    write_model(tmp_path / "model", parts, arrays | {"map.places": places})
    client = Client(create_app(Service.of(ModelInUse(tmp_path / "model"), Limits())))
    assert {(row["x"], row["y"]) for row in client.get("/v1/map").json["items"]} == {(0.25, -0.3)}


def test_the_map_says_how_many_neighbours_it_keeps_and_how_many_the_plane_would(
    tmp_path: Path,
) -> None:
    model = small_model(n_items=200)
    answer = client_of(model, tmp_path / "model").get("/v1/map").json
    assert model.item_map is not None
    assert answer["neighbours_kept"] == model.item_map.kept > 0.5
    assert answer["kept_by_plane"] == model.item_map.kept_by_plane < answer["neighbours_kept"]


def test_a_folder_that_was_saved_without_a_map_has_the_plane(tmp_path: Path) -> None:
    model = small_model(n_items=200)
    expected = client_of(model, tmp_path / "new").get("/v1/map").json
    content, arrays = read_model(tmp_path / "new")
    parts = {name: content[name] for name in ("scorer", "users", "items", "settings", "card")}
    old = {name: array for name, array in arrays.items() if not name.startswith("map.")}
    write_model(tmp_path / "old", parts, old)
    client = Client(create_app(Service.of(ModelInUse(tmp_path / "old"), Limits())))
    answer = client.get("/v1/map").json
    plane, _ = principal_plane(model.scorer.item_vectors)
    by_users = Catalogue.of(model.items, model.seen).by_users
    found = [[row["x"], row["y"]] for row in answer["items"]]
    assert np.array(found, np.float32).tolist() == plane[by_users].tolist()
    assert (answer["shown"], answer["neighbours_kept"]) == (expected["shown"], None)


# --- searching for users ---------------------------------------------------------------------


def searching(artifact: Artifact, folder: Path, **options: Any) -> Client:
    artifact.save(folder)
    service = Service.of(ModelInUse(folder), Limits(max_k=50), user_search=True, **options)
    return Client(create_app(service))


def test_users_are_found_by_a_part_of_their_id_with_what_they_had(tmp_path: Path) -> None:
    artifact = small_model()
    answer = searching(artifact, tmp_path / "model").get("/v1/users", query="SER1", k=3)
    lengths = np.diff(artifact.seen.indptr)
    assert answer.status == 200
    assert answer.json["users"] == [
        {"user_id": f"user{n}", "n_items": lengths[n]} for n in (1, 10, 11)
    ]


def test_users_whose_ids_are_numbers_are_found_by_digits(tmp_path: Path) -> None:
    client = searching(numbered_model(), tmp_path / "model")
    assert client.get("/v1/users", query="04").json["users"] == [{"user_id": 104, "n_items": 0}]


def test_a_search_for_more_users_than_the_limit_is_refused(tmp_path: Path) -> None:
    client = searching(small_model(), tmp_path / "model")
    assert client.get("/v1/users", k=50).status == 200
    answer = client.get("/v1/users", k=51)
    assert (answer.status, answer.refusal["where"]) == (422, "k")
    assert client.get("/v1/users", query="u" * 201).status == 422


def test_nobody_is_searched_for_unless_that_is_switched_on(client: Client) -> None:
    answer = client.get("/v1/users", query="user")
    assert answer.status == 403
    assert "--user-search" in answer.refusal["found"]
    assert client.get("/v1/model").json["user_search"] is False


def test_who_knows_no_key_searches_for_nobody(tmp_path: Path) -> None:
    key = "a-key-of-ada-1234"
    client = searching(small_model(), tmp_path / "model", keys=Keys.of([key]))
    assert client.get("/v1/users", query="user").status == 401
    assert client.get("/v1/users", {"X-API-Key": key}, query="user").status == 200


# --- the files -------------------------------------------------------------------------------


def test_the_page_keeps_to_a_policy_without_inline_scripts_and_styles(client: Client) -> None:
    policy = dict(HEADERS)[b"content-security-policy"]
    assert b"unsafe" not in policy
    page = client.get("/").body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=", page) == []


def test_every_field_has_a_label(client: Client) -> None:
    page = client.get("/").body.decode()
    fields = re.findall(r'<(?:input|select) id="([^"]+)"', page)
    assert len(fields) == page.count("<input") + page.count("<select")
    assert set(re.findall(r'<label for="([^"]+)"', page)) == set(fields)


def test_every_module_that_a_script_imports_is_there(client: Client) -> None:
    for name, page in read_pages().items():
        for module in re.findall(rb'from "\./([^"]+)"', page.content):
            assert client.get(f"/static/{module.decode()}").status == 200, name


def test_every_element_that_a_script_looks_for_is_on_the_page() -> None:
    pages = read_pages()
    there = set(re.findall(rb'\bid="([^"]+)"', pages["index.html"].content))
    wanted = {
        name: set(re.findall(rb'byId\("([^"]+)"\)', page.content)) for name, page in pages.items()
    }
    assert sum(map(bool, wanted.values())) >= 7
    for name, ids in wanted.items():
        assert ids <= there, name


def test_the_colours_are_those_of_the_reports() -> None:
    css = read_pages()["explorer.css"].content.decode()
    found = re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", css)
    of_reports = re.findall(r"--([a-z0-9-]+):(#[0-9a-f]{6});", colour_rules())
    assert len(found) == 2 * len(dict(found))
    half = len(found) // 2
    light, dark = dict(found[:half]), dict(found[half:])
    n_colours = len(of_reports) // 2
    assert light.items() <= dict(of_reports[:n_colours]).items()
    assert dark.items() <= dict(of_reports[n_colours:]).items()
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", css)) <= light.keys()
