from __future__ import annotations

from pathlib import Path

import pytest
import rich.progress

from ratiorec.data import benchmarks
from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Dataset
from support.command_line import QUICK, CommandLine, everything_in


def test_the_benchmarks_are_listed_with_their_sizes(cli: CommandLine) -> None:
    rows = cli("data", "list", "--json").json["benchmarks"]
    by_name = {row["name"]: row for row in rows}
    assert {"gowalla", "yelp2018", "amazon-book", "ml-100k", "synthetic"} <= by_name.keys()
    assert by_name["gowalla"]["n_users"] == 29_858
    assert by_name["gowalla"]["where"] is None
    assert "ratiorec data fetch gowalla" in by_name["gowalla"]["how_to_get"]
    assert by_name["synthetic"]["where"] == "built in"
    printed = cli("data", "list").out.splitlines()
    assert [line.split()[0] for line in printed] == list(by_name)


def test_a_file_is_described(cli: CommandLine, clicks: Path, dataset: Dataset) -> None:
    found = cli("data", "describe", clicks, "--json").json
    assert found["name"] == "clicks"
    assert (found["n_users"], found["n_items"]) == (60, 40)
    assert found["n_pairs"] == dataset.train.n_pairs
    assert found["density"] == dataset.train.n_pairs / (60 * 40)
    assert found["user_degrees"]["max"] == dataset.train.user_degrees.max()
    assert found["n_test_pairs"] is None
    printed = cli("data", "describe", clicks).out
    assert f"n_pairs  {dataset.train.n_pairs:,}" in printed


