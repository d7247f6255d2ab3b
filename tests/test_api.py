from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse

import ratiorec as rr
from ratiorec.api import dataset_of, progress_bar
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import ConfigError, DataError
from ratiorec.training.fit import StepTaken

COLUMNS = {"customer": ["ada", "ada", "bob", "cy"], "sku": ["tea", "jam", "tea", "oats"]}
TUPLES = list(zip(*COLUMNS.values(), strict=True))
LOG = Synthetic(n_users=40, n_items=20, mean_pairs=8)(rng=np.random.default_rng(0)).dataset


def csv(folder: Path) -> Path:
    path = folder / "clicks.csv"
    pandas.DataFrame(COLUMNS).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    "data",
    [
        pandas.DataFrame(COLUMNS),
        polars.DataFrame(COLUMNS),
        pyarrow.table(COLUMNS),
        TUPLES,
        iter([list(row) for row in TUPLES]),
    ],
    ids=["pandas", "polars", "arrow", "tuples", "iterator of lists"],
)
def test_pairs_are_taken_from_whatever_holds_them(data: Any) -> None:
    found = dataset_of(data).train
    assert sorted(found.users.ids) == ["ada", "bob", "cy"]
    assert found.n_pairs == 4


def test_a_path_a_matrix_and_pairs_are_taken_too(tmp_path: Path) -> None:
    read = dataset_of(str(csv(tmp_path))).train
    assert (read.n_users, read.n_items, read.n_pairs) == (3, 3, 4)
    matrix = scipy.sparse.csr_array(np.eye(3, 4))
    assert dataset_of(matrix).train.n_pairs == 3
    assert dataset_of(read).train is read
    assert dataset_of(LOG) is LOG


def test_a_model_is_fitted_with_tables_of_its_items_and_users() -> None:
    ids = LOG.train.items.ids.tolist()
    items = pandas.DataFrame({"item": ids[1:], "name": [f"No. {i}" for i in ids[1:]], "price": 2.5})
    users = rr.IdTable.read({"id": LOG.train.users.ids[:9], "age": np.arange(9)}, kind="user")
    model = rr.fit(LOG, preset="popularity", items=items, users=users)
    row = model.recommend(LOG.train.users.ids[0], 20, attributes="all").to_dicts()
    wanted = {"price": 2.5}, {"price": None}
    assert [one["attributes"] for one in row] == [wanted[one["item_id"] == ids[0]] for one in row]
    assert model.items.name(1) == f"No. {ids[1]}"
    assert model.user_table.row(8) == {"age": 8}


def test_a_table_of_another_shop_is_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ratiorec.api.train", None)
    with pytest.raises(DataError, match="none of the model's items"):
        rr.fit(LOG, items={"sku": ["x"], "price": [1]})
    with pytest.raises(DataError, match="no table of users"):
        rr.fit(LOG, users=3)
    with pytest.raises(DataError, match=r"two kinds.*'NEW-1'.*whole numbers"):
        rr.fit([(1, 7), (2, 8)], items={"sku": ["7", "9", "NEW-1"], "price": [1, 2, 3]})


@pytest.mark.parametrize("data", [3, [("ada", "tea", 1.0)], [], {"ada": "tea"}, ["ada", "tea"]])
def test_what_holds_no_pairs_is_refused_with_what_does(data: Any) -> None:
    with pytest.raises(DataError, match=r"no pairs can be read.*a list of \(user, item\)"):
        rr.fit(data)


def test_settings_may_be_a_dictionary_of_what_differs() -> None:
    model = rr.fit(LOG, preset="wmf", settings={"solver": {"dimension": 3}}, validation=0)
    assert model.settings["solver"]["dimension"] == 3
    with pytest.raises(ConfigError, match="where: solver; found: dimensions"):
        rr.fit(LOG, preset="wmf", settings={"solver": {"dimensions": 3}})
    with pytest.raises(ConfigError, match="found: no preset; wanted: preset='dregn-cf'"):
        rr.fit(LOG, settings={"solver": {"dimension": 3}})


