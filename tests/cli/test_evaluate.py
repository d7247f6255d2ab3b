from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import embedded
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from support.command_line import QUICK, CommandLine


def test_a_model_is_judged_on_a_file_of_held_out_pairs(
    cli: CommandLine, model: Path, held_out: Path, trained: Artifact, dataset: Dataset
) -> None:
    outcome = cli("evaluate", model, "--test", held_out, "--k", 5, "--k", 20, "--json")
    assert outcome.err == ""
    assert outcome.json.keys() == {"metrics", "users", "definition"}
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
    assert (outcome.code, outcome.err) == (0, "")
    assert "recall@20  0." in outcome.out
    assert "coverage@20" in outcome.out


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