def test_warnings_go_to_standard_error_and_into_the_json(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item\na,x\na,y\nb,x\n")
    printed = cli("data", "describe", "x.csv")
    assert "warning: 1 user of 2 with one pair only" in printed.err
    assert "warning" not in printed.out
    as_json = cli("data", "describe", "x.csv", "--json")
    assert "warning" not in as_json.err
    assert len(as_json.json["warnings"]) == printed.err.count("warning: ") == 2


def test_a_data_set_with_a_test_part_says_so(cli: CommandLine) -> None:
    assert cli("data", "describe", "synthetic", "--json").json["n_test_pairs"] > 0
    assert "n_test_pairs" in cli("data", "describe", "synthetic").out


def test_a_split_is_complete_disjoint_and_ready_to_train_on(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    outcome = cli("data", "split", clicks, "-o", "parts", "--fraction", "0.25")
    assert outcome.code == 0
    whole, parts = load(clicks).train, load(tmp_path / "parts")
    assert parts.test is not None  # and the two share no pair, or the data set were refused
    assert parts.train.n_pairs + parts.test.n_pairs == whole.n_pairs
    assert set(parts.train.users.ids) == set(whole.users.ids)
    assert f"{parts.train.n_pairs:,} pairs for training" in outcome.out
    fitted = cli("fit", "parts", "-o", "model", *QUICK, "--json").json
    assert fitted["test"] is not None


def test_the_same_seed_gives_the_same_split(cli: CommandLine, clicks: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        cli("data", "split", clicks, "-o", name, "--seed", seed)
    a, b, c = (everything_in(tmp_path / name) for name in "abc")
    assert a == b != c


def test_the_latest_pairs_may_be_held_out(cli: CommandLine, tmp_path: Path) -> None:
    rows = [f"u{user},i{item},{100 * user + item}" for user in range(4) for item in range(5)]
    (tmp_path / "x.csv").write_text("user,item,timestamp\n" + "\n".join(rows) + "\n")
    assert cli("data", "split", "x.csv", "-o", "last", "--by", "last", "--n", 2).code == 0
    last = load(tmp_path / "last").test
    assert last is not None
    held_out = {str(item) for item in last.items.ids[last.indices]}
    assert (last.n_pairs, held_out) == (4 * 2, {"i3", "i4"})
    assert cli("data", "split", "x.csv", "-o", "late", "--by", "time", "--fraction", 0.25).code == 0
    late = load(tmp_path / "late").test
    assert late is not None
    assert {str(user) for user in late.users.ids[late.pair_users]} == {"u3"}


def test_users_with_too_few_pairs_are_counted(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("user,item\na,x\nb,x\nb,y\nb,z\n")
    outcome = cli("data", "split", "x.csv", "-o", "parts", "--fraction", "0.5")
    assert "2 pairs for training and 2 held out in parts; 1 users had too few" in outcome.out


def test_a_split_in_time_keeps_repeats_in_the_past_and_says_who_stays_whole(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = ["ann,tea,2026-01-05", "ann,tea,2026-10-15", "ann,jam,2026-10-15", "bob,jam,2026-02-01"]
    rows += ["bob,tea,2026-02-02", "cid,jam,2026-11-01"]
    (tmp_path / "x.csv").write_text("user,item,time\n" + "\n".join(rows) + "\n")
    for cut in (("--at", "2026-10-01"), ("--by", "time", "--last-days", "30")):
        outcome = cli("data", "split", "x.csv", "-o", "late", *cut)
        told, more = outcome.out.splitlines()
        assert told.endswith("1 users have no pair after the cut and stay whole")
        assert more.startswith("1 users begin after the cut, and 1 training pairs come again")
        late = load(tmp_path / "late").test
        assert late is not None
        ids = zip(late.users.ids[late.pair_users], late.items.ids[late.indices], strict=True)
        assert set(ids) == {("ann", "jam"), ("cid", "jam")}
    refusal = cli("data", "split", "x.csv", "-o", "p", "--by", "last", "--at", "2026-10-01").refusal
    assert "--at is a cut in time (where: --by; found: last;" in refusal
    assert "where: --at" in cli("data", "split", "x.csv", "-o", "p", "--at", "soon").refusal


def test_a_split_that_held_nothing_out_can_still_be_trained_on(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("user,item\na,x\nb,x\nb,y\n")
    cli("data", "split", "x.csv", "-o", "parts")
    found = cli("fit", "parts", "-o", "model", *QUICK, "--validation", "0", "--json").json
    assert found["test"] is None


def test_fetching_shows_progress_and_prints_the_folder(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []

    def fetch(name: str, *, data_dir: Path | None, progress: object) -> Path:
        assert callable(progress)
        for done in (1, 2):
            progress("train.txt", done, 2)
        told.append((name, str(data_dir)))
        return tmp_path / "gowalla"

    monkeypatch.setattr(benchmarks, "fetch", fetch)
    monkeypatch.setattr(rich.progress.Progress, "add_task", lambda *_, **__: 0)
    monkeypatch.setattr(rich.progress.Progress, "update", lambda *_, **__: None)
    outcome = cli("data", "fetch", "gowalla", "--data-dir", "here")
    assert outcome.out == f"{tmp_path / 'gowalla'}\n"
    assert told == [("gowalla", "here")]


def test_columns_and_delimiter_may_be_named(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("who|what|how\nann|tea|2\nbob|jam|3\nann|jam|1\n")
    found = cli(
        *("data", "describe", "x.txt", "--delimiter", "|", "--header", "--json"),
        *("--user-column", "who", "--item-column", "what", "--weight-column", "how"),
    ).json
    assert (found["n_users"], found["n_items"], found["n_pairs"]) == (2, 2, 3)
    assert found["has_weights"]


def test_a_test_part_that_is_left_out_of_a_split_is_named(cli: CommandLine) -> None:
    outcome = cli("data", "split", "synthetic", "-o", "parts")
    assert outcome.code == 0
    assert "left out of the split" in outcome.err


def test_the_order_of_the_rows_tells_the_last_pairs_where_there_are_no_times(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("user,item\na,x\nb,z\na,y\nb,y\nb,x\n")
    outcome = cli("data", "split", "x.csv", "-o", "parts", "--by", "last")
    assert "warning: the order of the pairs cannot be judged" in outcome.err
    last = load(tmp_path / "parts").test
    assert last is not None
    pairs = zip(last.users.ids[last.pair_users], last.items.ids[last.indices], strict=True)
    assert set(pairs) == {("a", "y"), ("b", "x")}
    found = cli("data", "describe", "x.csv", "--json").json
    assert (found["has_timestamps"], found["has_order"]) == (False, True)
    assert found["order"]["is_informative"] is False
    assert "the order of the pairs cannot be judged" in cli("data", "describe", "x.csv").out
