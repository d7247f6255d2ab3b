"""Plausible mistakes: the command line, its exit code, and what the one line says about it.

A mistake ends with exit code 2 and one line in four parts; what only looks like one ends with 0.
"""

from __future__ import annotations

import shlex
import sqlite3
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ratiorec.api import fit
from ratiorec.data.interactions import Interactions
from support.command_line import CommandLine, in_a_process

ROWS = [
    f"u{user},i{item}"
    for user in range(30)
    for item in np.random.default_rng(user).choice(np.arange(user % 2, 20, 2), 6, replace=False)
]
FILES: dict[str, bytes] = {
    "log.csv": ("user,item\n" + "\n".join(ROWS) + "\n").encode(),
    "later.csv": b"user,item\nu0,i1\nu1,i0\nu2,i3\n",
    "empty.csv": b"",
    "header.csv": b"user,item\n",
    "one_column.csv": b"user\na\nb\n",
    "utf16.csv": "user,item\na,b\nc,d\n".encode("utf-16"),
    "latin1.csv": "user,item\nJosé,tea\nAda,jam\n".encode("latin-1"),
    "log.json": b'[{"user": "a", "item": "b"}]',
    "log.xlsx": b"PK\x03\x04",
    "german.csv": b"land,kunde,artikel\nDE,k1,a1\nFR,k2,a2\nDE,k1,a2\n",
    "one_user.csv": b"user,item\n" + b"".join(b"u,i%d\n" % item for item in range(9)),
    "one_item.csv": b"user,item\n" + b"".join(b"u%d,i\n" % user for user in range(9)),
    "one_each.csv": b"user,item\n" + b"".join(b"u%d,i%d\n" % (u, u % 7) for u in range(40)),
    "bad.toml": b"[training\n",
    "items.csv": b"sku,title,price\n"
    + b"".join(b"i%d,Item %d,%d\n" % (n, n, n) for n in range(20)),
    "nameless.csv": b"article number,price\ni1,2\n",
    "twice.csv": b"sku,price\ni1,2\ni2,3\ni1,4\n",
    "other_shop.csv": b"sku,price\ntea,2\njam,3\n",
}


class Mistake(NamedTuple):
    """A command line, its exit code, and parts of what it says."""

    words: str
    code: int
    told: tuple[str, ...]


