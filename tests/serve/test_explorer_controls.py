"""The first screen and the controls of the explorer, in a real browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from support.explorer import DOWN, ENTER, ESCAPE, RIGHT, TAB, Explorer
from support.serve_process import ServerProcess, running
from support.small_models import small_model

pytest.importorskip("selenium.webdriver", reason="no selenium")
NPM = shutil.which("npm")
N_ITEMS = 80
FILTERS = '[filters]\ncheap = "price < 30"\n'
RULES = "[spread]\nlimits = { group = 2 }\n"
MEMBERS = [
    {"name": "walk", "why": "chosen", "weight": 1.0, "seconds": 1.25, "settings": {}}
    | {"validation": {"ndcg@20": 0.123456}, "lead": [-0.0456, 0.0012]}
]


def shop() -> dict[str, Artifact]:
    """Two variants of a model whose items have ten groups, prices and labels."""
    model = small_model(n_items=N_ITEMS)
    table = Attributes(
        N_ITEMS,
        {
            "group": Categories.of([f"g{n % 10 if n % 7 else 0}" for n in range(N_ITEMS)]),
            "price": Numbers(np.arange(N_ITEMS, dtype=float)),
            "labels": Tags.of([["fair"] if n % 3 else [] for n in range(N_ITEMS)]),
            "about": Categories.of(["a category in so many words that no chip holds it"] * N_ITEMS),
        },
    )
    model = model.with_items(table).with_card({"members": MEMBERS})
    scorer = model.scorer
    assert isinstance(scorer, InnerProduct)
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(scorer.items.shape, dtype=np.float32) / 2
    return {
        "a": model,
        "b": replace(model, scorer=InnerProduct(scorer.users, scorer.items + noise)),
    }


@pytest.fixture(scope="module")
def models() -> dict[str, Artifact]:
    return shop()


@pytest.fixture(scope="module")
def server(
    models: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "filters.toml").write_text(FILTERS)
    (folder / "rules.toml").write_text(RULES)
    for name, model in models.items():
        model.save(folder / name)
    options = ["--user-search", "--split", "a:90,b:10"]
    options += ["--filters", str(folder / "filters.toml"), "--rules", str(folder / "rules.toml")]
    named = [f"{name}={folder / name}" for name in models]
    with running(Path(named[0]), folder / "log", *named[1:], *options) as process:
        yield process


@pytest.fixture
def explorer(browser: Any, server: ServerProcess) -> Explorer:
    return Explorer(browser, server)


def names_of(model: Artifact, user: str, **options: Any) -> list[str]:
    return [row["item_name"] for row in model.recommend([user], 20, **options).to_dicts()]


def expect(explorer: Explorer, names: list[str]) -> None:
    assert names
    explorer.until(lambda: explorer.recommended() == names)


# --- the first screen --------------------------------------------------------------------------


def test_the_page_opens_on_an_example_user_with_list_and_map(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened()
    seen = models["a"].seen
    lengths = {f"user{n}": length for n, length in enumerate(np.diff(seen.indptr)) if length}
    whose = explorer.one("#whose").text
    user = whose.removeprefix("An example: user ").split()[0]
    assert sorted(lengths.values())[len(lengths) // 2] == lengths[user]
    assert f"had {lengths[user]} items" in whose
    assert explorer.recommended() == names_of(models["a"], user)
    assert explorer.one("#kind").text.startswith("Ranked for this history")
    assert "#" not in explorer.browser.current_url
    tops = explorer.run(
        "return ['#history', '#recommendations', '#map', '#controls']"
        ".map((s) => document.querySelector(s).getBoundingClientRect().top)"
    )
    assert max(tops) < 400


def test_without_user_search_the_example_is_a_visitor_and_nobody_is_named(
    browser: Any, models: dict[str, Artifact], tmp_path: Path
) -> None:
    model = replace(models["a"], item_table=Attributes.none(N_ITEMS))
    model.save(tmp_path / "model")
    with running(tmp_path / "model", tmp_path / "log") as server:
        explorer = Explorer(browser, server).opened()
        assert explorer.one("#whose").text == "An example: a new visitor with 3 items."
        most = int(np.bincount(model.seen.indices, minlength=N_ITEMS).argmax())
        like = model.similar([f"item{most}"], 2).to_dicts()
        expected = [f"The {most}th Thing", *(row["similar_name"] for row in like)]
        assert explorer.history() == expected
        assert len(explorer.recommended()) == 20
        page = explorer.run("return document.documentElement.outerHTML")
        assert not any(f'{user}"' in page or f"{user} " in page for user in model.users.ids)
        routes = {line["route"] for line in server.events("request")}
        assert not any("user" in route for route in routes)
        hidden = ("filter", "named", "rules", "variant", "beside", "colour")
        assert not any(explorer.one(f"#{name}-field").is_displayed() for name in hidden)
        assert explorer.one("#diversity").is_displayed()


# --- filters, rules, diversity -------------------------------------------------------------------


def test_a_filter_is_written_with_columns_that_are_offered(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened("#user=user3")
    explorer.press_until(TAB, "filter")
    explorer.press(*"not PR")
    explorer.until(lambda: len(explorer.all("#columns li")) == 1)
    assert explorer.said() == "1 column found."
    explorer.press(DOWN, ENTER)
    field = explorer.one("#filter")
    assert field.get_attribute("value") == "not price "
    explorer.press(*"< 40")
    explorer.press(ENTER)
    expect(explorer, names_of(models["a"], "user3", filter="price >= 40"))
    assert "filter=not+price+%3C+40" in explorer.browser.current_url
    assert explorer.severe() == []


def test_columns_are_not_offered_inside_of_a_text(explorer: Explorer) -> None:
    explorer.opened("#user=user3")
    explorer.one("#filter").send_keys('group in ["p')
    explorer.run("return new Promise((done) => setTimeout(done, 300))")
    assert not explorer.one("#columns").is_displayed()


def test_a_mistake_in_a_filter_is_shown_at_its_character(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened("#user=user3")
    explorer.one("#filter").send_keys('group in ["g1", "g2"] and prise < 4', ENTER)
    explorer.until(lambda: explorer.one("#filter-problem").is_displayed())
    problem = explorer.one("#filter-problem")
    for part in ("a column that is not there", "character 27", "found", "did you mean price?"):
        assert part in problem.text
    shown, caret = explorer.texts("#filter-problem pre")[0].split("\n")
    assert shown[caret.index("^") :].startswith("prise")
    assert problem.get_attribute("role") == "alert"
    assert explorer.one("#filter").get_attribute("aria-invalid") == "true"
    assert explorer.recommended() == []
    assert not explorer.one("#problem").is_displayed()
    field = explorer.one("#filter")
    field.clear()
    field.send_keys("price < 4", ENTER)
    expect(explorer, names_of(models["a"], "user3", filter="price < 4"))
    assert not problem.is_displayed()
    assert field.get_attribute("aria-invalid") is None
    explorer.severe()  # the 422 that was asked for


def test_named_filters_and_sets_of_rules_are_chosen_by_name(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    from ratiorec.reranking.rules import Rules

    explorer.opened("#user=user3")
    explorer.choose("named", "cheap")
    expect(explorer, names_of(models["a"], "user3", filter="price < 30"))
    explorer.one("#filter").send_keys("price > 9 or price < 2", ENTER)
    both = "price < 30 and (price > 9 or price < 2)"
    expect(explorer, names_of(models["a"], "user3", filter=both))
    explorer.choose("rules", "spread")
    rules = Rules(limits={"group": 2})
    expect(explorer, names_of(models["a"], "user3", filter=both, rules=rules))
    explorer.choose("named", "none")


def test_diversity_is_set_by_keyboard(explorer: Explorer, models: dict[str, Artifact]) -> None:
    from ratiorec.reranking.rules import Rules

    explorer.opened("#user=user3")
    explorer.press_until(TAB, "diversity")
    explorer.press(*([RIGHT] * 8))
    assert explorer.one("#diversity-shown").text == "0.40"
    expect(explorer, names_of(models["a"], "user3", rules=Rules(diversity=0.4)))
    assert explorer.recommended() != names_of(models["a"], "user3")
    assert "diversity=0.4" in explorer.browser.current_url


# --- variants --------------------------------------------------------------------------------


def test_two_variants_stand_side_by_side_and_what_moved_is_marked(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened("#user=user3")
    assert explorer.texts("#variant option") == ["a (90 %)", "b (10 %)"]
    explorer.choose("beside", "b")
    first, second = (names_of(models[name], "user3") for name in "ab")
    explorer.until(lambda: explorer.texts("#beside-items .name") == second)
    assert explorer.recommended() == first
    assert explorer.texts("#lists h3") == ["Variant a", "Variant b"]
    marks = "return [...document.querySelectorAll(arguments[0])].map((row) => "
    marks += "[...row.querySelectorAll('.mark:not(.cold)')].map((m) => m.textContent).join())"
    expected = []
    for place, name in enumerate(second):
        by = first.index(name) - place if name in first else None
        arrow = "" if not by else f"▲ {by} up" if by > 0 else f"▼ {-by} down"
        expected.append("only here" if by is None else arrow)
    assert explorer.run(marks, "#beside-items > li") == expected
    gone = ["" if name in second else "only here" for name in first]
    assert explorer.run(marks, "#recommendations > li") == gone
    assert len(set(expected)) > 3
    explorer.choose("beside", "nothing")
    explorer.until(lambda: not explorer.one("#beside-list").is_displayed())


def test_a_second_variant_that_refuses_leaves_the_first_list(
    browser: Any, models: dict[str, Artifact], tmp_path: Path
) -> None:
    models["a"].save(tmp_path / "a")
    small_model(n_users=2, n_items=N_ITEMS).save(tmp_path / "b")
    variants = [f"{name}={tmp_path / name}" for name in "ab"]
    options = [variants[1], "--split", "a:99.5,b:0.5"]
    with running(variants[0], tmp_path / "log", *options) as server:
        explorer = Explorer(browser, server).opened("#user=user3&variant=a")
        assert explorer.texts("#variant option") == ["a (99.5 %)", "b (0.5 %)"]
        explorer.choose("beside", "b")
        refused = "There is no list: 1 unknown user id(s) (where: user ids; found: 'user3';"
        explorer.until(lambda: explorer.one("#beside-kind").text.startswith(refused))
        assert explorer.recommended() == names_of(models["a"], "user3")
        assert not explorer.all("#recommendations .mark.only")
        assert not explorer.one("#problem").is_displayed()
        explorer.severe()  # the 404 of the second variant


def test_another_variant_has_lists_model_and_map_of_its_own(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened("#user=user3")
    place = "return document.querySelector('#map .others circle').getAttribute('cx')"
    before = explorer.run(place)
    explorer.choose("variant", "b")
    expect(explorer, names_of(models["b"], "user3"))
    explorer.until(lambda: explorer.run(place) != before)
    assert explorer.texts("#card dd")[0] == "b"


# --- the address -------------------------------------------------------------------------------


def test_a_view_is_opened_again_from_its_address(explorer: Explorer) -> None:
    explorer.opened("#user=user3&named=cheap&rules=spread&diversity=0.3&variant=b&beside=a")
    seen = explorer.recommended(), explorer.texts("#beside-items .name"), explorer.history()
    address = explorer.browser.current_url
    explorer.opened(f"#{address.partition('#')[2]}")
    assert explorer.browser.current_url == address
    again = explorer.recommended(), explorer.texts("#beside-items .name"), explorer.history()
    assert again == seen
    for name, value in {"named": "cheap", "rules": "spread", "variant": "b", "beside": "a"}.items():
        assert explorer.one(f"#{name}").get_attribute("value") == value
    assert explorer.one("#diversity").get_attribute("value") == "0.3"


def test_a_history_is_in_the_address_and_comes_back_with_its_titles(explorer: Explorer) -> None:
    explorer.opened("#item=item17&item=item4")
    assert explorer.history() == ["The 17th Thing", "The 4th Thing"]
    explorer.one("#history li:first-child button").click()
    explorer.until(lambda: explorer.browser.current_url.endswith("#variant=a&item=item4"))
    explorer.run("location.hash = '#item=item5'")
    explorer.until(lambda: explorer.history() == ["The 5th Thing"])


def test_links_on_the_page_leave_the_view_in_the_address(explorer: Explorer) -> None:
    explorer.opened("#user=user3")
    address = explorer.browser.current_url
    explorer.one("nav a[href='#model-title']").click()
    assert explorer.focused() == "model-title"
    assert explorer.browser.current_url == address


# --- items -----------------------------------------------------------------------------------


def test_new_items_are_marked_by_words(explorer: Explorer, models: dict[str, Artifact]) -> None:
    explorer.opened("#user=user3")
    rows = models["a"].recommend(["user3"], 20).to_dicts()
    cold = [row["item_name"] for row in rows if row["kind"] == "cold"]
    marked = explorer.texts("#recommendations li:has(.cold) .name")
    assert marked == cold != []
    assert "new item" in explorer.one("#kind").text


def test_items_that_are_found_show_their_attributes(explorer: Explorer) -> None:
    explorer.opened("#user=user3")
    explorer.one("#search").send_keys("item17")
    explorer.until(lambda: len(explorer.all("#options li")) == 1)
    assert explorer.texts("#options .attribute") == ["group: g7", "labels: fair", "price 17"]


def test_the_actions_of_a_row_open_and_close_by_keyboard(explorer: Explorer) -> None:
    explorer.opened("#user=user3")
    first = explorer.recommended()[0]
    assert not explorer.all("#recommendations .actions button")
    explorer.run("document.querySelector('#recommendations .more').focus()")
    explorer.press(ENTER)
    assert explorer.focused() == f"Add {first} to the history"
    assert explorer.one(".more").get_attribute("aria-expanded") == "true"
    explorer.press(ESCAPE)
    assert explorer.focused() == f"Actions for {first}"
    assert not explorer.all("#recommendations .actions button")


# --- the map -----------------------------------------------------------------------------------


def test_the_map_has_a_colour_for_each_of_the_eight_largest_groups(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened("#user=user3")
    entries = explorer.texts("#colours li")
    assert len(entries) == 9
    assert entries[0] == "g0"
    assert entries[-1] == "other"
    circles = explorer.run(
        "return [...document.querySelectorAll('#map .others circle')]"
        ".map((c) => c.getAttribute('class').trim())"
    )
    codes = models["a"].item_table.rows(range(N_ITEMS))
    assert circles.count("c1") == sum(row["group"] == "g0" for row in codes)
    assert circles.count("c0") == sum(f"{row['group']}" not in entries for row in codes)
    fills = explorer.run(
        "return [...document.querySelectorAll('#colours .swatch')]"
        ".map((s) => getComputedStyle(s).backgroundColor)"
    )
    assert len(set(fills)) == 9
    explorer.choose("colour", "labels")
    explorer.until(lambda: explorer.texts("#colours li") == ["fair", "other"])
    explorer.choose("colour", "no colours")
    explorer.until(lambda: explorer.texts("#colours li") == [])
    assert "colour=none" in explorer.browser.current_url


def test_the_map_says_how_many_neighbours_it_keeps(
    explorer: Explorer, models: dict[str, Artifact]
) -> None:
    explorer.opened("#user=user3")
    found = models["a"].item_map
    assert found is not None
    assert found.kept is not None
    assert found.kept_by_plane is not None
    words = explorer.one("#map-words").text
    assert f"{round(100 * found.kept)} % are among the 30 items most like it" in words
    assert f"principal axes {round(100 * found.kept_by_plane)} %" in words
    n_items = len(explorer.server.json("/v1/users/user3/history")["items"])
    assert len(explorer.all("#map path.had")) == n_items
    assert len(explorer.all("#map circle.recommended")) == 20


def test_the_map_is_walked_by_keyboard(explorer: Explorer) -> None:
    before = explorer.opened("#user=user3").history()
    places = {
        row["item_name"]: (row["x"], row["y"]) for row in explorer.server.json("/v1/map")["items"]
    }
    explorer.run("document.getElementById('map').focus()")
    explorer.press(DOWN)
    first = explorer.one("#map-pointed").text
    assert first == explorer.recommended()[0]
    explorer.press(RIGHT)
    found = explorer.said()
    steps = {name: np.subtract(place, places[first]) for name, place in places.items()}
    beside = {name: step for name, step in steps.items() if step[0] > 0 and step[0] >= abs(step[1])}
    assert found == min(beside, key=lambda name: np.hypot(*beside[name]))
    assert found not in before
    explorer.press(ENTER)
    explorer.until(lambda: explorer.history()[-1:] == [found])


def test_an_address_with_an_unknown_user_is_refused_and_the_page_is_of_use(
    explorer: Explorer,
) -> None:
    explorer.opened("#user=eve")
    assert "'eve'" in explorer.one("#problem").text
    explorer.all("#suggestions button")[0].click()
    explorer.until(lambda: len(explorer.recommended()) == 20)
    assert not explorer.one("#problem").is_displayed()
    explorer.severe()  # the 404 that was asked for


# --- axe ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    if NPM is None:
        pytest.skip("no npm on PATH")
    folder = tmp_path_factory.mktemp("axe")
    command = [NPM, "install", "--no-save", "--ignore-scripts", "axe-core@4"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm reaches no registry")
    if done.returncode:
        pytest.skip("npm could not install axe-core")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (400, "dark")])
def test_axe_finds_no_violation(explorer: Explorer, axe: str, width: int, scheme: str) -> None:
    def violations() -> list[str]:
        explorer.run(axe)
        found = explorer.browser.execute_async_script(
            "axe.run().then((r) => arguments[0](JSON.stringify(r.violations)))"
        )
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in json.loads(found)]

    explorer.opened("#user=user3&variant=a&beside=b", width=width, scheme=scheme)
    assert len(explorer.recommended()) == len(explorer.texts("#beside-items .name")) == 20
    assert violations() == []
    explorer.all(".more")[0].click()
    explorer.one("#search").send_keys("7th")
    explorer.until(lambda: len(explorer.all("#options li")) == 8)
    explorer.press(DOWN)
    assert violations() == []
    explorer.press(ESCAPE)
    explorer.one("#user").send_keys("ser1")
    explorer.until(lambda: len(explorer.all("#user-options li")) == 10)
    explorer.press(DOWN)
    assert violations() == []
    explorer.press(ESCAPE)
    explorer.one("#filter").send_keys("pri")
    explorer.until(lambda: explorer.one("#columns").is_displayed())
    explorer.press(DOWN)
    assert violations() == []
    explorer.press(ENTER, *"<<", ENTER)
    explorer.until(lambda: explorer.one("#filter-problem").is_displayed())
    assert violations() == []
    explorer.opened("#user=user3", width=width, scheme=scheme)
    explorer.act(1, "Why")
    explorer.until(lambda: explorer.one("#panel").is_displayed())
    assert violations() == []
    explorer.severe()  # the 422 that was asked for
