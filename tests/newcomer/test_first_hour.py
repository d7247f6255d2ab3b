"""The first hour with a shop's log, as real processes: from a messy CSV to a list over HTTP."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.shop_log import BAD_ROWS, KINDS, shop_rows, write_shop_log

COMMAND = (sys.executable, "-m", "ratiorec")
COLUMNS = "user = 'customer', item = 'sku', weight = 'qty', timestamp = 'event_time'"


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, (done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log up to a day in May with bad rows in it, and what came later."""
    folder, rows = tmp_path_factory.mktemp("shop"), shop_rows()
    cut = rows[len(rows) * 17 // 20][0]
    write_shop_log(folder / "log.csv", [row for row in rows if row[0] < cut], bad=True)
    write_shop_log(folder / "later.csv", [row for row in rows if row[0] >= cut])
    return folder


@pytest.fixture(scope="module")
def fitted(folder: Path) -> subprocess.CompletedProcess[str]:
    words = ("-o", "model", "--max-seconds", "5", "--on-bad-rows", "skip", "--json")
    return run(folder, "fit", "log.csv", *words)


def bought(folder: Path, customer: str) -> set[str]:
    lines = (folder / "log.csv").read_text().splitlines()
    return {line.split(",")[2] for line in lines if line.endswith(f",{customer}")}


def kinds_of(customer: str) -> set[str]:
    """The two kinds of goods that a customer buys."""
    kind = int(customer[1:]) % 4
    return {KINDS[kind], KINDS[kind ^ 1]}


def test_all_bad_rows_are_told_in_one_run(folder: Path) -> None:
    refusal = run(folder, "data", "describe", "log.csv", code=2).stderr
    assert refusal.startswith(f"ratiorec: {len(BAD_ROWS)} of ")
    for line in (102, 202, 302, 402, 502):
        assert f"line {line}: " in refusal
    assert "--on-bad-rows skip" in refusal


def test_describe_says_what_it_took_for_what(folder: Path) -> None:
    skip = ("--on-bad-rows", "skip", "--bad-rows-file", "bad.txt", "--json")
    done = run(folder, "data", "describe", "log.csv", *skip)
    n_rows = len((folder / "log.csv").read_text().splitlines()) - 1
    assert f"read log.csv: {COLUMNS}; {n_rows:,} rows, " in done.stderr
    assert ", 5 dropped; 2026-01-01 " in done.stderr
    assert len((folder / "bad.txt").read_text().splitlines()) == len(BAD_ROWS)
    found = json.loads(done.stdout)
    pairs = {tuple(line.split(",")[2::2]) for line in good_lines(folder)}
    assert (found["n_users"], found["n_items"], found["n_pairs"]) == (240, 80, len(pairs))


def good_lines(folder: Path) -> list[str]:
    bad = {",".join(row) for row in BAD_ROWS.values()}
    lines = (folder / "log.csv").read_text().splitlines()[1:]
    return [line for line in lines if line not in bad]


def test_fit_chooses_within_its_budget_and_says_how(
    fitted: subprocess.CompletedProcess[str],
) -> None:
    found = json.loads(fitted.stdout)
    assert found["preset"] == "auto"
    assert COLUMNS in fitted.stderr
    assert sum(member["weight"] for member in found["members"]) == pytest.approx(1)
    assert {"popularity", "ease", "item-knn"} <= {member["name"] for member in found["members"]}
    popularity = next(one for one in found["members"] if one["name"] == "popularity")
    assert found["validation"]["ndcg@20"] > 2 * popularity["validation"]["ndcg@20"]


@pytest.mark.usefixtures("fitted")
def test_evaluate_gives_the_figures_of_all_and_of_reachable_pairs(folder: Path) -> None:
    done = run(folder, "evaluate", "model", "--test", "later.csv", "-k", "5,20", "--json")
    found = json.loads(done.stdout)
    recall, reachable = (part["metrics"]["recall@20"] for part in (found, found["of_reachable"]))
    assert 0 < recall["low"] < recall["value"] < recall["high"] < 1
    assert recall["value"] < reachable["value"]
    assert found["metrics"]["recall@5"]["value"] < recall["value"]
    n_seen = found["pairs"]["seen"]
    assert n_seen > 0
    assert f"note: {n_seen:,} of " in done.stderr


@pytest.mark.usefixtures("fitted")
def test_recommend_lists_new_goods_of_the_kinds_a_customer_buys(folder: Path) -> None:
    words = ("--user", "C00000", "--user", "C00007", "-k", "5", "--json")
    rows = json.loads(run(folder, "recommend", "model", *words).stdout)["recommendations"]
    assert [row["rank"] for row in rows] == [*range(1, 6)] * 2
    for row in rows:
        assert row["item_id"] not in bought(folder, row["user_id"])
    right = [row["item_id"].split("-")[1] in kinds_of(row["user_id"]) for row in rows]
    assert sum(right) >= 8


@pytest.mark.usefixtures("fitted")
def test_lists_for_everyone_are_a_csv_file(folder: Path) -> None:
    done = run(folder, "recommend", "model", "--all", "-k", "3", "-o", "lists.csv")
    assert "720 rows in lists.csv" in done.stderr
    header, *lines = (folder / "lists.csv").read_text().splitlines()
    assert header == "user_id,item_id,score,rank,kind"
    assert len(lines) == 720


@pytest.fixture(scope="module")
def address(folder: Path, fitted: subprocess.CompletedProcess[str]) -> Iterator[str]:
    """The address that `serve` prints; in the end it is asked politely to stop."""
    command = [*COMMAND, "serve", "model", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", line)
            yield line
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
    # Windows has no polite end of a process
    assert process.returncode == (1 if sys.platform == "win32" else 0)


def ask(url: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_server_gives_the_list_of_the_command(folder: Path, address: str) -> None:
    words = ("--user", "C00003", "-k", "4", "--json")
    told = json.loads(run(folder, "recommend", "model", *words).stdout)["recommendations"]
    status, answer = ask(f"{address}/v1/recommend/C00003?k=4")
    assert (status, answer["user_id"]) == (200, "C00003")
    assert [row["item_id"] for row in answer["items"]] == [row["item_id"] for row in told]
    assert "fallback" not in answer


def test_the_server_marks_lists_that_are_not_personal(address: str) -> None:
    assert ask(f"{address}/v1/recommend/nobody")[0] == 404
    status, answer = ask(f"{address}/v1/recommend/nobody?on_unknown=fallback&k=2")
    assert (status, answer["fallback"], len(answer["items"])) == (200, True, 2)


def test_the_server_refuses_a_parameter_that_it_does_not_know(address: str) -> None:
    status, answer = ask(f"{address}/v1/recommend/C00003?category=TOY")
    assert (status, answer["where"]) == (422, "query category")
    known = "k, exclude_seen, allow, deny, on_unknown, filter, attributes, max_cold, diversity"
    assert answer["wanted"] == f"only the parameters {known}, variant, rules"


def test_a_list_of_what_is_sold_out_may_name_unknown_goods(address: str) -> None:
    body = {"histories": [["SKU00000-TEA", "SKU00001-TOY"]], "k": 5}
    _, plain = ask(f"{address}/v1/recommend", body)
    best = plain["lists"][0]["items"][0]["item_id"]
    status, answer = ask(f"{address}/v1/recommend", body | {"deny": [best, "SKU99999-NEW"]})
    assert status == 200
    assert best not in [row["item_id"] for row in answer["lists"][0]["items"]]
