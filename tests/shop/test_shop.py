"""A shop from its two files to an experiment, in real processes; every list against brute force."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from ratiorec.model.artifact import Artifact
from support.serve_process import Load, ServerProcess, running
from support.shop_items import N_NEW, Good, goods, write_goods
from support.shop_log import shop_rows, write_shop_log

COMMAND = (sys.executable, "-m", "ratiorec")
FILTER = 'category in ["tea", "tin"] and price < 40 and stock > 0'
PATIENCE = 60


def run(folder: Path, *words: str) -> Any:
    done = subprocess.run(
        [*COMMAND, *words, "--json"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log, the goods and two models: `a` by neighbours, `b` by EASE."""
    folder = tmp_path_factory.mktemp("shop")
    write_shop_log(folder / "log.csv", shop_rows())
    write_goods(folder / "items.csv", goods())
    (folder / "filters.toml").write_text('[filters]\nin_stock = "stock > 0"\n')
    (folder / "rules.toml").write_text("[homepage]\nlimits = { category = 3, brand = 2 }\n")
    for name, preset in (("a", "item-knn"), ("b", "ease")):
        fit = ("fit", "log.csv", "--items", "items.csv", "-o", name, "--preset", preset)
        found = run(folder, *fit)["items"]
        assert (found["known"], found["unknown"]) == (80, N_NEW)
        assert found["columns"]["price"] == "number"
        assert found["columns"]["category"] == "category"
    return folder


@pytest.fixture(scope="module")
def server(shop: Path) -> Iterator[ServerProcess]:
    options = ("--filters", str(shop / "filters.toml"), "--rules", str(shop / "rules.toml"))
    with running(shop / "a", shop / "serve.log", *options, "--watch-seconds", "0.1") as server:
        yield server


def scores_of(model: Artifact, user: str) -> dict[str, float]:
    """The score of every item that the user may be shown."""
    place = int(model.users.indices([user])[0])
    scores = model.scorer.scores(np.array([place]))[0].tolist()
    start, end = model.seen.indptr[place : place + 2]
    seen = set(model.seen.indices[start:end].tolist())
    ids = model.items.ids.tolist()
    return {ids[item]: score for item, score in enumerate(scores) if item not in seen}


def best(scores: dict[str, float], k: int) -> list[str]:
    order = {sku: place for place, sku in enumerate(scores)}
    return sorted(scores, key=lambda sku: (-scores[sku], order[sku]))[:k]


def listed(answer: Any) -> list[str]:
    return [row["item_id"] for row in answer["items"]]


def is_kept(good: Good) -> bool:
    return good.category in ("tea", "tin") and good.price < 40 and good.stock > 0


def test_a_filtered_list_is_that_of_brute_force(shop: Path, server: ServerProcess) -> None:
    model, table = Artifact.load(shop / "a"), {good.sku: good for good in goods()}
    for user in ("C00000", "C00003", "C00017", "C00101"):
        path = f"/v1/recommend/{user}?k=10&max_cold=0&attributes=all&filter={quote(FILTER)}"
        answer = server.json(path)
        wanted = scores_of(model, user)
        sold = set(model.items.ids[~model.cold_items].tolist())
        kept = {sku: s for sku, s in wanted.items() if sku in sold and is_kept(table[sku])}
        assert listed(answer) == best(kept, 10)
        for row in answer["items"]:
            good = table[row["item_id"]]
            assert row["item_name"] == good.title
            assert row["attributes"]["price"] == good.price
            assert row["attributes"]["category"] == good.category
            assert row["kind"] == "personal"


def test_goods_that_nobody_has_bought_are_listed_and_marked_within_their_cap(
    shop: Path, server: ServerProcess
) -> None:
    model = Artifact.load(shop / "a")
    new = {good.sku for good in goods()[-N_NEW:]}
    assert set(model.items.ids[model.cold_items].tolist()) == new
    scores = scores_of(model, "C00000")
    answer = server.json("/v1/recommend/C00000?k=20&max_cold=3")
    cold = best({sku: scores[sku] for sku in scores if sku in new}, 3)
    warm = best({sku: scores[sku] for sku in scores if sku not in new}, 20)
    assert listed(answer) == best({sku: scores[sku] for sku in scores if sku in (*cold, *warm)}, 20)
    kinds = {row["item_id"]: row["kind"] for row in answer["items"]}
    assert {sku for sku, kind in kinds.items() if kind == "cold"} == new & kinds.keys()
    near = server.json(f"/v1/similar/{min(new)}?k=5")
    bought_with_tea = {"TEA", "TOY"}
    assert min(new).endswith("TEA")
    assert {sku.split("-")[1] for sku in listed_like(near)} <= bought_with_tea


