"""ratiorec items, and the tables of items and users that fit takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.model.artifact import Artifact
from ratiorec.serve.models import ModelInUse
from support.command_line import QUICK, CommandLine, everything_in

KINDS = {"category": "category", "price": "number", "labels": "tags", "about": "text"}


def write_items(path: Path, *, raised: float = 0) -> Path:
    """Rows for item-000 to item-038 of forty, and one of an item that is in no log."""
    lines = ["id,title,category,price,labels,about"]
    for n in range(39):
        price = "" if n % 7 == 3 else f"{n / 4 + raised}"
        about = f"the {n}th of many things of which each is another"
        lines.append(f"item-{n:03d},Thing {n},{'tea' if n % 2 else 'jam'},{price},new|fair,{about}")
    lines.append("later,Later,tea,1,new,soon to come")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_items(tmp_path / "items.csv")


@pytest.fixture
def segments(tmp_path: Path, trained: Artifact) -> Path:
    rows = [
        f"{user},{'gold' if place % 2 else 'new'}" for place, user in enumerate(trained.users.ids)
    ]
    path = tmp_path / "users.csv"
    path.write_text("\n".join(["customer,segment", *rows[:50]]) + "\n", encoding="utf-8")
    return path


COUNTS = {"known": 39, "unknown": 1, "missing": 1, "columns": KINDS}


def test_a_table_takes_its_place_in_a_model(
    cli: CommandLine, model: Path, table: Path, segments: Path, trained: Artifact
) -> None:
    outcome = cli("items", model, table, "--users", segments)
    assert outcome.code == 0
    assert outcome.err.splitlines()[:2] == [
        f"read {table}: item = 'id', title = 'title'; 40 rows",
        "columns: category (category), price (number, 6 missing), labels (tags), about (text)",
    ]
    lines = outcome.out.splitlines()
    assert lines[0] == "items: 39 known, 1 without pairs, 1 of the model without a row"
    assert lines[2].split() == ["category", "category", "1", "jam,", "tea"]
    assert "users: 50 known, 0 without pairs, 10 of the model without a row" in lines
    assert lines[-1] == f"model: {model}"
    after = Artifact.load(model)
    assert after.items.names is not None
    place = after.items.indices(["item-004"])[0]
    assert after.items.names[place] == "Thing 4"
    row = {"category": "jam", "price": 1, "labels": ["fair", "new"]}
    assert after.item_table.row(place) | row == after.item_table.row(place)
    assert after.user_table.row(1) == {"segment": "gold"}
    vectors = after.scorer.arrays()["items"][: len(trained.items)]
    assert (vectors == trained.scorer.arrays()["items"]).all()
    assert cli("items", model).out.splitlines()[0] == "41 items, with titles, 1 without pairs"


def test_json_has_the_counts_and_whether_anything_changed(
    cli: CommandLine, model: Path, table: Path, segments: Path
) -> None:
    first = cli("items", model, table, "--json").json
    assert first.pop("seconds") >= 0
    assert first == {"model": str(model), "changed": True, "items": COUNTS}
    untouched = everything_in(model)
    assert cli("items", model, table, "--json").json["changed"] is False
    assert "no change" in cli("items", model, table).out
    assert everything_in(model) == untouched
    found = cli("items", model, "--users", segments, "--json").json
    assert found["users"]["columns"] == {"segment": "category"}
    shown = cli("items", model, "--json").json
    assert shown["items"] == {"columns": KINDS}
    assert shown["users"] == {"columns": {"segment": "category"}}


def test_another_folder_may_be_written_and_the_model_stays(
    cli: CommandLine, model: Path, table: Path
) -> None:
    untouched = everything_in(model)
    assert cli("items", model, table, "-o", "described").code == 0
    assert everything_in(model) == untouched
    assert Artifact.load("described").item_table.kinds == KINDS
    assert "nothing to write" in cli("items", model, "-o", "other").refusal


def test_a_server_goes_on_with_the_new_table(cli: CommandLine, model: Path, table: Path) -> None:
    served = ModelInUse(model)
    cli("items", model, table)
    assert served.has_changed()
    assert served.reload()
    assert served.current.artifact.item_table.kinds == KINDS
    before = served.current.version
    cli("items", model, table)
    assert not served.has_changed()
    cli("items", model, write_items(table, raised=1))
    assert served.reload()
    assert served.current.version != before


def test_a_table_survives_an_update_and_new_items_are_without_attributes(
    cli: CommandLine, model: Path, table: Path, tmp_path: Path
) -> None:
    cli("items", model, table)
    before = Artifact.load(model)
    (tmp_path / "today.csv").write_text(
        "user_id,item_id\nzoe,jam\nzoe,item-001\n", encoding="utf-8"
    )
    assert cli("update", model, "today.csv").code == 0
    after = Artifact.load(model)
    jam = int(after.items.indices(["jam"])[0])
    assert not after.cold_items[jam]
    assert after.item_table.row(jam)["category"] is None
    places = after.items.indices(before.items.ids)
    assert after.item_table.rows(places) == before.item_table.rows(range(len(before.items)))


def test_a_model_that_was_replaced_meanwhile_keeps_what_came(
    cli: CommandLine, model: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Artifact.load(model).update(Interactions.from_pairs(["Yan"], ["item-003"]))
    attach, written = Artifact.with_items, list[int]()

    def slow(self: Artifact, *given: Any) -> Artifact:
        if not written:  # somebody who asks for no lock writes while the table is aligned
            written.append(1)
            other.save(model)
        return attach(self, *given)

    monkeypatch.setattr(Artifact, "with_items", slow)
    outcome = cli("items", model, table)
    assert outcome.code == 0
    assert "the model was replaced meanwhile" in outcome.err
    after = Artifact.load(model)
    assert "Yan" in after.users.ids.tolist()
    assert after.item_table.kinds == KINDS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--id-column", "sku"), ("no such column", "--id-column", "one of id, title")),
        (("--column-kind", "price"), ("--column-kind", "'price'", "price=number")),
        (("--column-kind", "price=nmber"), ("--column-kind", "did you mean number?")),
        (("--column-kind", "category=number"), ("40 of 40 rows", "35 more", "--on-bad-rows skip")),
        (("--id-column", "title"), ("none of the model's items", "'Thing 0'", "--id-column")),
        (("--users", "who.csv"), ("no column of user ids", "--user-id-column NAME")),
        (("--users", "items.csv", "--user-id-column", "id"), ("none of the model's users",)),
    ],
)
def test_what_cannot_be_is_told_and_the_model_stays(
    cli: CommandLine, model: Path, table: Path, words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    untouched = everything_in(model)
    Path("who.csv").write_text("who,segment\nann,gold\n", encoding="utf-8")
    refusal = cli("items", model, table, *words).refusal
    for part in told:
        assert part in refusal
    assert everything_in(model) == untouched


def test_bad_rows_are_left_out_where_that_is_asked_for(
    cli: CommandLine, model: Path, table: Path
) -> None:
    with table.open("a", encoding="utf-8") as file:
        file.write("item-001,Again,tea,1,,\n")
    assert "twice" in cli("items", model, table).refusal
    found = cli("items", model, table, "--on-bad-rows", "skip", "--json")
    assert found.json["items"] == COUNTS
    assert "41 rows, 1 dropped" in found.err


def test_fit_takes_tables_and_says_what_became_of_them(
    cli: CommandLine, clicks: Path, table: Path, segments: Path
) -> None:
    words = ("fit", clicks, "-o", "m", *QUICK, "--items", table, "--users", segments)
    outcome = cli(*words, "--json")
    assert outcome.json["items"]["columns"] == KINDS
    assert outcome.json["users"] == {
        "known": 50,
        "unknown": 0,
        "missing": 10,
        "columns": {"segment": "category"},
    }
    assert "items: 39 known" in outcome.err
    assert f"read {table}: item = 'id'" in outcome.err
    model = Artifact.load("m")
    assert model.item_table.kinds == KINDS
    assert model.items.names is not None
    assert model.user_table.kinds == {"segment": "category"}
    assert "items" not in cli("fit", clicks, "-o", "m", *QUICK, "--json").json


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--items", "none.csv"), "no such file"),
        (("--items", "items.csv", "--id-column", "title"), "none of the model's items"),
        (("--users", "items.csv", "--user-id-column", "id"), "none of the model's users"),
        (("--items", "items.csv", "--column-kind", "title=number"), "no such column"),
    ],
)
def test_a_bad_table_is_refused_before_training(
    cli: CommandLine,
    clicks: Path,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.setattr("ratiorec.training.experiment.fit", None)  # it must not come so far
    assert told in cli("fit", clicks, "-o", "m", *words).refusal
    assert not Path("m").exists()


def test_lists_have_the_attributes_that_are_asked_for(
    cli: CommandLine, model: Path, table: Path, trained: Artifact
) -> None:
    cli("items", model, table)
    user = trained.users.ids[0]
    wanted = Artifact.load(model).recommend(user, 3, attributes=["price", "labels"]).to_dicts()
    words = ("recommend", model, "--user", user, "-k", 3, "--attributes", "price, labels")
    assert cli(*words, "--json").json["recommendations"] == wanted
    for line, row in zip(cli(*words).out.splitlines()[1:], wanted, strict=True):
        price = row["attributes"]["price"]
        shown = "" if price is None else f"price {price}, "
        assert line.endswith(f"{row['item_name']}  [{shown}labels fair|new]")
    history = cli(
        "recommend", model, "--history", "item-001", "-k", 3, "--attributes", "all", "--json"
    )
    assert set(history.json["recommendations"][0]["attributes"]) == set(KINDS)
    similar = cli("similar", model, "--item", "item-001", "-k", 3, "--attributes", "category")
    assert all("[category " in line for line in similar.out.splitlines())
    cli("recommend", model, "--all", "-k", 3, "--attributes", "all", "-o", "lists.parquet")
    assert set(KINDS) < set(pq.read_schema("lists.parquet").names)
    refusal = cli(*words[:-1], "prise").refusal
    assert "--attributes" in refusal
    assert "did you mean price?" in refusal


def test_a_table_comes_from_standard_input_and_needs_neither_torch_nor_pyarrow(
    model: Path, table: Path
) -> None:
    code = (
        "import sys; from ratiorec.cli.app import main\n"
        "try: main()\n"
        "finally: print(sorted({'torch', 'pyarrow'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "items", str(model), "-", "--json"]
    done = subprocess.run(command, input=table.read_bytes(), capture_output=True, check=True)
    assert json.loads(done.stdout)["items"] == COUNTS
    assert done.stderr.decode().splitlines()[-1] == "[]"
