"""What a command says of the files that it reads, in the spelling of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.model.artifact import Artifact
from support.command_line import QUICK, CommandLine

BAD = "user,item,weight\nann,x,1\nbob,,2\nbob,y,much\nann,y,1\n"


def test_every_command_that_reads_says_what_it_took(
    cli: CommandLine, tmp_path: Path, clicks: Path
) -> None:
    said = f"read {clicks}: user = 'user_id', item = 'item_id'; "
    assert said in cli("data", "describe", clicks).err
    assert said in cli("data", "split", clicks, "-o", "parts").err
    outcome = cli("fit", clicks, "-o", "model", *QUICK, "--json")
    assert said in outcome.err
    assert outcome.json["model"] == "model"
    assert said in cli("update", "model", clicks).err


def test_describe_holds_the_report_in_its_json(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("sku,customer,qty\nx,ann,1\nx,ann,2\ny,bob,1\n")
    reading = cli("data", "describe", "x.csv", "--json").json["reading"]
    assert reading["columns"] == {"user": "customer", "item": "sku", "weight": "qty"}
    assert (reading["n_rows"], reading["n_repeats"], reading["n_dropped"]) == (3, 1, 0)
    assert cli("data", "describe", "synthetic", "--json").json["reading"] is None


def test_an_unknown_header_is_refused_with_the_flags_that_would_be_right(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = "".join(f"DE,K{n % 7},A-{n % 5}\n" for n in range(40))
    (tmp_path / "x.csv").write_text(f"land,kunde nr,artikel\n{rows}")
    refusal = cli("fit", "x.csv", "-o", "model", *QUICK).refusal
    assert "'land', 'kunde nr', 'artikel'" in refusal
    assert "--user-column 'kunde nr' --item-column artikel" in refusal
    assert "--no-header" in refusal
    assert "header=" not in refusal
    assert "Columns(" not in refusal
    named = ("--user-column", "kunde nr", "--item-column", "artikel")
    assert cli("data", "describe", "x.csv", *named, "--json").json["n_users"] == 7


def test_a_misspelt_column_is_refused_with_the_nearest_one_and_flags(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("customer,sku\nann,x\n")
    refusal = cli("data", "describe", "x.csv", "--user-column", "custmer").refusal
    assert "did you mean customer?" in refusal
    assert "--no-header" in refusal
    assert "header=False" not in refusal


def test_bad_rows_stop_or_are_skipped_and_written(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(BAD)
    refusal = cli("data", "describe", "x.csv").refusal
    assert "2 of 4 rows cannot be used" in refusal
    assert "line 3: missing item id, '' in 'bob,,2'; line 4: a weight cannot be read" in refusal
    assert "--on-bad-rows skip" in refusal
    skipped = cli("data", "describe", "x.csv", "--on-bad-rows", "skip", "--json")
    assert skipped.json["n_pairs"] == 2
    assert skipped.json["reading"]["n_dropped"] == 2
    assert "4 rows, 2 dropped" in skipped.err
    assert "--bad-rows-file FILE" in skipped.err
    where = ("--on-bad-rows", "skip", "--bad-rows-file", "bad.tsv")
    assert "--bad-rows-file" not in cli("data", "describe", "x.csv", *where).err
    assert (tmp_path / "bad.tsv").read_text().count("\n") == 2
    assert (
        "where: --on-bad-rows; found: 'hide'"
        in cli("data", "describe", "x.csv", "--on-bad-rows", "hide").refusal
    )


def test_a_command_does_not_mind_columns_that_it_does_not_use(
    cli: CommandLine, tmp_path: Path, model: Path, trained: Artifact
) -> None:
    user, item = trained.users.ids[0], trained.items.ids[1]
    (tmp_path / "new.csv").write_text(f"user,item,rating,date\n{user},{item},much,never\n")
    assert cli("update", model, "new.csv").code == 0
    assert "cannot be read" in cli("data", "describe", "new.csv").refusal


@pytest.mark.parametrize("known", ["{}.0", "{}"])
def test_an_update_knows_users_in_either_form_of_a_number(
    cli: CommandLine, tmp_path: Path, known: str
) -> None:
    other = "{}" if known == "{}.0" else "{}.0"
    pairs = [(user, item) for user in range(1, 13) for item in range(8) if (user + item) % 3]
    for name, form in (("old.csv", known), ("new.csv", other)):
        rows = "".join(f"{form.format(user)},i{item}\n" for user, item in pairs)
        (tmp_path / name).write_text(f"user,item\n{rows}")
    assert cli("fit", "old.csv", "-o", "m", "--preset", "popularity", "--json").code == 0
    found = cli("update", "m", "new.csv", "--json").json
    assert (found["pairs"], found["users"], found["items"]) == (0, 0, 0)


def test_old_models_with_float_text_for_ids_know_whole_numbers(tmp_path: Path) -> None:
    old = Interactions.from_pairs(["3.0", "ann"], ["x", "y"])
    new = Interactions.from_pairs([3], ["x"])
    assert new.aligned_to(old.users, old.items).n_pairs == 1


def test_parts_standard_input_and_queries_are_data(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for part in range(3):
        (tmp_path / "log" / f"{part}.csv").write_text(f"user,item\nu{part},x\nu{part},y\n")
    for data in ("log", "log/*.csv"):
        assert cli("data", "describe", data, "--json").json["n_users"] == 3
    query = ("--sql", "SELECT * FROM 'log/*.csv' WHERE item = 'x'")
    found = cli("data", "describe", ":memory:", *query, "--json").json
    assert (found["n_pairs"], found["reading"]["source"]) == (3, "the query")
    piped = subprocess.run(
        [sys.executable, "-m", "ratiorec.cli", "data", "describe", "-", "--json"],
        input="user;item\na;x\nb;y\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"n_pairs": 2' in piped.stdout
    assert "read standard input: user = 'user'" in piped.stderr