def listed_like(answer: Any) -> list[str]:
    return [row["similar_id"] for row in answer["items"]]


def test_limits_of_the_homepage_hold_and_the_best_that_they_leave_is_taken(
    shop: Path, server: ServerProcess
) -> None:
    model, table = Artifact.load(shop / "a"), {good.sku: good for good in goods()}
    answer = server.json("/v1/recommend/C00005?k=8&rules=homepage&max_cold=0")
    scores = scores_of(model, "C00005")
    new = {good.sku for good in goods()[-N_NEW:]}
    chosen: list[str] = []
    for sku in best(scores, len(scores)):
        alike = [table[other] for other in chosen]
        n_category = sum(good.category == table[sku].category for good in alike)
        n_brand = sum(good.brand == table[sku].brand for good in alike)
        if sku not in new and n_category < 3 and n_brand < 2:
            chosen.append(sku)
    assert listed(answer) == chosen[:8]


def test_the_table_is_replaced_under_load_and_nobody_is_refused(
    shop: Path, server: ServerProcess
) -> None:
    before = server.json("/v1/model")["model"]
    write_goods(shop / "tomorrow.csv", goods(restocked=True))
    load = Load(server, f"/v1/recommend/C00000?k=5&filter={quote('@in_stock')}")
    with load.going():
        load.wait_for(50)
        run(shop, "items", "a", "tomorrow.csv")
        wait_for(lambda: server.json("/v1/model")["model"] != before)
        load.wait_for(50)
    assert load.failures == []
    in_stock = {good.sku for good in goods(restocked=True) if good.stock > 0}
    answer = server.json(f"/v1/recommend/C00000?k=88&filter={quote('@in_stock')}&attributes=stock")
    assert listed(answer)
    assert set(listed(answer)) <= in_stock
    for row in answer["items"]:
        assert row["attributes"] == {"stock": (int(row["item_id"][3:8]) + 3) % 6}


def test_two_variants_share_the_users_and_each_list_is_of_its_own_model(
    shop: Path, tmp_path: Path
) -> None:
    models = {name: Artifact.load(shop / name) for name in ("a", "b")}
    users = [f"C{number:05d}" for number in range(240)]
    arguments = (f"b={shop / 'b'}", "--split", "a:75,b:25")
    with running(f"a={shop / 'a'}", tmp_path / "log", *arguments) as server:  # type: ignore[arg-type]
        answers = {user: server.json(f"/v1/recommend/{user}?k=5&max_cold=0") for user in users}
        again = {user: server.json(f"/v1/recommend/{user}?k=1")["variant"] for user in users[:50]}
        looked_at = server.json("/v1/recommend/C00000?k=5&max_cold=0&variant=b")
        metrics = server.ask("GET", "/metrics")[2].decode()
        assert server.stop() == 0
        lines = server.events("request")
    variants = {user: answer["variant"] for user, answer in answers.items()}
    assert again == {user: variants[user] for user in users[:50]}
    assert 0.15 < list(variants.values()).count("b") / len(users) < 0.35
    for user, answer in answers.items():
        model = models[variants[user]]
        warm = set(model.items.ids[~model.cold_items].tolist())
        scores = {sku: s for sku, s in scores_of(model, user).items() if sku in warm}
        assert listed(answer) == best(scores, 5)
    assert looked_at["variant"] == "b"
    asked = [line["variant"] for line in lines if "recommend" in line["route"]]
    told = [*variants.values(), *again.values(), "b"]
    assert asked == told
    assert 'variant="b"' in metrics


def wait_for(is_so: Callable[[], bool]) -> None:
    started = time.monotonic()
    while not is_so():
        assert time.monotonic() - started < PATIENCE, "it has not come to that"
        time.sleep(0.05)