def test_options_go_by_their_names() -> None:
    assert rr.fit(LOG, preset="walk", validation=0).card["validation"] is None
    with pytest.raises(ConfigError, match=r"'max_second'; wanted: .*max_seconds"):
        rr.fit(LOG, preset="walk", max_second=3)


def test_a_comparison_ranks_and_prints_what_could_run() -> None:
    found = rr.compare(LOG.train, ["popularity", "walk", "ease"], device="cpu")
    by_hand = sorted(found.results, key=lambda r: -r.to_json()["test"]["ndcg@20"])
    assert found.best is by_hand[0]
    lines = repr(found).splitlines()
    assert lines[0] == "PresetComparison: 3 presets on the same pairs, 40 test users"
    assert [line.split()[0] for line in lines[1:]] == ["preset", *(r.preset for r in by_hand)]
    second = by_hand[1].against_best
    assert second is not None
    assert lines[3].endswith(f"{second.low:+.4f} to {second.high:+.4f}")
    assert found._repr_html_().count("<tr>") == 4
    assert [row["preset"] for row in found.to_dicts()] == ["popularity", "walk", "ease"]
    axes = found.plot()
    assert [label.get_text() for label in axes.get_yticklabels()][::-1] == [
        result.preset for result in by_hand
    ]


def test_a_comparison_takes_test_pairs_by_their_ids() -> None:
    train = [(user, item) for user, item in TUPLES if (user, item) != ("ada", "jam")]
    train += [("cy", "tea"), ("dan", "tea"), ("dan", "jam")]
    test = [("cy", "jam"), ("nobody", "tea"), ("ada", "nothing")]
    found = rr.compare(train, ["popularity"], test=test, validation=0)
    # jam is the best of what cy lacks: tea and oats are had, and nothing else has a user
    assert found.results[0].to_json()["test"]["recall@20"] == 1


def test_a_comparison_says_which_test_pairs_it_leaves_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train = [("ada", "tea"), ("ada", "oats"), ("bob", "tea"), ("bob", "jam")]
    compare = partial(rr.compare, train, ["popularity"], validation=0, progress=True)
    compare(test=[("ada", "jam"), ("nobody", "tea"), ("bob", "nothing"), ("nobody", "jam")])
    line = "note: 3 of 4 test pairs are left out: 2 of users and 1 of items"
    assert line in capsys.readouterr().err
    with pytest.raises(DataError, match="no test pair has a user and an item") as caught:
        compare(test=[("nobody", "tea"), ("bob", "nothing")])
    assert caught.value.found.startswith("2 of 2 test pairs are left out")


@pytest.mark.parametrize("preset", ["popularity", "wmf", "auto"])
@pytest.mark.parametrize("seed", [1.5, "1", -1])
def test_what_is_no_seed_is_refused(preset: str, seed: Any) -> None:
    with pytest.raises(ConfigError, match="this is no seed"):
        rr.fit(LOG.train, preset=preset, seed=seed)


def test_weights_that_look_like_times_are_told_of(tmp_path: Path) -> None:
    rows = [f"{user},{item},{1_700_000_000 + user * item}" for user in (1, 2, 3) for item in (4, 5)]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    with pytest.warns(UserWarning, match="name the column as timestamp"):
        rr.fit(tmp_path / "log.csv", preset="popularity", validation=0)


def test_evaluation_takes_a_folder_and_any_pairs(tmp_path: Path) -> None:
    rr.fit(LOG.train, preset="popularity", validation=0).save(tmp_path / "model")
    pairs = [("new", LOG.train.items.ids[0]), (LOG.train.users.ids[0], "new")]
    users, items = LOG.train.users.ids, LOG.train.items.ids
    unseen = sorted(set(range(20)) - set(LOG.train.positives(1).tolist()))
    pairs += [(users[1], items[item]) for item in unseen]
    report = rr.evaluate(tmp_path / "model", pairs, on_unknown="skip")
    assert report.value("recall@20") == 1  # there are 20 items in all


