from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers
from ratiorec.catalogue.tables import IdTable
from ratiorec.cli.query import QueryGroup
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules
from ratiorec.scorers import FloatMatrix, topk
from support.command_line import QUICK, CommandLine
from support.small_models import small_model


def test_lists_for_single_users_are_printed(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    user = trained.users.ids[0]
    outcome = cli("recommend", model, "--user", user, "-k", "3")
    assert (outcome.code, outcome.err) == (0, "")
    heading, *lines = outcome.out.splitlines()
    assert heading == user
    rows = trained.recommend([user], k=3).to_dicts()
    assert [line.split()[2] for line in lines] == [row["item_id"] for row in rows]
    assert [row["item_name"] in line for row, line in zip(rows, lines, strict=True)] == [True] * 3


def test_lists_as_json_are_the_rows_of_the_table(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    users = trained.users.ids[[5, 2]].tolist()
    outcome = cli("recommend", model, "--user", users[0], "--user", users[1], "-k", 4, "--json")
    assert outcome.err == ""
    assert outcome.json == {"recommendations": trained.recommend(users, k=4).to_dicts()}


def test_users_come_from_a_file(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    users = trained.users.ids[:7].tolist()
    (tmp_path / "users.txt").write_text("\n".join(users) + "\n\n", encoding="utf-8")
    found = cli("recommend", model, "--users", "users.txt", "-k", 2, "--json").json
    assert found["recommendations"] == trained.recommend(users, k=2).to_dicts()


def test_everyone_goes_to_parquet(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    outcome = cli("recommend", model, "--all", "-k", 5, "-o", "lists.parquet")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == "300 rows in lists.parquet\n"
    table = pq.read_table(tmp_path / "lists.parquet")
    assert table.to_pylist() == trained.recommend(trained.users.ids, k=5).to_dicts()
    assert table.num_rows == 60 * 5


def test_the_summary_of_a_file_is_json_too(cli: CommandLine, model: Path) -> None:
    found = cli("recommend", model, "--all", "-k", 5, "-o", "lists.parquet", "--json").json
    assert found == {"rows": 300, "users": 60, "file": "lists.parquet"}


def test_a_file_of_another_kind_is_refused(cli: CommandLine, model: Path, tmp_path: Path) -> None:
    outcome = cli("recommend", model, "--all", "-o", "lists.xlsx")
    assert "ends in .parquet or .csv" in outcome.refusal
    assert not (tmp_path / "lists.xlsx").exists()


def test_without_pyarrow_parquet_is_refused_before_ranking_and_csv_is_written(
    cli: CommandLine, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    refusal = cli("recommend", model, "--all", "-o", "lists.parquet").refusal
    assert "wanted: pip install 'ratiorec[arrow]'" in refusal
    assert cli("recommend", model, "--all", "-k", 2, "-o", "lists.csv").code == 0
    assert not list(tmp_path.glob("*.parquet"))


def test_lists_of_known_users_of_new_ones_and_of_items_are_written_as_csv(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    item = trained.items.ids[0]
    asked = {
        "all.csv": ("recommend", model, "--all", "-k", 5),
        "new.csv": ("recommend", model, "--history", item, "-k", 3),
        "similar.csv": ("similar", model, "--item", item, "-k", 4),
    }
    wanted = {
        "all.csv": trained.recommend(trained.users.ids, k=5).to_dicts(),
        "new.csv": trained.recommend_to([[item]], k=3).to_dicts(),
        "similar.csv": trained.similar([item], k=4).to_dicts(),
    }
    for name, words in asked.items():
        assert cli(*words, "-o", name).err == f"{len(wanted[name])} rows in {name}\n"
        with (tmp_path / name).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert rows[0].keys() == wanted[name][0].keys()
        for row, right in zip(rows, wanted[name], strict=True):
            assert float(row.pop("score")) == pytest.approx(right.pop("score"), rel=1e-6)
            assert row == {key: str(value) for key, value in right.items()}
    refused = cli("similar", model, "--item", item, "-o", "sqlite:///lists.db").refusal
    assert "similar items are written to a file" in refused


def test_items_may_be_allowed_and_denied(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    user, items = trained.users.ids[0], trained.items.ids
    (tmp_path / "allow.txt").write_text("\n".join(items[:20]))
    (tmp_path / "deny.txt").write_text("\n".join(items[10:]))
    found = cli(
        *("recommend", model, "--user", user, "--json"),
        *("--allow", "allow.txt", "--deny", "deny.txt", "--include-seen"),
    ).json
    assert {row["item_id"] for row in found["recommendations"]} == set(items[:10])


@pytest.mark.parametrize(("policy", "n_users"), [("skip", 1), ("fallback", 2)])
def test_an_unknown_user_may_be_skipped_or_given_what_is_popular(
    cli: CommandLine, model: Path, trained: Artifact, policy: str, n_users: int
) -> None:
    users = ("--user", trained.users.ids[0], "--user", "nobody")
    outcome = cli("recommend", model, *users, "--on-unknown", policy, "--json")
    assert len({row["user_id"] for row in outcome.json["recommendations"]}) == n_users


def test_nobody_left_is_an_empty_list(cli: CommandLine, model: Path) -> None:
    outcome = cli("recommend", model, "--user", "nobody", "--on-unknown", "skip", "--json")
    assert outcome.json == {"recommendations": []}


def test_a_list_is_as_long_as_the_catalogue_at_most(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    user, item = trained.users.ids[0], trained.items.ids[0]
    outcome = cli("recommend", model, "--user", user, "-k", 40, "--include-seen", "--json")
    rows = outcome.json["recommendations"]
    assert [row["rank"] for row in rows] == list(range(1, 41))
    longer = cli("recommend", model, "--user", user, "-k", 41, "--include-seen", "--json")
    assert longer.json["recommendations"] == rows
    near = cli("similar", model, "--item", item, "-k", 100_000, "--json").json["similar"]
    assert [row["rank"] for row in near] == list(range(1, 40))


def test_a_history_may_have_blanks_after_its_commas(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    first, second = trained.items.ids[:2]
    spaced = cli("recommend", model, "--history", f"{first}, {second} ,", "--json").json
    assert spaced == cli("recommend", model, "--history", f"{first},{second}", "--json").json


def test_who_gets_what_is_popular_is_said(cli: CommandLine, model: Path, trained: Artifact) -> None:
    both = ("--user", trained.users.ids[0], "--user", "eve", "--on-unknown", "fallback")
    told = "note: 1 of 2 users is unknown: the list is what most users have, the score how many"
    assert cli("recommend", model, *both, "--json").err.splitlines() == [told]
    assert cli("recommend", model, *both[:2], *both[4:], "--json").err == ""
    personal, _, popular = cli("recommend", model, *both, "-k", 2).out.partition("eve\n")
    assert "(fallback)" not in personal
    assert all(line.endswith("  (fallback)") for line in popular.splitlines())


def test_unknown_items_to_deny_are_counted_and_no_mistake(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    (tmp_path / "sold_out.txt").write_text(f"{trained.items.ids[0]}\nnothing\nnone\n")
    user = ("--user", trained.users.ids[0], "--include-seen", "-k", 40, "--json")
    outcome = cli("recommend", model, *user, "--deny", tmp_path / "sold_out.txt")
    assert outcome.err.splitlines() == ["note: 2 of 3 items to deny are unknown to the model"]
    listed = {row["item_id"] for row in outcome.json["recommendations"]}
    assert listed == set(trained.items.ids[1:])


def test_a_user_who_has_seen_everything_is_told_of(cli: CommandLine, tmp_path: Path) -> None:
    rows = [("all", item) for item in "abcd"] + [("few", "a"), ("few", "b"), ("one", "a")]
    (tmp_path / "pairs.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows))
    assert cli("fit", "pairs.csv", "-o", "m", *QUICK, "--validation", 0).code == 0
    for options in ((), ("--json",), ("-o", "alone.parquet")):
        refused = cli("recommend", "m", "--user", "all", *options)
        assert "no item is left to list" in refused.refusal
        assert refused.out == ""
    assert not (tmp_path / "alone.parquet").exists()
    outcome = cli("recommend", "m", "--user", "all", "--user", "few", "--json")
    assert outcome.code == 0
    assert {row["user_id"] for row in outcome.json["recommendations"]} == {"few"}
    assert outcome.err == "1 of 2 users have no item left to list\n"
    assert cli("recommend", "m", "--all", "-o", "lists.parquet").code == 0
    assert set(pq.read_table(tmp_path / "lists.parquet")["user_id"].to_pylist()) == {"few", "one"}


@pytest.mark.parametrize("options", [(), ("--json",), ("-o", "lists.parquet")])
def test_users_are_ranked_once(
    cli: CommandLine,
    model: Path,
    trained: Artifact,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    ranked: list[int] = []
    rank = topk.top_k

    def counted(scores: FloatMatrix, k: int) -> topk.TopK:
        ranked.append(len(scores))
        return rank(scores, k)

    monkeypatch.setattr(topk, "top_k", counted)
    users = ("--user", trained.users.ids[0], "--user", trained.users.ids[1])
    assert cli("recommend", model, *users, *options).code == 0
    assert sum(ranked) == 2


def test_every_option_of_a_query_is_an_option_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a\nb\n")
    (tmp_path / "filters.toml").write_text("[filters]\nfirst = 'id == \"b\"'\n")
    (tmp_path / "rules.toml").write_text('[home]\npins = {1 = "item1"}\n')
    ids, model = tmp_path / "ids.txt", small_model(n_items=10)
    group = QueryGroup(
        7,
        *(ids, ids, "@first", tmp_path / "filters.toml", tmp_path / "rules.toml", "home", 0.5),
        include_seen=True,
        on_unknown="skip",
        memory_mb=64,
    )
    rules = Rules(pins={1: "item1"}, diversity=0.5)
    assert group.query(model) == Query(
        7, False, ["a", "b"], ["a", "b"], "skip", 64, rules, 'id == "b"'
    )
    assert QueryGroup().query(small_model()) == Query()
    assert QueryGroup().query(model) == Query(k=10)


@pytest.mark.parametrize("options", [(), ("--user", "a", "--all"), ("--users", "f", "--user", "a")])
def test_users_are_named_in_exactly_one_way(
    cli: CommandLine, model: Path, options: tuple[str, ...]
) -> None:
    assert "recommendation needs users" in cli("recommend", model, *options).refusal


def test_similar_items_are_printed_and_given_as_json(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    item = trained.items.ids[3]
    rows = trained.similar([item], k=4).to_dicts()
    assert cli("similar", model, "--item", item, "-k", 4, "--json").json == {"similar": rows}
    printed = cli("similar", model, "--item", item, "-k", 4).out.splitlines()
    assert [line.split()[2] for line in printed] == [row["similar_id"] for row in rows]


STRANGE_USERS = ["Zoë, née «Ö»", '"quoted"', "O'Hara; x", "李 雷", "🙂\u2028line", "007", " a b "]


STRANGE_ITEMS = ["café, noir", 'the "best"', "ünï;cödé", "тест", "a'b", "#1", "x,y,z", "=2+3"]


def test_strange_ids_survive_the_whole_path(cli: CommandLine, tmp_path: Path) -> None:
    pairs = [(u, i) for n, u in enumerate(STRANGE_USERS) for i in STRANGE_ITEMS[n % 3 : n % 3 + 6]]
    with (tmp_path / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("user_id", "item_id"), *pairs])
    assert cli("data", "split", "pairs.csv", "-o", "parts", "--fraction", "0.2").code == 0
    assert cli("fit", "parts", "-o", "m", *QUICK, "--validation", "0").code == 0
    model = Artifact.load(tmp_path / "m")
    assert set(model.users.ids) == set(STRANGE_USERS)
    assert set(model.items.ids) == set(STRANGE_ITEMS)
    for user in STRANGE_USERS:
        rows = cli("recommend", "m", "--user", user, "--include-seen", "--json").json
        assert {row["user_id"] for row in rows["recommendations"]} == {user}
        assert {row["item_id"] for row in rows["recommendations"]} == set(STRANGE_ITEMS)
    (tmp_path / "users.txt").write_text("\n".join(STRANGE_USERS), encoding="utf-8")
    cli("recommend", "m", "--users", "users.txt", "--include-seen", "-o", "lists.parquet")
    table = pq.read_table(tmp_path / "lists.parquet")
    assert list(dict.fromkeys(table["user_id"].to_pylist())) == STRANGE_USERS
    for item in STRANGE_ITEMS:
        found = cli("similar", "m", "--item", item, "--json").json["similar"]
        assert {row["item_id"] for row in found} == {item}
    cli("evaluate", "m", "--data", "parts", "--per-user", "users.csv")
    with (tmp_path / "users.csv").open(newline="", encoding="utf-8") as file:
        assert {row["user_id"] for row in csv.DictReader(file)} <= set(STRANGE_USERS)


def test_histories_of_new_users_get_lists(cli: CommandLine, model: Path, trained: Artifact) -> None:
    items = trained.items.ids[:3].tolist()
    histories = ("--history", f"{items[0]},{items[1]}", "--history", items[2])
    rows = trained.recommend_to([items[:2], items[2:]], k=4).to_dicts()
    found = cli("recommend", model, *histories, "-k", 4, "--json").json
    assert found == {"recommendations": rows}
    printed = cli("recommend", model, *histories, "-k", 4).out.splitlines()
    assert [line.split()[2] for line in printed if len(line.split()) > 1] == [
        row["item_id"] for row in rows
    ]


def test_lists_of_new_users_are_written_to_a_file(
    cli: CommandLine, model: Path, trained: Artifact, tmp_path: Path
) -> None:
    item = trained.items.ids[0]
    outcome = cli("recommend", model, "--history", item, "-k", 3, "-o", "new.parquet")
    assert outcome.err == "3 rows in new.parquet\n"
    rows = trained.recommend_to([[item]], k=3).to_dicts()
    assert pq.read_table(tmp_path / "new.parquet").to_pylist() == rows
    refused = cli("recommend", model, "--history", item, "-o", "sqlite:///new.db")
    assert "ends in .parquet or .csv" in refused.refusal


def test_an_unknown_item_of_a_history_is_refused_or_left_out(
    cli: CommandLine, model: Path, trained: Artifact
) -> None:
    item = trained.items.ids[0]
    assert "unknown item" in cli("recommend", model, "--history", f"{item},nothing").refusal
    skipped = cli("recommend", model, "--history", f"{item},x", "--on-unknown", "skip", "--json")
    assert skipped.json == cli("recommend", model, "--history", item, "--json").json
    assert (
        "recommendation needs users" in cli("recommend", model, "--history", item, "--all").refusal
    )


def test_cold_items_are_capped(cli: CommandLine, trained: Artifact, tmp_path: Path) -> None:
    numbers = Attributes(len(trained.items), {"n": Numbers(np.arange(len(trained.items)) + 0.0)})
    cold = Attributes(6, {"n": Numbers(np.arange(6.0))})
    table = IdTable(np.array([f"new{place}" for place in range(6)], object), None, cold)
    trained.with_items(numbers).with_cold_items(table).save(tmp_path / "m")
    user = str(trained.users.ids[0])
    for most, wanted in ((0, 0), (2, 2), (6, 6)):
        words = ("--user", user, "-k", 46, "--max-cold", most, "--json")
        rows = cli("recommend", tmp_path / "m", *words).json["recommendations"]
        assert sum(row["kind"] == "cold" for row in rows) == wanted
    assert "--max-cold" in cli("recommend", tmp_path / "m", "--user", user, "--max-cold=-1").err


def test_users_of_a_table_without_pairs_are_told(
    cli: CommandLine, trained: Artifact, tmp_path: Path
) -> None:
    ages = Attributes(len(trained.users), {"age": Numbers(np.arange(len(trained.users)) + 0.0)})
    new = IdTable(np.array(["zoe"], object), None, Attributes(1, {"age": Numbers(np.array([3.0]))}))
    trained.with_users(ages).with_new_users(new).save(tmp_path / "m")
    words = ("--user", "zoe", "--user", "nobody", "--on-unknown", "fallback", "-k", 2)
    said = cli("recommend", tmp_path / "m", *words).err
    assert "note: 1 of 2 users have lists by their attributes alone" in said
    assert "note: 1 of 2 users is unknown" in said
