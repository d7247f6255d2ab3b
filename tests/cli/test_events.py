"""Kinds of event, recency and repeats on the command line, from a log to a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratiorec.model.artifact import Artifact
from support.command_line import CommandLine

EVENTS = ("--event-column", "kind", "--event-weights", "buy=5,view=1,return=-6")
THIRD = ("--validation", "0.3")
POPULARITY = ("--preset", "popularity", "--device", "cpu")


def day(n: int) -> str:
    return f"2026-03-{n + 1:02}"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twelve users view and buy, each a little later than the one before; one brings it back."""
    rows = ["customer,sku,kind,date"]
    for user in range(12):
        rows += [f"c{user},s{(user + n) % 8},view,{day(user + n)}" for n in range(4)]
        rows.append(f"c{user},s{user % 8},buy,{day(user + 5)}")
    rows.append(f"c3,s3,return,{day(20)}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_describe_says_which_events_weigh_what_and_what_is_removed(
    cli: CommandLine, log: Path
) -> None:
    outcome = cli("data", "describe", log, *EVENTS, "--half-life", "7d", "--json")
    said = outcome.err.splitlines()
    assert "event = 'kind'; 61 rows, 13 of them repeats of a pair" in said[0]
    assert said[1] == (
        "weights: buy = 5 (12 rows); view = 1 (48 rows); return = -6 (1 row); "
        "half-life 7d back from 2026-03-21 00:00:00; "
        "1 pair removed, for weights that sum to 0 or less"
    )
    found = outcome.json
    assert (found["n_pairs"], found["has_weights"]) == (47, True)
    reading = found["reading"]
    assert reading["event_rows"] == {"buy": 12, "view": 48, "return": 1}
    assert reading["event_weights"] == {"buy": 5, "view": 1, "return": -6}
    assert (reading["n_removed"], reading["half_life"]) == (1, "7d")


def test_an_event_column_that_is_not_used_is_told_with_flags(cli: CommandLine, log: Path) -> None:
    said = cli("data", "describe", log).err
    assert "note: the column 'kind' is not used" in said
    assert "--event-column kind with --event-weights KIND=1" in said
    assert "is not used" not in cli("data", "describe", log, "--event-column", "").err


def test_repeats_without_weights_are_told_with_the_flag_that_counts_them(
    cli: CommandLine, log: Path
) -> None:
    plain = cli("data", "describe", log, "--json")
    assert "13 of them repeats of a pair (counted once; --repeats sum counts them)" in plain.err
    assert plain.json["has_weights"] is False
    counted = cli("data", "describe", log, "--repeats", "sum", "--json")
    assert counted.json["has_weights"] is True
    assert "(their weights are added)" in counted.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ("--event-column", "kind", "--event-weights", "buy=5"),
            "wanted: a weight for each kind, 0 to leave its rows out, as "
            "--event-weights buy=5,view=0,return=0",
        ),
        (("--event-column", "kind"), "--event-weights view=1,buy=1,return=1"),
        (("--event-weights", "buy=5"), "where: --event-weights; found: no event column"),
        (("--event-weights", "buy=5"), "--event-column NAME, with the name of the column"),
        (("--event-column", "kind", "--event-weights", "buy"), "found: 'buy'"),
        (("--event-column", "kind", "--event-weights", "buy=1,buy=2"), "has two weights"),
        (("--event-column", "kind", "--event-weights", "buy=nan"), "found: 'buy=nan'"),
        (("--event-column", "kind", "--event-weights", "buy=-1"), "no kind of event makes a pair"),
        (("--event-column", "knd", *EVENTS[2:]), "did you mean kind?"),
        (("--half-life", "9 days"), "where: --half-life; found: '9 days'"),
        (("--half-life", "9d", "--timestamp-column", ""), "--timestamp-column NAME"),
        (("--half-life", "9d", "--repeats", "once"), "--repeats sum or --repeats max"),
        (("--repeats", "mean"), "where: --repeats; found: 'mean'"),
    ],
)
def test_a_mistake_is_refused_with_the_flags_that_would_be_right(
    cli: CommandLine, log: Path, options: tuple[str, ...], told: str
) -> None:
    refusal = cli("data", "describe", log, *options).refusal
    assert told in refusal
    for python in ("event_weights", "half_life", "Columns("):
        assert python not in refusal


def test_a_benchmark_has_no_events(cli: CommandLine) -> None:
    refusal = cli("data", "describe", "synthetic", "--half-life", "9d").refusal
    assert "where: --half-life; found: synthetic" in refusal
    assert "no --half-life" in refusal
    assert "where: --repeats" in cli("data", "describe", "synthetic", "--repeats", "sum").refusal


@pytest.mark.parametrize("command", ["fit", "compare", "tune", "split"])
def test_every_command_that_trains_takes_events(cli: CommandLine, log: Path, command: str) -> None:
    words = {
        "fit": ("fit", log, "-o", "model", *POPULARITY, *THIRD),
        "compare": ("compare", log, "--presets", "popularity", "--device", "cpu", *THIRD),
        "tune": ("tune", log, "-o", "x.toml", "--preset", "ease", "--trials", "1", *THIRD),
        "split": ("data", "split", log, "-o", "parts"),
    }[command]
    options = (*EVENTS, "--half-life", "30d", "--repeats", "max")
    outcome = cli(*words, *options)
    assert outcome.code == 0, outcome.err
    assert "buy = 5 (12 rows)" in outcome.err
    assert "half-life 30d" in outcome.err
    assert "1 pair removed" in outcome.err
    assert "(the largest weight is taken)" in outcome.err


