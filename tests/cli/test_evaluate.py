from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Texts
from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import embedded
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from support.command_line import QUICK, CommandLine


def test_a_model_is_judged_on_a_file_of_held_out_pairs(
    cli: CommandLine, model: Path, held_out: Path, trained: Artifact, dataset: Dataset
) -> None:
    outcome = cli("evaluate", model, "--test", held_out, "--k", 5, "--k", 20, "--json")
    assert "note:" not in outcome.err
    assert outcome.json.keys() == {"metrics", "users", "definition", "pairs", "of_reachable"}
    assert dataset.test is not None
    report = trained.evaluate(dataset.test, ks=(5, 20))
    for name in ("recall@5", "ndcg@5", "recall@20", "ndcg@20"):
        figure = outcome.json["metrics"][name]
        assert figure.keys() == {"value", "low", "high"}
        assert figure["value"] == pytest.approx(report.value(name), abs=1e-12)
        assert figure["low"] <= figure["value"] <= figure["high"]
    assert outcome.json["users"] == (dataset.test.user_degrees > 0).sum()
    assert trained.card["test"]["recall@20"] == outcome.json["metrics"]["recall@20"]["value"]


def test_the_figures_are_printed_for_people(cli: CommandLine, model: Path, held_out: Path) -> None:
    outcome = cli("evaluate", model, "--test", held_out)
    assert outcome.code == 0
    assert "note:" not in outcome.err
    first, *figures = outcome.out.splitlines()
    assert re.fullmatch(r"\d+ users, \d+ test pairs", first)
    assert figures[0].startswith("         recall@20  0.")
    assert "coverage@20" in outcome.out
    assert "of reachable" not in outcome.out  # every pair can be hit
    below = outcome.out[outcome.out.index("coverage@20") :]
    assert "recall@K = hits/|test|" in " ".join(below.split())


def test_cutoffs_may_have_commas_between_them(
    cli: CommandLine, model: Path, held_out: Path
) -> None:
    with_commas = cli("evaluate", model, "--test", held_out, "--k", "5, 10", "--k", 20, "--json")
    assert {"recall@5", "recall@10", "recall@20"} <= with_commas.json["metrics"].keys()
    for wrong in ("5,", "0", "5;10", "-5"):
        refusal = cli("evaluate", model, "--test", held_out, f"--k={wrong}").refusal
        assert f"where: --k; found: {wrong}; wanted: whole numbers from 1" in refusal


