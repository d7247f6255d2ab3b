"""Filters and rules on the command line: of a few lists, of bulk jobs, of similar items."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers
from ratiorec.cli.query import ListGroup
from ratiorec.model.artifact import Artifact
from ratiorec.reranking.rules import Rules
from ratiorec.scorers import FloatMatrix, topk
from support.command_line import CommandLine

CHEAP_TEA = 'price < 20 and kind == "tea"'


@pytest.fixture
def shop(trained: Artifact) -> Artifact:
    """Item n costs n; every second is tea, and the others are jam."""
    n = len(trained.items)
    kinds = Categories.of(["tea", "jam"][place % 2] for place in range(n))
    return trained.with_items(
        Attributes(n, {"price": Numbers(np.arange(n, dtype=np.float64)), "kind": kinds})
    )


@pytest.fixture
def model(shop: Artifact, tmp_path: Path) -> Path:
    """A model folder, beside it a file of filters and two of rules."""
    shop.save(tmp_path / "model")
    (tmp_path / "filters.toml").write_text(
        "[filters]\ncheap = 'price < 20'\ncheap_tea = '@cheap and kind == \"tea\"'\n"
    )
    (tmp_path / "rules.toml").write_text("[home]\nlimits = {kind = 2}\n[mail]\ndiversity = 0.5\n")
    (tmp_path / "one.toml").write_text("[home]\nlimits = {kind = 2}\n")
    return tmp_path / "model"


def test_a_filter_is_written_out_or_named(cli: CommandLine, model: Path, shop: Artifact) -> None:
    users = shop.users.ids[:2].tolist()
    words = ("recommend", model, "--user", users[0], "--user", users[1], "--json")
    expected = {"recommendations": shop.recommend(users, filter=CHEAP_TEA).to_dicts()}
    assert len(expected["recommendations"]) > 5
    assert cli(*words, "--filter", CHEAP_TEA).json == expected
    assert cli(*words, "--filter", "@cheap_tea", "--filters", "filters.toml").json == expected


def test_a_boost_uses_the_names_of_filters(
    cli: CommandLine, model: Path, shop: Artifact, tmp_path: Path
) -> None:
    (tmp_path / "lift.toml").write_text("[home.boosts]\n'@cheap_tea' = 50\n")
    user = shop.users.ids[0]
    rules = Rules(boosts={CHEAP_TEA: 50})
    expected = {"recommendations": shop.recommend([user], 6, rules=rules).to_dicts()}
    assert expected != {"recommendations": shop.recommend([user], 6).to_dicts()}
    words = ("recommend", model, "--user", user, "-k", 6, "--json", "--rules", "lift.toml")
    assert cli(*words, "--filters", "filters.toml").json == expected
    assert "@cheap_tea" in cli(*words).refusal


def test_rules_are_a_set_of_a_file_with_or_without_a_strength(
    cli: CommandLine, model: Path, shop: Artifact
) -> None:
    user = shop.users.ids[0]
    words = ("recommend", model, "--user", user, "-k", 6, "--json")
    for options, rules in [
        (("--rules", "rules.toml", "--rule-set", "home"), Rules(limits={"kind": 2})),
        (("--rules", "one.toml"), Rules(limits={"kind": 2})),
        (("--rules", "one.toml", "--diversity", 0.4), Rules(limits={"kind": 2}, diversity=0.4)),
        (("--diversity", 0.9), Rules(diversity=0.9)),
    ]:
        expected = shop.recommend(user, 6, rules=rules).to_dicts()
        assert cli(*words, *options).json == {"recommendations": expected}
    assert cli(*words).json["recommendations"] == shop.recommend(user, 6).to_dicts()


@pytest.mark.parametrize("options", [(), ("--engine", "local")])
def test_bulk_lists_keep_to_names_that_only_the_command_knows(
    cli: CommandLine, model: Path, shop: Artifact, tmp_path: Path, options: tuple[str, ...]
) -> None:
    output = "lists" if options else "lists.parquet"
    named = ("--filters", "filters.toml", "--filter", "@cheap_tea", "--rules", "one.toml")
    assert cli("recommend", model, "--all", "-o", output, *named, *options).code == 0
    rules = Rules(limits={"kind": 2})
    expected = shop.recommend(shop.users.ids, filter=CHEAP_TEA, rules=rules).to_dicts()
    assert pq.read_table(tmp_path / output).to_pylist() == expected
    again = cli("recommend", model, "--all", "-o", output, "--filter", CHEAP_TEA, *options)
    if options:  # a folder of parts knows which request it holds
        assert "--no-resume" in again.refusal
    group = ListGroup(filters=tmp_path / "filters.toml", filter="@cheap_tea")
    assert str(group.query(shop).filter) == CHEAP_TEA


def test_similar_items_take_the_same_options(
    cli: CommandLine, model: Path, shop: Artifact, tmp_path: Path
) -> None:
    item, other = shop.items.ids[:2]
    (tmp_path / "sold_out.txt").write_text(f"{other}\nunknown\n")
    words = ("similar", model, "--item", item, "-k", 6, "--filter", "price < 30", "--json")
    outcome = cli(*words, "--deny", "sold_out.txt", "--rules", "one.toml")
    expected = shop.similar(
        item, 6, filter="price < 30", deny=[other], rules=Rules(limits={"kind": 2})
    )
    assert outcome.json == {"similar": expected.to_dicts()}
    assert len(expected) == 4
    assert outcome.err == "note: 1 of 2 items to deny are unknown to the model\n"
    cli("similar", model, "--item", item, "--filter", CHEAP_TEA, "-o", "near.csv")
    with (tmp_path / "near.csv").open(encoding="utf-8") as file:
        found = [row["similar_id"] for row in csv.DictReader(file)]
    assert found == shop.similar(item, filter=CHEAP_TEA).answer_ids.tolist()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--filter", "prise < 5"), ("where: --filter, character 1", "did you mean price?")),
        (("--filter", "price <"), ("where: --filter, character 8", "found: the end")),
        (("--filter", "@cheap"), ("a named filter that is not there",)),
        (("--filter", "@cheep", "--filters", "filters.toml"), ("did you mean cheap?",)),
        (("--filters", "bad.toml"), ("where: @few, character 1", "found: stock")),
        (("--filters", "none.toml"), ("where: none.toml",)),
        (("--rules", "rules.toml"), ("found: home, mail", "--rule-set with one of them")),
        (("--rules", "rules.toml", "--rule-set", "hom"), ("did you mean home?",)),
        (("--rule-set", "home"), ("none: there is no file of rules",)),
        (("--rules", "bad_rules.toml"), ("where: --rules bad_rules.toml, rules.limits",)),
        (("--diversity", "1.5"), ("found: 1.5", "a number from 0 to 1")),
    ],
)
@pytest.mark.parametrize("command", ["recommend", "similar"])
def test_what_the_model_cannot_answer_is_refused_before_anything_is_ranked(
    cli: CommandLine,
    model: Path,
    shop: Artifact,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    options: tuple[str, ...],
    told: tuple[str, ...],
) -> None:
    def ranked(scores: FloatMatrix, k: int) -> topk.TopK:
        raise AssertionError("something was ranked")

    (tmp_path / "bad.toml").write_text("[filters]\nfew = 'stock < 5'\n")
    (tmp_path / "bad_rules.toml").write_text("[home]\nlimits = {colour = 2}\n")
    monkeypatch.setattr(topk, "top_k", ranked)
    about = ("--all",) if command == "recommend" else ("--item", shop.items.ids[0])
    refusal = cli(command, model, *about, "-o", "lists.csv", *options).refusal
    assert all(words in refusal for words in told), refusal
    assert not list(tmp_path.glob("lists*"))