def test_a_model_says_what_it_is_and_nothing_in_it_is_run() -> None:
    ids = [f"<script>{user}" for user in range(3)]
    pairs = [(user, "tea") for user in ids] + [(ids[0], "jam")]
    model = rr.fit(pairs, preset="popularity", validation=0, seed=3)
    for text in ("model: popularity", "users: 3", "items: 2", "pairs: 4", "seed 3"):
        assert text in repr(model)
    assert "<td>popularity</td>" in model._repr_html_()
    lists = model.recommend(ids, k=1, exclude_seen=False)._repr_html_()
    assert "<script>" not in lists
    assert lists.count("&lt;script&gt;") == 3


def test_a_blend_names_its_members() -> None:
    model = rr.fit(LOG.train, max_seconds=5, device="cpu")
    members = [member["name"] for member in model.card["members"] if member["weight"]]
    assert all(f"{name} " in repr(model) for name in members)


def test_the_curve_of_a_fit_is_plotted() -> None:
    model = rr.fit(LOG.train, preset="wmf", device="cpu")
    (line,) = model.plot().lines
    curve = [one["validation"]["ndcg@20"] for one in model.card["curve"] if "validation" in one]
    assert line.get_ydata().tolist() == curve
    with pytest.raises(DataError, match="there is no curve to plot"):
        rr.fit(LOG.train, preset="walk", validation=0).plot()


def steps(phase: str, *done: int) -> list[StepTaken]:
    return [StepTaken(phase, 1, step, 10, 0.5) for step in done]


def test_a_bar_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (True, False, None):  # None: no terminal, no bar
        with progress_bar(shown=shown, prefix="wmf: ") as observe:
            for event in steps("search", 3, 10):
                observe(event)
        assert ("wmf: search" in capsys.readouterr().err) is (shown is True)


def test_a_notebook_shows_a_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, line: dict[str, str], *, raw: bool) -> None:
            shown[-1] = line

    def display(line: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        shown.append(line)
        return Handle()

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    with progress_bar(20, prefix="<b>") as observe:
        observe(steps("search", 3)[0])
        assert "search: step 3 of at most 10, 0 s, at most 0:00:20 left" in shown[0]["text/plain"]
        observe(steps("search", 4)[0])
        assert 'value="3"' in shown[0]["text/html"]  # too soon after the first
        observe(steps("search", 10)[0])
        observe(steps("refit", 1)[0])
    assert "refit: step 1 of at most 10" in shown[0]["text/plain"]
    assert 'value="1"' in shown[0]["text/html"]
    assert "<b>" not in shown[0]["text/html"]
    assert len(shown) == 1


def test_what_was_read_is_said_to_whoever_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "shop.csv"
    file.write_text("customer,sku,qty\nann,tea,1\nann,jam,2\nbob,tea,1\nbob,jam,3\n")
    line = "user = 'customer', item = 'sku', weight = 'qty'; 4 rows"
    pairs = rr.read(file, progress=True)
    assert line in capsys.readouterr().err
    rr.fit(file, preset="popularity", validation=0, progress=True)
    assert line in capsys.readouterr().err
    rr.fit(pairs, preset="popularity", validation=0, progress=True)
    assert "read" not in capsys.readouterr().err  # it was said when it was read
    rr.read(file)
    assert capsys.readouterr().err == ""  # nobody watches
    assert pairs.reading is not None
    assert line in pairs.reading.lines()[0]


def test_messages_are_spelt_as_python_in_python() -> None:
    for options in ({"max_seconds": -1}, {"validation_by": "tomorrow"}, {"memory_mb": -5}):
        (name,) = options
        with pytest.raises(rr.RatiorecError) as refused:
            rr.fit(LOG, preset="popularity", **options)
        assert f"(where: {name};" in str(refused.value)
        assert "--" not in str(refused.value)
        flag = "--" + name.replace("_", "-")
        assert f"(where: {flag};" in refused.value.message