def test_a_split_says_that_its_folder_holds_no_weights(cli: CommandLine, log: Path) -> None:
    assert "holds no weights" in cli("data", "split", log, "-o", "parts", *EVENTS).err
    assert "holds no weights" not in cli("data", "split", log, "-o", "parts").err


def test_what_was_returned_is_not_in_the_model(cli: CommandLine, log: Path) -> None:
    cli("fit", log, "-o", "model", *POPULARITY, "--validation", "0", *EVENTS)
    model = Artifact.load(Path("model"))
    user, item = model.users.indices(["c3"])[0], model.items.indices(["s3"])[0]
    start, end = model.seen.indptr[[user, user + 1]]
    assert item not in model.seen.indices[start:end]
    assert len(model.seen.indices) == 47


def test_an_update_leaves_out_what_is_taken_back_and_takes_nothing_out_of_the_model(
    cli: CommandLine, log: Path, tmp_path: Path
) -> None:
    cli("fit", log, "-o", "model", *POPULARITY, "--validation", "0", *EVENTS)
    new = tmp_path / "new.csv"
    new.write_text(
        "customer,sku,kind\nnew,s1,buy\nnew,s2,buy\nnew,s2,return\nc0,s0,return\n",
    )
    outcome = cli("update", "model", new, *EVENTS, "--json")
    assert "2 pairs removed" in outcome.err
    assert (outcome.json["pairs"], outcome.json["users"]) == (1, 1)
    model = Artifact.load(Path("model"))
    assert len(model.seen.indices) == 47 + 1
    new.write_text("customer,sku,kind\nc0,s0,return\n")
    outcome = cli("update", "model", new, *EVENTS, "--json")
    assert "note: no pair is left: 1 row, and 1 pair with weights that sum to 0" in outcome.err
    assert outcome.json["pairs"] == 0


def test_an_evaluation_judges_on_the_events_that_count(
    cli: CommandLine, log: Path, tmp_path: Path
) -> None:
    cli("fit", log, "-o", "model", *POPULARITY, "--validation", "0")
    test = tmp_path / "test.csv"
    test.write_text("customer,sku,kind\nc0,s5,buy\nc0,s6,view\nc1,s7,buy\nc1,s7,return\n")
    given = ("--event-column", "kind", "--event-weights", "buy=1,view=0,return=-1")
    assert cli("evaluate", "model", "--test", test, "--json").json["pairs"]["total"] == 3
    judged = cli("evaluate", "model", "--test", test, *given, "--json")
    assert judged.json["pairs"]["total"] == 1
    assert "1 left out for a weight of 0" in judged.err


def test_an_update_looks_for_times_only_where_a_half_life_asks(
    cli: CommandLine, log: Path, tmp_path: Path
) -> None:
    cli("fit", log, "-o", "model", *POPULARITY, "--validation", "0")
    (tmp_path / "new.csv").write_text("customer,sku,date,qty\nc0,s6,never,much\n")
    assert cli("update", "model", "new.csv").code == 0
    assert (
        "a timestamp cannot be read"
        in cli("update", "model", "new.csv", "--half-life", "9d").refusal
    )
    assert (
        "a weight cannot be read"
        in cli("update", "model", "new.csv", "--weight-column", "qty").refusal
    )


def test_validation_by_time_holds_out_what_comes_last(cli: CommandLine, log: Path) -> None:
    outcome = cli("fit", log, "-o", "model", *POPULARITY, "--validation-by", "time", "--json")
    assert outcome.json["validation_by"] == "time"
    assert outcome.json["validation"]["ndcg@20"] >= 0
    refusal = cli(
        *("fit", log, "-o", "model", *POPULARITY),
        *("--validation-by", "time", "--timestamp-column", ""),
    ).refusal
    assert "where: --validation-by time; found: no timestamps" in refusal


def test_validation_by_time_works_with_events_and_a_half_life(cli: CommandLine, log: Path) -> None:
    options = ("--validation-by", "time", *EVENTS, "--half-life", "30d")
    assert cli("fit", log, "-o", "model", *POPULARITY, *options).code == 0


def test_bad_rows_are_skipped_and_written_while_events_are_weighed(
    cli: CommandLine, log: Path, tmp_path: Path
) -> None:
    log.write_text(f"{log.read_text()}c1,s1,,2026-03-01\nc1,s1,buy,never\nc1,,view,2026-03-01\n")
    where = ("--on-bad-rows", "skip", "--bad-rows-file", "bad.tsv")
    outcome = cli("fit", log, "-o", "model", *POPULARITY, *THIRD, *EVENTS, *where)
    assert outcome.code == 0, outcome.err
    assert "64 rows, 13 of them repeats of a pair, 3 dropped" in outcome.err
    assert [line.split("\t")[1] for line in (tmp_path / "bad.tsv").read_text().splitlines()] == [
        "missing event",
        "a timestamp cannot be read",
        "missing item id",
    ]