def append(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def training_pairs(dataset: Dataset, n: int) -> list[tuple[str, str]]:
    """The first pairs of the training part, of users who have test pairs."""
    assert dataset.test is not None
    judged = dataset.test.user_degrees[dataset.train.pair_users] > 0
    train = dataset.train.select(judged)
    ids = zip(train.users.ids[train.pair_users], train.items.ids[train.indices], strict=True)
    return [*ids][:n]


def test_test_pairs_that_the_model_has_seen_are_counted_and_left_out_of_a_second_figure(
    cli: CommandLine, model: Path, held_out: Path, dataset: Dataset
) -> None:
    assert dataset.test is not None
    clean = cli("evaluate", model, "--test", held_out, "--json").json
    assert clean["of_reachable"]["metrics"]["recall@20"] == clean["metrics"]["recall@20"]
    append(held_out, training_pairs(dataset, 40))
    outcome = cli("evaluate", model, "--test", held_out, "--json")
    total = dataset.test.n_pairs + 40
    assert f"note: 40 of {total} test pairs are training pairs of the model" in outcome.err
    found = outcome.json
    counted = {"total": total, "seen": 40, "unknown_user": 0, "unknown_item": 0}
    assert found["pairs"] == {**counted, "reachable": total - 40}
    assert found["metrics"]["recall@20"]["value"] < clean["metrics"]["recall@20"]["value"]
    assert found["of_reachable"] == clean["of_reachable"]
    printed = cli("evaluate", model, "--test", held_out).out
    line = next(line for line in printed.splitlines() if "recall@20" in line)
    both = [found[part]["metrics"] if part else found["metrics"] for part in ("", "of_reachable")]
    for figures in both:
        assert f"{figures['recall@20']['value']:.4f}  [" in line


def test_a_test_file_of_which_most_was_trained_on_is_refused_with_the_way_out(
    cli: CommandLine, model: Path, held_out: Path, clicks: Path, dataset: Dataset
) -> None:
    n_train = dataset.train.n_pairs
    refusal = cli("evaluate", model, "--test", clicks).refusal
    assert "the test pairs are the model's training pairs (where: --test;" in refusal
    assert f"{n_train} of {n_train} pairs (100%)" in refusal
    assert "--allow-seen" in refusal
    assert dataset.test is not None
    append(held_out, training_pairs(dataset, dataset.test.n_pairs))  # half is not most
    assert cli("evaluate", model, "--test", held_out).code == 0
    append(held_out, training_pairs(dataset, dataset.test.n_pairs + 1)[-1:])
    assert (
        "most test pairs are training pairs" in cli("evaluate", model, "--test", held_out).refusal
    )
    allowed = cli("evaluate", model, "--test", clicks, "--allow-seen", "--json").json
    assert allowed["metrics"]["recall@20"]["value"] == 0
    assert allowed["of_reachable"]["users"] == 0
    assert allowed["of_reachable"]["metrics"]["recall@20"]["value"] is None
    assert "unknown" in cli("evaluate", model, "--test", clicks, "--allow-seen").out


def test_a_paired_test_of_models_one_of_which_saw_the_test_pairs_is_refused(
    cli: CommandLine, model: Path, held_out: Path, clicks: Path, dataset: Dataset
) -> None:
    assert dataset.test is not None
    rows = csv.reader(held_out.read_text(encoding="utf-8").splitlines())
    append(clicks, [*rows][1:4])
    assert cli("fit", clicks, "-o", "cheat", *QUICK).code == 0
    one_way = cli("evaluate", model, "--test", held_out, "--against", "cheat").refusal
    n_pairs = dataset.test.n_pairs
    assert "one model was trained on test pairs that the other has not seen" in one_way
    assert f"3 of {n_pairs} test pairs in the training of that model alone, 0 in that" in one_way
    assert "--allow-seen" in one_way
    assert "0 of" in cli("evaluate", "cheat", "--test", held_out, "--against", model).refusal
    allowed = ("evaluate", model, "--test", held_out, "--against", "cheat", "--allow-seen")
    assert cli(*allowed).code == 0


def test_pairs_of_unknown_users_and_items_are_counted_and_told(
    cli: CommandLine, model: Path, held_out: Path, dataset: Dataset
) -> None:
    clean = cli("evaluate", model, "--test", held_out, "--json").json
    user = training_pairs(dataset, 1)[0][0]
    append(held_out, [("nobody", "nothing"), ("nobody", "nix"), (user, "nothing")])
    outcome = cli("evaluate", model, "--test", held_out, "--json")
    assert outcome.code == 0
    total = clean["pairs"]["total"] + 3
    assert f"note: 3 of {total} test pairs are left out: 2 of users and 1 of items" in outcome.err
    assert (outcome.json["pairs"]["unknown_user"], outcome.json["pairs"]["unknown_item"]) == (2, 1)
    assert outcome.json["metrics"] == clean["metrics"]
    refusal = cli("evaluate", model, "--test", held_out, "--on-unknown", "raise").refusal
    assert "--on-unknown skip" in refusal
    assert "on_unknown=" not in refusal


def test_figures_beyond_accuracy_stand_beside_the_others(
    cli: CommandLine, model: Path, held_out: Path
) -> None:
    found = cli("evaluate", model, "--test", held_out, "--json").json["metrics"]
    for name in (
        *("novelty@20", "diversity@20", "popularity@20", "miscalibration@20"),
        *("gini@20", "popularity_lift@20"),
    ):
        assert found[name]["low"] <= found[name]["value"] <= found[name]["high"]


def test_a_model_is_judged_on_the_test_part_of_a_data_set(cli: CommandLine, clicks: Path) -> None:
    cli("data", "split", clicks, "-o", "parts", "--fraction", "0.3")
    fitted = cli("fit", "parts", "-o", "m", *QUICK, "--json").json
    judged = cli("evaluate", "m", "--data", "parts", "--json").json
    assert judged["metrics"]["ndcg@20"]["value"] == fitted["test"]["ndcg@20"]


def test_every_users_figures_are_written(
    cli: CommandLine, model: Path, held_out: Path, tmp_path: Path
) -> None:
    options = ("--test", held_out, "--json", "--per-user")
    found = cli("evaluate", model, *options, "users.parquet").json
    table = pq.read_table(tmp_path / "users.parquet")
    assert table.num_rows == found["users"]
    recalls = table["recall@20"].to_pylist()
    mean = sum(recalls) / len(recalls)
    assert mean == pytest.approx(found["metrics"]["recall@20"]["value"])
    cli("evaluate", model, *options, "users.csv")
    with (tmp_path / "users.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["user_id"] for row in rows] == table["user_id"].to_pylist()


def test_two_models_are_compared_on_the_same_users(
    cli: CommandLine, model: Path, held_out: Path, clicks: Path
) -> None:
    cli("fit", clicks, "-o", "other", *QUICK, "--seed", 3)
    found = cli("evaluate", model, "--test", held_out, "--against", "other", "--json").json
    other = cli("evaluate", "other", "--test", held_out, "--json").json
    against = found["against"]
    assert (against["model"], against["users"]) == ("other", found["users"])
    line = against["metrics"]["ndcg@20"]
    assert line.keys() == {"difference", "low", "high", "p_value"}
    gap = found["metrics"]["ndcg@20"]["value"] - other["metrics"]["ndcg@20"]["value"]
    assert line["difference"] == pytest.approx(gap, abs=1e-12)
    printed = cli("evaluate", model, "--test", held_out, "--against", "other").out
    assert "against other (paired, this minus that):" in printed


def test_a_model_against_itself_shows_no_difference(
    cli: CommandLine, model: Path, held_out: Path
) -> None:
    found = cli("evaluate", model, "--test", held_out, "--against", model, "--json").json
    assert {line["difference"] for line in found["against"]["metrics"].values()} == {0.0}
    assert {line["p_value"] for line in found["against"]["metrics"].values()} == {1.0}


def test_two_sets_of_held_out_pairs_are_one_too_many(cli: CommandLine, model: Path) -> None:
    outcome = cli("evaluate", model, "--test", "a.csv", "--data", "b")
    assert "needs one set of held-out pairs" in outcome.refusal


def test_data_without_a_test_part_is_refused(cli: CommandLine, model: Path, clicks: Path) -> None:
    assert "has no test part" in cli("evaluate", model, "--data", clicks).refusal


def test_a_data_set_with_two_parts_is_no_file_of_held_out_pairs(
    cli: CommandLine, model: Path, clicks: Path
) -> None:
    cli("data", "split", clicks, "-o", "parts")
    assert "--data for the test part" in cli("evaluate", model, "--test", "parts").refusal


def test_a_model_of_a_benchmark_is_judged_on_its_own_test_part(
    cli: CommandLine, tmp_path: Path
) -> None:
    data = embedded().dataset
    assert data.test is not None
    factors = InnerProduct(
        np.ones((data.train.n_users, 1), np.float32),
        data.train.item_degrees.astype(np.float32)[:, None],
    )
    card = {"data": {"name": "synthetic", "sha256": data.train.sha256}}
    popular = Artifact.of(factors, data.train, settings={}, card=card)
    popular.save(tmp_path / "popular")
    alone = cli("evaluate", tmp_path / "popular", "--json").json
    assert alone == cli("evaluate", tmp_path / "popular", "--data", "synthetic", "--json").json


def test_a_model_of_other_data_under_a_benchmarks_name_needs_held_out_pairs(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    assert trained.card["data"]["name"] == "synthetic"
    assert "neither" in cli("evaluate", model).refusal


@pytest.fixture
def described(tmp_path: Path, dataset: Dataset, trained: Artifact) -> Path:
    """A model that knows the names of its items as text."""
    assert dataset.train.items.names is not None
    names = Attributes(len(trained.items), {"name": Texts(dataset.train.items.names)})
    trained.with_items(names).save(tmp_path / "described")
    return tmp_path / "described"


def test_cold_items_are_judged_by_a_model_trained_without_them(
    cli: CommandLine, described: Path, clicks: Path
) -> None:
    outcome = cli("evaluate", described, "--data", clicks, "--cold-items", 0.2, "--json")
    assert outcome.json.keys() >= {"metrics", "users", "cold_items", "baselines", "against"}
    assert outcome.json["cold_items"]["share"] == 0.2
    assert outcome.json["cold_items"]["held_out"] == 8
    told = cli("evaluate", described, "--data", clicks, "--cold-items", 0.2).out.splitlines()
    assert told[0].startswith("8 of 40 items held out, ")
    assert [line.split()[0] for line in told[1:7:2]] == ["content", "popularity", "random"]
    assert told[-1].startswith("content minus random")


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (["--cold-items", "0.2"], "--data"),
        (["--cold-items", "1.5", "--data", "DATA"], "--cold-items"),
        (["--cold-items", "0.2", "--data", "DATA", "--against", "other"], "--against"),
        (["--cold-items", "0.2", "--data", "DATA", "--per-user", "f.csv"], "--per-user"),
        (["--test", "DATA", "--half-life", "30d"], "--half-life"),
        (["--test", "DATA", "--repeats", "sum"], "--repeats"),
    ],
)
def test_what_has_no_meaning_with_or_without_cold_items_is_refused(
    cli: CommandLine, described: Path, clicks: Path, more: list[str], where: str
) -> None:
    words = [str(clicks) if word == "DATA" else word for word in more]
    if "--against" in words:
        words[words.index("other")] = str(described)
    assert f"where: {where}" in cli("evaluate", described, *words).refusal


def test_cold_items_are_held_out_of_the_weights_that_the_model_was_trained_on(
    cli: CommandLine, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{u},i{i},2026-01-{1 + u % 9:02d}" for u in range(30) for i in rng.choice(12, 5)]
    log, table = tmp_path / "log.csv", tmp_path / "items.csv"
    log.write_text("\n".join(["user,item,time", *rows]))
    table.write_text("item,colour\n" + "".join(f"i{i},c{i % 3}\n" for i in range(12)))
    how = ("--half-life", "3d", "--repeats", "sum")
    cli("fit", log, *how, "--items", table, "--preset", "item-knn", "-o", tmp_path / "m")
    judged = ("evaluate", tmp_path / "m", "--data", log, "--cold-items", 0.3)
    assert "not the weights" in cli(*judged).err
    assert "not the weights" not in cli(*judged, *how).err


def test_cold_items_need_attributes_or_titles(
    cli: CommandLine, trained: Artifact, clicks: Path, tmp_path: Path
) -> None:
    ids, judged = trained.items.ids, ("--data", clicks, "--cold-items", 0.2)
    bare = replace(trained, items=Vocabulary(ids, "item"))
    bare.save(tmp_path / "bare")
    assert "nothing is known of the items" in cli("evaluate", tmp_path / "bare", *judged).refusal
    titles = [f"thing {n}" if n > 4 else str(item) for n, item in enumerate(ids)]
    bare.with_items(bare.item_table, titles).save(tmp_path / "titled")
    told = cli("evaluate", tmp_path / "titled", *judged).out
    assert "7 of 40 items held out" in told
    assert "5 items of which nothing is known are never held out" in told