MISTAKES = [
    # commands and options
    Mistake("fitt log.csv -o m", 2, ("No such command 'fitt'", "Did you mean 'fit'?")),
    Mistake("fit", 2, ("a missing argument", "no DATA")),
    Mistake("fit log.csv", 2, ("a missing option", "no --output")),
    Mistake("fit log.csv later.csv -o m", 2, ("unexpected extra argument", "later.csv")),
    Mistake("fit log.csv -o m --presett ease", 2, ("No such option: --presett", "--preset")),
    Mistake("fit log.csv -o m --preset eaze", 2, ("unknown preset", "did you mean ease?")),
    Mistake("fit log.csv -o m --max-seconds 0", 2, ("--max-seconds", "found: 0.0", "above 0")),
    Mistake("fit log.csv -o m --max-seconds soon", 2, ("--max-seconds", "'soon'", "number")),
    Mistake("fit log.csv -o m --validation 1.5", 2, ("--validation", "1.5", "below 1")),
    Mistake("fit log.csv -o m --device gpu", 2, ("no such device", "'gpu'", "auto, cpu")),
    Mistake("fit log.csv -o m --seed -1", 2, ("--seed", "'-1'", "0")),
    Mistake("fit log.csv -o m --preset ease --set l2", 2, ("--set", "NAME=VALUE")),
    Mistake("fit log.csv -o m --preset ease --set solver.lamda=3", 2, ("lamda", "one of l2")),
    Mistake("fit log.csv -o m --config none.toml", 2, ("no such settings file", "none.toml")),
    Mistake("fit log.csv -o m --config bad.toml", 2, ("bad.toml",)),
    Mistake("fit log.csv -o m --on-bad-rows ignore", 2, ("'ignore'", "stop, skip")),
    # data
    Mistake("fit none.csv -o m", 2, ("no data named none.csv", "no file, no folder")),
    Mistake("data fetch gowala", 2, ("no data named gowala", "did you mean gowalla?")),
    Mistake("fit empty.csv -o m", 2, ("the file is empty", "0 bytes")),
    Mistake("fit header.csv -o m", 2, ("there are no rows", "user, item")),
    Mistake("fit one_column.csv -o m", 2, ("one column only", "a user and an item")),
    Mistake("fit utf16.csv -o m", 2, ("not UTF-8", "UTF-16", "iconv")),
    Mistake("fit latin1.csv -o m", 2, ("not UTF-8", "line 2", "iconv")),
    Mistake("fit log.json -o m", 2, ("unknown file format", "'.json'", ".csv")),
    Mistake("fit log.xlsx -o m", 2, ("unknown file format", "'.xlsx'", ".csv")),
    Mistake("fit folder -o m", 2, ("no train.txt in the folder", "CSV, Parquet")),
    Mistake("fit german.csv -o m", 2, ("perhaps --user-column kunde --item-column artikel",)),
    Mistake("fit log.csv -o m --user-column usr", 2, ("no such user column", "did you mean user?")),
    Mistake("fit one_user.csv -o m --preset ease", 2, ("too few users", "at least 2 users")),
    Mistake("fit one_item.csv -o m --preset ease", 2, ("too few items", "at least 2 items")),
    Mistake(
        "fit one_each.csv -o m --preset ease",
        2,
        ("no pair is left for validation", "wanted: users with two items or more, or 0"),
    ),
    Mistake("fit one_each.csv -o kept --preset ease --validation 0", 0, ("model: kept",)),
    Mistake("fit log.csv -o log.csv", 2, ("left as it is", "found: a file")),
    Mistake("fit log.csv -o .", 2, ("left as it is", "found: other files")),
    Mistake("data split log.csv -o parts --by tme", 2, ("'tme'", "did you mean time?")),
    Mistake("data split log.csv -o parts --at 2026-05-01", 2, ("timestamp",)),
    # models
    Mistake("evaluate none --test later.csv", 2, ("there is no model", "no such folder")),
    Mistake("evaluate log.csv --test later.csv", 2, ("there is no model", "found: a file")),
    Mistake("recommend folder --user u1", 2, ("there is no model",)),
    Mistake("serve none", 2, ("there is no model", "no such folder")),
    Mistake("serve model --port 99999", 2, ("--port", "'99999'", "65535")),
    # evaluation
    Mistake("evaluate model", 2, ("evaluation needs held-out pairs", "--test, --data")),
    Mistake("evaluate model --test log.csv", 2, ("model's training pairs", "--allow-seen")),
    Mistake("evaluate model --data log.csv", 2, ("no test part", "--test FILE")),
    Mistake("evaluate model --test later.csv --k 0", 2, ("--k 5,10,20",)),
    Mistake("evaluate model --test later.csv --k five", 2, ("found: five", "--k 5,10,20")),
    Mistake("evaluate model --test later.csv -k 5,10", 0, ("recall@5", "recall@10")),
    Mistake("evaluate model --test later.csv --per-user x.xls", 2, (".xls", ".parquet, .csv")),
    Mistake("compare log.csv", 2, ("a missing option", "--presets")),
    Mistake("compare log.csv --presets ease,eaze", 2, ("unknown preset", "did you mean ease?")),
    # lists
    Mistake("recommend model", 2, ("recommendation needs users", "exactly one of them")),
    Mistake("recommend model u1", 2, ("unexpected extra argument", "u1")),
    Mistake("recommend model --user u1 --all", 2, ("found: 2 of them",)),
    Mistake("recommend model --user eve", 2, ("found: 'eve'", "--on-unknown fallback")),
    Mistake("recommend model --users none.txt", 2, ("no such file of ids", "none.txt")),
    Mistake("recommend model --user u1 -k 0", 2, ("k must be positive", "1 or more")),
    Mistake("recommend model --user u1 -k 5,10", 2, ("'5,10'", "integer")),
    Mistake("recommend model --user u1 -k 100000", 0, ("u1\n    1 ",)),
    Mistake("recommend model --user u1 --k 3", 0, ("\n    3 ",)),
    Mistake("recommend model --history 'i0, i2'", 0, ("    1 ",)),
    Mistake("recommend model --history ,", 2, ("a history is empty", "one item or more")),
    Mistake("recommend model --history i0,tea", 2, ("found: 'tea'", "--on-unknown skip")),
    Mistake("recommend model --user u1 -o lists.xlsx", 2, ("lists.xlsx", ".parquet or .csv")),
    Mistake("recommend model --user u1 -o none/lists.csv", 2, ("a folder that exists",)),
    Mistake("recommend model --user u1 --table t", 2, ("a table needs a database",)),
    Mistake("recommend model --all -o sqlite:///taken.db", 2, ("other columns", "--table")),
    Mistake("similar model --item tea", 2, ("'tea'", "one of the 20 known items)")),
    Mistake("similar model --user u1", 2, ("No such option: --user",)),
    # items
    Mistake("items model none.csv", 2, ("no such file", "none.csv", "a file with items")),
    Mistake("items model nameless.csv", 2, ("no column of item ids", "--id-column NAME")),
    Mistake("items model twice.csv", 2, ("there twice", "line 4", "'i1', as in line 2")),
    Mistake("items model other_shop.csv", 2, ("none of the model's items", "'tea', 'jam'", "i")),
    Mistake("items model items.csv --column-kind prise=number", 2, ("did you mean price?",)),
    Mistake("items none items.csv", 2, ("there is no model",)),
    Mistake("items model items.csv -o described", 0, ("20 known, 0 without pairs",)),
    Mistake("recommend described --user u1 --attributes prise", 2, ("did you mean price?",)),
    Mistake("recommend described --user u1 --attributes price", 0, ("[price ",)),
    Mistake("recommend model --user u1 --attributes price", 2, ("--attributes", "there is none")),
    Mistake("fit log.csv -o m --items none.csv", 2, ("no such file", "none.csv")),
    Mistake("fit log.csv -o m --items other_shop.csv", 2, ("none of the model's items",)),
    Mistake("fit log.csv -o m --items log.csv", 2, ("item id is there twice",)),
    # afterwards
    Mistake("update model none.csv", 2, ("no data named none.csv",)),
    Mistake("update none later.csv", 2, ("there is no model",)),
    Mistake("export model --to fais -o e", 2, ("'fais'", "'faiss'")),
    Mistake("export model --to numpy", 2, ("an export needs a folder", "-o FOLDER")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the mistakes are made, with a model in it."""
    place = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    (place / "folder").mkdir()
    users, items = zip(*(row.split(",") for row in ROWS), strict=True)
    fit(Interactions.from_pairs(users, items), preset="ease").save(place / "model")
    connection = sqlite3.connect(place / "taken.db")
    connection.execute("CREATE TABLE recommendations (colour TEXT)")
    connection.close()
    return place


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.words)
def test_a_mistake_is_told_with_what_would_be_right(
    cli: CommandLine, place: Path, mistake: Mistake
) -> None:
    cli.monkeypatch.chdir(place)
    outcome = cli(*shlex.split(mistake.words))
    assert outcome.code == mistake.code, outcome.err
    said = outcome.refusal if mistake.code else outcome.out
    for part in mistake.told:
        assert part in said
    assert mistake.code == 0 or not (place / "m").exists()


def test_a_module_is_the_command(place: Path) -> None:
    done = in_a_process("recommend", "model", "--user", "u1", "-k", 2, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("u1\n    1 ")


def test_there_are_forty_mistakes_and_more() -> None:
    assert sum(mistake.code == 2 for mistake in MISTAKES) >= 40
