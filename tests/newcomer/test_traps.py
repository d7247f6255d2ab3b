"""What a newcomer fell into without a word, each as a test; weights are in tests/contracts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.command_line import QUICK, CommandLine
from support.shop_log import shop_rows, write_shop_log


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def blocks(path: Path, *, seed: int = 0, n_users: int = 30) -> Path:
    """Users of even number have even items, the others odd ones."""
    rng = np.random.default_rng(seed)
    rows = [
        f"u{user},i{item}"
        for user in range(n_users)
        for item in rng.choice(np.arange(user % 2, 20, 2), 6, replace=False)
    ]
    return write(path, "user,item", rows)


# --- T2: a header with no familiar name is no purchase ---------------------------------------


@pytest.mark.parametrize(
    ("header", "guess"),
    [
        ("land,kunde,artikel", "--user-column kunde --item-column artikel"),
        ("cust_no,article_no", "--user-column cust_no --item-column article_no"),
    ],
)
def test_an_unknown_header_of_text_is_refused_with_a_guess(
    cli: CommandLine, tmp_path: Path, header: str, guess: str
) -> None:
    n_columns = header.count(",") + 1
    rows = [",".join(["DE", f"k{row % 9}", f"a{row % 7}"][-n_columns:]) for row in range(40)]
    write(tmp_path / "log.csv", header, rows)
    for command in (("data", "describe", "log.csv"), ("fit", "log.csv", "-o", "m")):
        assert guess in cli(*command).refusal
    found = cli("data", "describe", "log.csv", *guess.split(), "--json").json
    assert (found["n_users"], found["n_items"]) == (9, 7)


# --- T3: evaluation tells what cannot be hit -------------------------------------------------


@pytest.fixture
def split(cli: CommandLine, tmp_path: Path) -> Path:
    """A model of one part of a log, one of all of it, and the other part."""
    lines = blocks(tmp_path / "all.csv").read_text().splitlines()[1:]
    write(tmp_path / "train.csv", "user,item", [row for n, row in enumerate(lines) if n % 6])
    write(tmp_path / "test.csv", "user,item", lines[::6])
    for part in ("train", "all"):
        assert cli("fit", f"{part}.csv", "-o", part, "--preset", "ease").code == 0
    return tmp_path


@pytest.mark.usefixtures("split")
def test_the_training_file_is_no_test(cli: CommandLine) -> None:
    refusal = cli("evaluate", "all", "--test", "all.csv").refusal
    assert "the test pairs are the model's training pairs" in refusal
    assert "ratiorec data split" in refusal


@pytest.mark.usefixtures("split")
def test_a_rival_that_saw_the_test_pairs_is_refused(cli: CommandLine) -> None:
    refusal = cli("evaluate", "train", "--test", "test.csv", "--against", "all").refusal
    assert "trained on test pairs that the other has not seen" in refusal


def test_seen_test_pairs_are_counted_and_figures_without_them_stand_beside(
    cli: CommandLine, split: Path
) -> None:
    train, test = ((split / f"{part}.csv").read_text().splitlines()[1:] for part in FILES)
    write(split / "mixed.csv", "user,item", [*test, *train[:20]])
    outcome = cli("evaluate", "train", "--test", "mixed.csv", "--k", 3, "--json")
    assert outcome.json["pairs"]["seen"] == 20
    assert f"note: 20 of {len(test) + 20} test pairs are training pairs" in outcome.err
    alone = cli("evaluate", "train", "--test", "test.csv", "--k", 3, "--json").json
    reachable = outcome.json["of_reachable"]["metrics"]["recall@3"]["value"]
    assert reachable == alone["metrics"]["recall@3"]["value"]
    assert outcome.json["metrics"]["recall@3"]["value"] < reachable


FILES = ("train", "test")


# --- T4: a split by time takes nothing out of the past ---------------------------------------


def test_a_purchase_that_is_repeated_after_the_cut_stays_in_the_past(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = [f"u{u},i{(u + n) % 9},2026-0{1 + n}-10" for u in range(12) for n in range(4)]
    again = [f"again,i0,2026-{day}" for day in ("01-01", "06-30", "10-15")]
    rows += [*again, "again,i1,2026-02-01", "again,i8,2026-10-20"]
    write(tmp_path / "log.csv", "user,item,time", rows)
    outcome = cli("data", "split", "log.csv", "-o", "parts", "--at", "2026-09-01")
    assert outcome.code == 0
    train, test = (last_row(tmp_path / "parts" / f"{part}.txt") for part in FILES)
    ids = dict(line.split() for line in (tmp_path / "parts/item_list.txt").read_text().splitlines())
    assert train[1:] == [ids["i0"], ids["i1"]]
    assert test[1:] == [ids["i8"]]
    assert "12 users have no pair after the cut" in outcome.out + outcome.err
    assert "too few pairs" not in outcome.out + outcome.err


def last_row(path: Path) -> list[str]:
    return path.read_text().splitlines()[-1].split()


# --- T5: 3 and 3.0 are one user --------------------------------------------------------------


def test_ids_that_pandas_made_floats_are_the_same_users(cli: CommandLine, tmp_path: Path) -> None:
    rows = [(user, user * n % 11) for user in range(20) for n in range(1, 6)]
    write(tmp_path / "floats.csv", "user,item", [f"{user}.0,{item}" for user, item in rows])
    write(tmp_path / "whole.csv", "user,item", [f"{user},{item}" for user, item in rows])
    assert cli("fit", "floats.csv", "-o", "m", "--preset", "ease").code == 0
    found = cli("update", "m", "whole.csv", "--json").json
    assert (found["pairs"], found["users"], found["items"]) == (0, 0, 0)
    lists = [cli("recommend", "m", "--user", user, "--json").json for user in ("3", "3.0")]
    assert lists[0] == lists[1]


# --- T6: a tiny budget is told ---------------------------------------------------------------


@pytest.mark.parametrize("options", [QUICK, ("--device", "cpu")], ids=["dregn-cf", "auto"])
def test_a_budget_that_is_too_short_is_told(
    cli: CommandLine, tmp_path: Path, options: tuple[str, ...]
) -> None:
    blocks(tmp_path / "log.csv")
    outcome = cli("fit", "log.csv", "-o", "m", *options, "--max-seconds", "1e-6")
    assert outcome.code == 0
    assert re.search(r"^warning: --max-seconds 1e-06 .* is kept", outcome.err, re.MULTILINE)


# --- found by the walk of test_first_hour ----------------------------------------------------


def test_a_bad_date_in_a_long_log_is_told(tmp_path: Path) -> None:
    rows = [*shop_rows(), ("not-a-date", "1", "SKU00003-TAPE", "FR", "C00003")]
    write_shop_log(tmp_path / "log.csv", rows)
    done = subprocess.run(  # a process of its own: it may take the interpreter with it
        [sys.executable, "-m", "ratiorec", "data", "describe", "log.csv", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "a timestamp cannot be read" in done.stderr


def test_a_bad_date_in_a_short_log_is_told(cli: CommandLine, tmp_path: Path) -> None:
    rows = [*shop_rows(10)[:200], ("not-a-date", "1", "SKU00003-TAPE", "FR", "C00003")]
    write_shop_log(tmp_path / "log.csv", rows)
    refusal = cli("data", "describe", "log.csv").refusal
    assert f"line {len(rows) + 1}" in refusal
    assert "'not-a-date'" in refusal
    told = cli("data", "describe", "log.csv", "--on-bad-rows", "skip", "--json")
    assert json.loads(told.out)["n_users"] == len({row[4] for row in rows[:-1]})
