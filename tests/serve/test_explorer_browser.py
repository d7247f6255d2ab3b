"""The explorer in a real browser, at a real server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.config import to_table
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Blend, ItemWeights, PopularityScorer
from ratiorec.settings import Settings, UserBatches
from support.explorer import DOWN, ENTER, ESCAPE, TAB, UP, Explorer
from support.serve_process import ServerProcess, running
from support.small_models import small_model
from support.small_scorers import random_floats, rows_of

pytest.importorskip("selenium.webdriver", reason="no selenium")

CURVE = [
    {"phase": "search", "epoch": n, "step": 10 * n, "risk": 1 / n, "seconds": n}
    | {"validation": {"recall@20": 1 - 1 / n}}
    for n in range(1, 6)
]
MEMBERS = [
    {"name": "walk", "why": "chosen", "weight": 0.75, "seconds": 1.25, "settings": {}}
    | {"validation": {"ndcg@20": 0.123456}, "lead": [-0.0456, 0.0012]},
    {"name": "softmax", "why": "left out: about 40 s needed, 12 s left", "weight": 0.0}
    | {"seconds": 0.0, "validation": None, "lead": None, "settings": None},
]
SETTINGS = to_table(Settings(batches=UserBatches(20, min_steps_per_epoch=1)))
HOSTILE = "<img src=x onerror=document.title='broken'>"
SPACED = " lead "
KEY = "a-key-of-ada-1234"


def explored_model() -> Artifact:
    """A density-ratio model whose first item has a name that is markup."""
    model = small_model(n_items=80)
    assert model.items.names is not None
    names = [HOSTILE, *model.items.names.tolist()[1:]]
    user_ids = [*model.users.ids[:-1].tolist(), SPACED]
    return replace(
        model,
        users=Vocabulary(np.array(user_ids, object), "user"),
        items=model.items.with_names(names),
        settings=SETTINGS,
        card={
            "preset": "dregn-cf",
            "data": {"name": "shelf", "pairs": 1234},
            "pairs_since": 1500,
            "validation": {"recall@20": 0.8},
            "test": {"recall@20": 0.75},
            "curve": CURVE,
            "members": MEMBERS,
        },
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("explorer")
    explored_model().save(folder / "model")
    with running(folder / "model", folder / "log", "--user-search") as process:
        yield process


@pytest.fixture
def explorer(browser: Any, server: ServerProcess) -> Explorer:
    return Explorer(browser, server)


def test_an_item_is_searched_for_and_added_by_clicking(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.one("#search").send_keys("7th")
    explorer.until(lambda: len(explorer.all("#options li")) == 8)  # the 7th, 17th, … and 77th
    (wanted,) = [o for o in explorer.all("#options li") if "The 17th Thing" in o.text]
    wanted.click()
    explorer.until(lambda: len(explorer.recommended()) == 20)
    assert explorer.history() == ["The 17th Thing"]
    assert not explorer.one("#options").is_displayed()
    expected = explored_model().recommend_to([["item17"]], 20).to_dicts()
    assert explorer.recommended() == [row["item_name"] for row in expected]
    ratios = [np.log1p(np.exp(row["score"])) for row in expected]
    shown = [float(text.removeprefix("ratio ")) for text in explorer.texts(".sized .value")]
    assert shown == pytest.approx(ratios, rel=6e-3)
    assert explorer.severe() == []


def test_bars_are_as_long_as_the_estimated_ratios(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.all("#suggestions button")[0].click()
    explorer.until(lambda: len(explorer.recommended()) == 20)
    widths = explorer.run(
        "return [...document.querySelectorAll('#recommendations .filled')]"
        ".map((e) => e.getBoundingClientRect().width / e.parentNode.clientWidth)"
    )
    values = [float(text.removeprefix("ratio ")) for text in explorer.texts(".sized .value")]
    shares = [max(0.01, value / values[0]) for value in values]
    assert widths == pytest.approx(shares, abs=0.02)
    assert "estimated ratio" in explorer.one("#measure").text


def test_a_history_is_built_and_taken_apart_by_keyboard_alone(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.press_until(TAB, "search")
    explorer.press(*"17th")
    explorer.until(lambda: len(explorer.all("#options li")) == 1)
    explorer.press(DOWN)
    assert explorer.one("#search").get_attribute("aria-activedescendant") == "options-0"
    explorer.press(ENTER)
    explorer.until(lambda: len(explorer.recommended()) == 20)
    first = explorer.recommended()[0]
    explorer.press_until(TAB, f"Actions for {first}")
    explorer.press(ENTER)
    assert explorer.focused() == f"Add {first} to the history"
    explorer.press(ENTER)
    explorer.until(lambda: explorer.history() == ["The 17th Thing", first])
    explorer.until(lambda: first not in explorer.recommended())
    assert explorer.focused() == f"Actions for {explorer.recommended()[0]}"
    assert first in explorer.one("#said").get_attribute("textContent")
    explorer.run("document.getElementById('search').focus()")
    explorer.press_until(TAB, "Remove The 17th Thing")
    explorer.press(ENTER)
    explorer.until(lambda: explorer.history() == [first])
    assert explorer.focused() == f"Remove {first}"
    explorer.press(ENTER)
    explorer.until(lambda: explorer.recommended() == [])
    assert explorer.focused() == "history-title"


def test_arrows_go_round_and_escape_closes_and_then_clears(explorer: Explorer) -> None:
    before = explorer.opened().history()
    field = explorer.one("#search")
    field.send_keys("7th")
    explorer.until(lambda: len(explorer.all("#options li")) == 8)
    explorer.press(UP)
    assert field.get_attribute("aria-activedescendant") == "options-7"
    explorer.press(DOWN)
    assert field.get_attribute("aria-activedescendant") == "options-0"
    explorer.press(ESCAPE)
    assert field.get_attribute("aria-expanded") == "false"
    assert field.get_attribute("value") == "7th"
    explorer.press(ESCAPE)
    assert field.get_attribute("value") == ""
    assert explorer.history() == before


def test_an_item_is_removed_by_clicking_and_all_are_by_clear(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.all("#suggestions button")[0].click()
    explorer.until(lambda: len(explorer.recommended()) == 20)
    explorer.act(2, "Add")
    explorer.until(lambda: len(explorer.history()) == 2)
    kept = explorer.history()[1]
    explorer.one("#history li:first-child button").click()
    explorer.until(lambda: explorer.history() == [kept])
    explorer.one("#clear").click()
    explorer.until(lambda: explorer.recommended() == [])
    assert explorer.history() == []
    assert explorer.focused() == "search"
    assert explorer.one("#start").is_displayed()


def test_a_user_is_shown_with_history_and_recommendations(explorer: Explorer) -> None:
    explorer.opened()
    explorer.one("#user").send_keys("user3", ENTER)
    model = explored_model()
    names = [row["item_name"] for row in model.recommend(["user3"], 20).to_dicts()]
    explorer.until(lambda: explorer.recommended() == names)
    had = explorer.server.json("/v1/users/user3/history")
    explorer.one("#whole").click()
    assert explorer.history() == [item["item_name"] for item in had["items"]]
    assert f"User user3 had {had['n_items']} items." in explorer.one("#whose").text


def test_an_id_with_spaces_around_it_is_taken_as_it_is_typed(explorer: Explorer) -> None:
    explorer.opened()
    explorer.one("#user").send_keys(SPACED, ENTER)
    explorer.until(lambda: f"User {SPACED} had" in explorer.texts("#whose")[0])


def test_a_user_is_searched_for_and_shown_by_clicking(explorer: Explorer) -> None:
    explorer.opened()
    field = explorer.one("#user")
    field.send_keys("SER1")
    explorer.until(lambda: len(explorer.all("#user-options li")) == 10)
    assert explorer.texts("#user-options .name")[:3] == ["user1", "user10", "user11"]
    explorer.all("#user-options li")[2].click()
    explorer.until(lambda: "User user11 had" in explorer.one("#whose").text)
    assert field.get_attribute("value") == "user11"
    assert not explorer.one("#user-options").is_displayed()
    assert explorer.severe() == []


def test_a_user_is_searched_for_and_shown_by_keyboard_alone(explorer: Explorer) -> None:
    explorer.opened()
    explorer.press_until(TAB, "user")
    field = explorer.one("#user")
    assert field.get_attribute("role") == "combobox"
    explorer.press(*"ser1")
    explorer.until(lambda: len(explorer.all("#user-options li")) == 10)
    assert explorer.one("#said").get_attribute("textContent") == "10 users found."
    explorer.press(DOWN, DOWN)
    assert field.get_attribute("aria-activedescendant") == "user-options-1"
    explorer.press(ENTER)
    explorer.until(lambda: "User user10 had" in explorer.one("#whose").text)
    assert explorer.focused() == "user"
    explorer.press(DOWN)
    explorer.until(lambda: explorer.one("#user-options").is_displayed())
    explorer.press(ESCAPE)
    assert not explorer.one("#user-options").is_displayed()
    assert field.get_attribute("value") == "user10"


def test_what_is_typed_is_the_whole_id_unless_another_is_pointed_at(explorer: Explorer) -> None:
    before = explorer.opened().history()
    explorer.one("#user").send_keys("ser1")
    explorer.until(lambda: len(explorer.all("#user-options li")) == 10)
    explorer.press(ENTER)
    explorer.until(lambda: explorer.one("#problem").is_displayed())
    assert "'ser1'" in explorer.one("#problem").text
    assert explorer.history() == before
    explorer.severe()  # the 404 that was asked for


def test_a_server_that_searches_for_nobody_wants_the_whole_id(
    browser: Any, folder: Path, tmp_path: Path
) -> None:
    with running(folder, tmp_path / "log") as server:
        explorer = Explorer(browser, server).opened()
        field = explorer.one("#user")
        assert field.get_attribute("role") != "combobox"
        assert "does not search for users" in explorer.one("#user-note").text
        field.send_keys("user3", ENTER)
        explorer.until(lambda: "User user3 had" in explorer.one("#whose").text)
        assert explorer.severe() == []
        assert all(line["route"] != "/v1/users" for line in server.events("request"))


def test_an_unknown_user_is_refused_in_four_parts_and_nothing_else_changes(
    explorer: Explorer,
) -> None:
    before = explorer.opened().history()
    explorer.one("#user").send_keys("eve", ENTER)
    explorer.until(lambda: explorer.one("#problem").is_displayed())
    said = explorer.one("#problem").text
    for part in ("1 unknown user id(s)", "where", "user ids", "found", "'eve'", "wanted"):
        assert part in said
    assert explorer.one("#problem").get_attribute("role") == "alert"
    assert explorer.history() == before
    explorer.severe()  # the 404 that was asked for


def test_why_names_the_items_of_the_history(explorer: Explorer) -> None:
    explorer.opened()
    explorer.show("user3")
    explorer.act(1, "Why")
    explorer.until(lambda: explorer.one("#panel").is_displayed())
    assert explorer.one("#panel-title").text == f"Why {explorer.recommended()[0]}?"
    explorer.run("document.getElementById('whole').click()")
    assert set(explorer.texts("#panel-list .name")) == set(explorer.history())
    sizes = [float(text) for text in explorer.texts("#panel-list .value")]
    assert sizes == sorted(sizes, reverse=True)
    explorer.press(ESCAPE)
    explorer.until(lambda: not explorer.one("#panel").is_displayed())
    assert explorer.focused() == f"Why {explorer.recommended()[0]}?"


def test_why_of_a_blend_has_the_part_of_each_member(browser: Any, tmp_path: Path) -> None:
    model = explored_model()
    members = tuple(ItemWeights(random_floats(80, 80)[::s], model.seen) for s in (1, -1))
    blend = Blend(members, np.array([0.7, 0.3], np.float32))
    replace(model, scorer=blend, settings={}).save(tmp_path / "model")
    with running(tmp_path / "model", tmp_path / "log") as server:
        explorer = Explorer(browser, server).opened(width=400, scheme="dark")
        explorer.show("user3")
        score = float(explorer.texts("#recommendations .value")[0].removeprefix("score "))
        explorer.act(1, "Why")
        explorer.until(lambda: explorer.one("#panel").is_displayed())
        assert explorer.texts("#panel-members-list .name") == ["item_weights"] * 2
        parts = [float(text) for text in explorer.texts("#panel-members-list .value")]
        assert sum(parts) == pytest.approx(score, abs=0.02)
        explorer.severe()  # the 404 of the map


def test_a_similar_item_is_added_from_the_panel(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.all("#suggestions button")[0].click()
    explorer.until(lambda: explorer.recommended())
    explorer.act(1, "Similar")
    explorer.until(lambda: explorer.one("#panel").is_displayed())
    names = explorer.texts("#panel-list .name")
    assert len(names) == 10
    wanted = next(place for place, name in enumerate(names) if name not in explorer.history())
    explorer.all("#panel-list button")[wanted].click()
    explorer.until(lambda: explorer.history()[1:] == [names[wanted]])
    assert not explorer.one("#panel").is_displayed()


def test_the_map_marks_history_and_recommendations_and_a_point_adds_its_item(
    explorer: Explorer,
) -> None:
    explorer.emptied()
    explorer.until(lambda: len(explorer.all("#map .others circle")) == 80)
    explorer.run(
        "document.querySelector('#map .others circle').dispatchEvent(new MouseEvent('click'))"
    )
    explorer.until(lambda: len(explorer.all("#map .recommended")) == 20)
    assert len(explorer.all("#map .had")) == 1
    assert "lies nearest to" in explorer.texts("#map-nearest")[0]


def test_the_card_has_metrics_and_curves(explorer: Explorer) -> None:
    explorer.opened()
    assert (
        explorer.one("#lead").text
        == "dregn-cf, trained on shelf and updated since: 20 users, 80 items"
    )
    facts = dict(zip(explorer.texts("#card dt"), explorer.texts("#card dd"), strict=True))
    assert (facts["pairs"], facts["pairs since training"]) == ("1,234", "1,500")
    cells = explorer.texts("#card div:not(.wide) > table :is(th, td)")
    assert cells == ["metric", "validation", "test", "recall@20", "0.8000", "0.7500"]
    labels = [drawing.get_attribute("aria-label") for drawing in explorer.all("#card svg")]
    assert labels[0].startswith("risk (search): from 1.00 at step 10 to 0.200 at step 50")
    assert labels[1].startswith("validation recall@20 (search)")


def test_the_card_has_what_an_automatic_choice_has_tried(explorer: Explorer) -> None:
    explorer.opened()
    region = explorer.one("#card .wide")
    assert region.get_attribute("aria-label") == "What was tried, a table"
    rows = [
        [cell.text for cell in row.find_elements("css selector", "th, td")]
        for row in region.find_elements("css selector", "tr")
    ]
    assert rows == [
        ["model", "nDCG@20", "less the chosen", "seconds", "weight", "why"],
        ["walk", "0.1235", "−0.0456 to +0.0012", "1.3", "0.75", "chosen"],
        ["softmax", "–", "–", "–", "–", "left out: about 40 s needed, 12 s left"],
    ]


@pytest.mark.parametrize("width", [400, 1280])
def test_a_reason_is_readable_on_a_narrow_screen(explorer: Explorer, width: int) -> None:
    explorer.opened(width=width)
    script = (
        "const e = document.querySelectorAll('.words')[1]; return [e.clientWidth, e.clientHeight]"
    )
    across, down = explorer.run(script)
    assert across >= 200
    assert down < 100


def test_a_name_that_is_markup_is_shown_as_text(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.one("#search").send_keys("item0", ENTER)
    explorer.until(lambda: explorer.recommended())
    assert explorer.history() == [HOSTILE]
    assert explorer.all("img") == []
    assert explorer.browser.title == "ratiorec explorer"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_dark_where_that_is_wanted(explorer: Explorer, scheme: str) -> None:
    explorer.opened(scheme=scheme)
    paper = explorer.run("return getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(246, 247, 249)", "dark": "rgb(17, 21, 27)"}[scheme]


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_nothing_is_wider_than_the_screen(explorer: Explorer, width: int) -> None:
    explorer.opened(width=width)
    explorer.show("user3")
    assert explorer.run("return innerWidth") == width
    wide, shown = explorer.run(
        "const page = document.documentElement; return [page.scrollWidth, page.clientWidth]"
    )
    assert wide == shown <= width
    explorer.act(1, "Why")
    explorer.until(lambda: explorer.one("#panel").is_displayed())
    assert explorer.run("return document.getElementById('panel').scrollWidth") < width


def test_a_key_is_asked_for_and_then_used(browser: Any, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY)
    with running(folder, tmp_path / "log", "--api-keys-file", str(tmp_path / "keys")) as server:
        explorer = Explorer(browser, server)
        explorer.open()
        explorer.until(lambda: explorer.one("#key").is_displayed())
        explorer.one("#key").send_keys(KEY, ENTER)
        explorer.until(lambda: explorer.all("#suggestions button"))
        assert not explorer.one("#key").is_displayed()
        assert not explorer.one("#problem").is_displayed()
        explorer.severe()  # the 401 that was answered first


def test_a_history_that_is_refused_has_no_list_beside_it(
    browser: Any, folder: Path, tmp_path: Path
) -> None:
    with running(folder, tmp_path / "log", "--max-history", "1") as server:
        explorer = Explorer(browser, server).emptied()
        explorer.all("#suggestions button")[0].click()
        explorer.until(lambda: explorer.recommended())
        explorer.act(1, "Add")
        explorer.until(lambda: explorer.one("#problem").is_displayed())
        assert "at most 1 items in a history" in explorer.one("#problem").text
        assert explorer.recommended() == []
        explorer.one("#history li:last-child button").click()
        explorer.until(lambda: explorer.recommended())
        assert not explorer.one("#problem").is_displayed()
        explorer.severe()  # the 422 that was asked for


def test_the_page_opens_without_an_error_on_a_model_that_knows_little(
    browser: Any, tmp_path: Path
) -> None:
    seen = rows_of([[0, 1, 2], [2]])
    ids = [f"{'long' * 60}-{n}" for n in range(9)]
    items = Vocabulary(np.array(ids, object), "item")
    users = Vocabulary(np.array(["ada", "bob"], object), "user")
    counts = PopularityScorer(np.arange(9, dtype=np.float32), 2)
    Artifact(counts, users, items, seen).save(tmp_path / "model")
    with running(tmp_path / "model", tmp_path / "log", "--max-k", "3") as server:
        explorer = Explorer(browser, server).opened()
        assert not explorer.one("#problem").is_displayed()
        assert explorer.history() == [ids[2]]
        assert explorer.recommended() == [ids[8], ids[7], ids[6]]
        assert len(explorer.all("#suggestions button")) == 3
        explorer.one("#search").send_keys("long")
        explorer.until(lambda: len(explorer.all("#options li")) == 3)
        explorer.opened(f"#item={ids[4]}")
        explorer.until(lambda: explorer.history() == [ids[4]])
        assert not explorer.one("#problem").is_displayed()
        explorer.severe()  # that there is no map, and nothing alike


def test_an_answer_that_comes_late_is_dropped(explorer: Explorer) -> None:
    explorer.emptied()
    explorer.run(
        "const real = window.fetch; window.fetch = async (path, options) => {"
        "  const answer = await real(path, options);"
        "  if (path.includes('user1/history')) {"
        "    await new Promise((done) => { window.answerLate = done; });"
        "    window.isLate = true;"
        "  }"
        "  return answer;"
        "};"
    )
    explorer.one("#user").send_keys("user1", ENTER)
    explorer.until(lambda: explorer.run("return Boolean(window.answerLate)"))
    explorer.one("#user").clear()
    explorer.show("user3")
    before = explorer.history()
    explorer.run("window.answerLate()")
    explorer.until(lambda: explorer.run("return window.isLate"))
    explorer.run("return new Promise((done) => setTimeout(done, 300))")
    assert explorer.history() == before
    assert "user3" in explorer.one("#whose").text


def test_a_browser_does_not_ask_again_by_itself_when_ranking_took_too_long(
    browser: Any, folder: Path, tmp_path: Path
) -> None:
    with running(folder, tmp_path / "log", "--rank-seconds", "1e-9") as server:
        explorer = Explorer(browser, server)
        explorer.open()
        explorer.until(lambda: explorer.one("#problem").is_displayed())
        assert "the request took too long" in explorer.one("#problem").text
        assert [line["route"] for line in server.events("request")].count("/v1/items") == 1
        explorer.severe()  # the 503 that was asked for


def test_a_model_without_vectors_has_no_map_and_bars_of_scores(
    browser: Any, tmp_path: Path
) -> None:
    seen = rows_of([[0, 1], [2]])
    weights = np.array([[0, 1, 4], [2, 0, -3], [5, 6, 0]], np.float32)
    # numbers that a script would round
    items = Vocabulary(np.array([2**62 + 1, 2**62 + 2, 2**62 + 3]), "item")
    users = Vocabulary(np.array(["ada", "bob"], object), "user")
    Artifact(ItemWeights(weights, seen), users, items, seen).save(tmp_path / "model")
    with running(tmp_path / "model", tmp_path / "log") as server:
        explorer = Explorer(browser, server).emptied()
        explorer.one("#search").send_keys(str(2**62 + 1), ENTER)
        explorer.until(lambda: explorer.recommended() == [str(2**62 + 3), str(2**62 + 2)])
        assert "no unit" in explorer.one("#measure").text
        assert not explorer.one("#map-section").is_displayed()
        explorer.severe()  # the 404 of the map
