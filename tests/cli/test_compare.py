from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from ratiorec import progress
from ratiorec.cli import options
from ratiorec.errors import StorageError
from ratiorec.model.artifact import Artifact
from ratiorec.training import compare as comparison
from ratiorec.training.fit import StepTaken
from ratiorec_lab import comparison_report
from support.command_line import CommandLine, everything_in
from support.quick_presets import QUICK, failing, use_presets

CPU = ("--device", "cpu")
COMPARE = ("compare", "--presets", "popularity")
FIT = ("fit", "--preset", "popularity", "-o", "model")
NO_ROOM = StorageError("no room", where="here", found="a full disk", wanted="room")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use_presets(monkeypatch, broken=failing())
    # to look for garbage takes longer than such a fit
    monkeypatch.setattr(comparison, "release_memory", lambda device: True)


@pytest.fixture
def parts(cli: CommandLine, clicks: Path) -> Path:
    """A folder with a training and a test part."""
    assert cli("data", "split", clicks, "-o", "parts", "--fraction", "0.2").code == 0
    return Path("parts")


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "fit", lambda *_, **__: pytest.fail("training began"))


def test_json_has_the_keys_of_the_contract(cli: CommandLine, parts: Path) -> None:
    found = cli("compare", parts, "--presets", "dre-mf,popularity", *CPU, "--json").json
    assert found.keys() == {
        *("dataset", "test_share", "seed", "device", "validation_by"),
        *("best", "results", "models", "report", "split", "folds"),
    }
    assert (found["test_share"], found["split"], found["folds"]) == (None, None, None)
    assert (found["dataset"], found["seed"], found["device"]) == ("parts", 0, "cpu")
    assert [line["preset"] for line in found["results"]] == ["dre-mf", "popularity"]
    by_test = {line["preset"]: line["test"]["ndcg@20"] for line in found["results"]}
    assert found["best"] == max(by_test, key=by_test.__getitem__)
    for line in found["results"]:
        assert line.keys() == {
            *("preset", "seconds", "validation", "test", "epochs", "steps", "error"),
            *("peak_memory_mb", "peak_device_memory_mb", "against_best"),
            *("intervals", "beyond", "folds"),
        }
        assert line["seconds"].keys() == {"train", "total"}
        assert line["validation"].keys() == line["test"].keys() == {"recall@20", "ndcg@20"}
        assert line["error"] is None
        if line["preset"] == found["best"]:
            assert line["against_best"] is None
        else:
            assert line["against_best"].keys() == {"difference", "low", "high", "p_value"}


def test_a_share_is_held_out_to_judge_where_there_is_no_test_part(
    cli: CommandLine, clicks: Path
) -> None:
    arguments = ("compare", clicks, "--presets", "popularity", *CPU, "--json")
    found = cli(*arguments).json
    assert found["test_share"] == 0.2
    assert 0 < found["results"][0]["test"]["ndcg@20"] <= 1
    assert cli(*arguments, "--test-share", "0.3").json["test_share"] == 0.3
    for share in ("1", "-0.1", "nan"):
        refusal = cli(*arguments, "--test-share", share).refusal
        assert "where: --test-share;" in refusal


def test_json_has_no_test_figures_where_nothing_is_held_out_for_them(
    cli: CommandLine, clicks: Path
) -> None:
    arguments = ("--presets", "popularity", *CPU, "--test-share", "0", "--json")
    found = cli("compare", clicks, *arguments).json
    assert found["test_share"] is None
    assert found["results"][0]["test"] is None
    assert found["results"][0]["against_best"] is None
    assert 0 < found["results"][0]["validation"]["ndcg@20"] <= 1


def test_progress_goes_to_standard_error_under_a_heading_for_each_preset(
    cli: CommandLine, clicks: Path
) -> None:
    outcome = cli("compare", clicks, "--presets", "popularity, dre-mf", *CPU, "--json")
    assert outcome.json["best"] in QUICK
    lines = outcome.err.splitlines()
    headings = [line for line in lines if line in ("1/2 popularity", "2/2 dre-mf")]
    assert headings == ["1/2 popularity", "2/2 dre-mf"]
    assert sum(line.startswith("search epoch ") for line in lines) == 1 + 3
    assert lines[-1].startswith("dre-mf: test recall@20 0.")


def test_the_table_has_the_best_first_and_marks_it(cli: CommandLine, parts: Path) -> None:
    arguments = ("compare", parts, "--presets", "popularity,item-knn,dre-mf", *CPU)
    found = cli(*arguments, "--json").json["results"]
    by_test = {line["preset"]: line["test"]["ndcg@20"] for line in found}
    outcome = cli(*arguments)
    assert outcome.code == 0
    head, *lines = outcome.out.splitlines()
    assert head.split()[:5] == ["test", "ndcg@20", "recall@20", "seconds", "epochs"]
    assert head.split()[5:7] == ["novelty", "coverage"]
    novelty = {line["preset"]: line["beyond"]["novelty@20"]["value"] for line in found}
    for line in lines:
        assert line[2:].split()[5] == f"{novelty[line[2:].split()[0]]:.2f}"
    order = sorted(by_test, key=by_test.__getitem__, reverse=True)
    assert [line[2:].split()[0] for line in lines] == order
    assert [line[2:].split()[1] for line in lines] == [f"{by_test[name]:.4f}" for name in order]
    assert [line[0] for line in lines] == ["*", " ", " "]
    assert ["p = " in line for line in lines] == [False, True, True]


def test_without_a_test_part_the_table_is_of_validation(cli: CommandLine, clicks: Path) -> None:
    presets = ("--presets", "popularity,dre-mf")
    outcome = cli("compare", clicks, *presets, *CPU, "--test-share", "0")
    assert outcome.out.split()[0] == "validation"
    assert "against" not in outcome.out


def test_a_preset_that_cannot_run_has_its_reason_and_the_others_their_figures(
    cli: CommandLine, clicks: Path
) -> None:
    arguments = ("compare", clicks, "--presets", "popularity,broken,dre-mf", *CPU)
    outcome = cli(*arguments, "--json")
    assert outcome.code == 0
    first, broken, last = outcome.json["results"]
    assert broken["error"].startswith("a library is missing (where: ")
    assert {broken[name] for name in broken.keys() - {"preset", "error"}} == {None}
    assert first["validation"]
    assert last["validation"]
    shown = cli(*arguments)
    assert shown.code == 0
    assert f"could not run: broken: {broken['error']}" in shown.out.splitlines()


def test_it_is_an_error_only_if_none_could_run(cli: CommandLine, clicks: Path) -> None:
    outcome = cli("compare", clicks, "--presets", "broken", *CPU, "--json")
    assert outcome.code == 2
    assert outcome.json["best"] is None
    assert outcome.json["results"][0]["error"]
    last = outcome.err.splitlines()[-1]
    assert last.startswith("ratiorec: no preset could run (where: --presets; found: ")
    assert "a library is missing" in last
    assert "Traceback" not in outcome.err


def test_all_means_every_preset(cli: CommandLine, clicks: Path) -> None:
    found = cli("compare", clicks, "--presets", "all", *CPU, "--json").json
    assert [line["preset"] for line in found["results"]] == [*QUICK, "broken"]


@pytest.mark.parametrize(
    ("presets", "what"),
    [
        ("popularity,popularty", "unknown preset (where: --presets; found: 'popularty'; "),
        ("dre-mf,item-knn,dre-mf", "a preset is listed twice (where: --presets; found: dre-mf; "),
        ("dre-mf,", "unknown preset (where: --presets; found: ''; "),
        ("", "unknown preset (where: --presets; found: ''; "),
    ],
)
def test_names_are_refused_before_the_data_are_loaded(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, presets: str, what: str
) -> None:
    monkeypatch.setattr(options, "load_data", lambda *_: pytest.fail("loading began"))
    arguments = ("--models", "models", "--report", "made/report.html")
    assert what in cli("compare", "clicks.csv", "--presets", presets, *arguments).refusal
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_answered_with_the_nearest(cli: CommandLine) -> None:
    assert "did you mean popularity?" in cli("compare", "x", "--presets", "popularty").refusal


def test_each_model_is_saved_under_its_name(cli: CommandLine, parts: Path, tmp_path: Path) -> None:
    arguments = ("--presets", "dre-mf,broken,popularity", *CPU, "--models", "made/models", "--json")
    found = cli("compare", parts, *arguments).json
    assert found["models"] == "made/models"
    assert {path.name for path in (tmp_path / "made/models").iterdir()} == {"dre-mf", "popularity"}
    for line in (found["results"][0], found["results"][2]):
        card = Artifact.load(tmp_path / "made/models" / line["preset"]).card
        assert card["preset"] == line["preset"]
        for name in ("test", "validation", "seconds", "steps"):
            assert card[name] == line[name]


def test_what_is_not_a_model_is_not_replaced(
    cli: CommandLine, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    (tmp_path / "models" / "dre-mf").mkdir(parents=True)
    (tmp_path / "models" / "dre-mf" / "thesis.txt").write_text("mine")
    before = everything_in(tmp_path)
    outcome = cli("compare", clicks, "--presets", "popularity,dre-mf", "--models", "models")
    assert "where: models/dre-mf" in outcome.refusal
    assert everything_in(tmp_path) == before


def test_the_report_is_written(cli: CommandLine, parts: Path, tmp_path: Path) -> None:
    outcome = cli("compare", parts, "--presets", "popularity,dre-mf", *CPU, "--report", "a/b.html")
    assert outcome.out.splitlines()[-1] == "report: a/b.html"
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.html"]
    html = (tmp_path / "a" / "b.html").read_text()
    assert "Presets on parts" in html
    assert html.endswith("</html>\n")


def test_a_report_that_would_replace_a_folder_is_refused_before_training(
    cli: CommandLine, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_training(monkeypatch)
    (tmp_path / "report").mkdir()
    outcome = cli("compare", clicks, "--presets", "popularity", "--report", "report")
    assert "where: --report; found: report;" in outcome.refusal


def refuse(*_: object, **__: object) -> None:
    raise NO_ROOM


@pytest.mark.parametrize(
    ("place", "name"), [(Artifact, "save"), (comparison_report, "write_report")]
)
def test_what_cannot_be_written_does_not_cost_the_figures(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    monkeypatch.setattr(place, name, refuse)
    places = ("--models", "models", "--report", "report.html")
    outcome = cli("compare", clicks, "--presets", "popularity,dre-mf", *CPU, *places, "--json")
    assert outcome.code == 2
    assert [line["error"] for line in outcome.json["results"]] == [None, None]
    assert outcome.err.splitlines()[-1] == f"ratiorec: {NO_ROOM}"


def test_ctrl_c_stops_cleanly_and_leaves_what_was_told(
    cli: CommandLine, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = progress.FitProgress.__call__

    def watched(self: progress.FitProgress, event: Any) -> None:
        plain(self, event)
        if isinstance(event, StepTaken) and event.step == 4:  # popularity has only one
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(progress.FitProgress, "__call__", watched)
    before = signal.getsignal(signal.SIGINT)
    presets = ("--presets", "popularity,dre-mf,item-knn")
    outcome = cli("compare", clicks, *presets, *CPU, "--models", "models", "--json")
    assert (outcome.code, outcome.out) == (130, "")
    lines = outcome.err.splitlines()
    assert any(line.startswith("popularity: test recall@20 0.") for line in lines)
    assert lines[-1].startswith("ratiorec: the comparison was stopped (where: dre-mf; ")
    assert "3/3 item-knn" not in lines
    assert "Traceback" not in outcome.err
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["popularity"]
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("option", "value"),
    [("--validation", "1"), ("--max-seconds", "0"), ("--memory-mb", "0"), ("--device", "abacus")],
)
@pytest.mark.parametrize("command", [COMPARE, FIT], ids=["compare", "fit"])
def test_options_out_of_range_are_refused_before_the_data_are_loaded(
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    option: str,
    value: str,
) -> None:
    monkeypatch.setattr(options, "load_data", lambda *_: pytest.fail("loading began"))
    name, *words = command
    assert f"where: {option};" in cli(name, "clicks.csv", *words, option, value).refusal


def test_nothing_to_compare_by_is_refused(cli: CommandLine, clicks: Path) -> None:
    nothing = ("--validation", "0", "--test-share", "0")
    outcome = cli("compare", clicks, "--presets", "popularity", *CPU, *nothing)
    assert "nothing to compare presets by (where: --validation;" in outcome.refusal


def test_the_options_are_those_of_each_fit(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    plain = comparison.fit

    def watched(*arguments: Any, **keywords: Any) -> Artifact:
        given.append(keywords)
        return plain(*arguments, **keywords)

    monkeypatch.setattr(comparison, "fit", watched)
    budgets = ("--max-seconds", "60", "--memory-mb", "900")
    chosen = ("--seed", "7", "--validation", "0.2", "--no-refit")
    found = cli(
        "compare", clicks, "--presets", "popularity,dre-mf", *CPU, *budgets, *chosen, "--json"
    ).json
    assert found["seed"] == 7
    assert [keywords["preset"] for keywords in given] == ["popularity", "dre-mf"]
    for keywords in given:
        fitting = keywords["options"]
        assert (fitting.max_seconds, fitting.memory_mb) == (60, 900)
        assert (fitting.validation, fitting.refit) == (0.2, False)
        assert fitting.validation_by == "random"  # as the test part, whatever `auto` would take
        assert keywords["seed"] == 7


def test_the_pairs_that_judge_are_drawn_like_those_that_choose(
    cli: CommandLine, clicks: Path
) -> None:
    command = ("compare", clicks, "--presets", "popularity", "--json")
    at_random, last = cli(*command).json, cli(*command, "--validation-by", "last").json
    assert (at_random["validation_by"], last["validation_by"]) == ("random", "last")
    for part in ("validation", "test"):
        assert at_random["results"][0][part] != last["results"][0][part]
    assert "--validation-by time" in cli(*command, "--validation-by", "time").refusal


@pytest.fixture
def dated(clicks: Path) -> Path:
    """The clicks on days of 2026; the first of all comes again at the end."""
    head, *rows = clicks.read_text().splitlines()
    days = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    lines = [f"{row},{days[37 * place % len(days)]}" for place, row in enumerate(rows)]
    lines.append(f"{rows[0]},2026-12-28")
    clicks.write_text("\n".join([f"{head},time", *lines]) + "\n")
    return clicks


def test_presets_may_be_compared_on_what_comes_after_a_moment(
    cli: CommandLine, dated: Path
) -> None:
    rows = [line.split(",") for line in dated.read_text().splitlines()[1:]]
    before = {(user, item) for user, item, day in rows if day < "2026-10-01"}
    after = {(user, item) for user, item, day in rows if day >= "2026-10-01"} - before
    known = {user for user, _ in before}
    unseen = {user for user, _ in after} - known
    command = ("compare", dated, "--presets", "popularity", *CPU, "--json")
    outcome = cli(*command, "--split", "time", "--at", "2026-10-01")
    found = outcome.json
    assert (found["split"], found["validation_by"], found["test_share"]) == ("time", "time", None)
    assert f"1 training pairs come again after the cut and {len(unseen)} users" in outcome.err
    days = cli(*command, "--last-days", "89").json  # from the 28th of December back to October
    assert days["results"][0]["test"] == found["results"][0]["test"]
    share = cli(*command, "--split", "time").json
    assert (share["split"], share["test_share"]) == ("time", 0.2)
    assert share["results"][0]["test"] != found["results"][0]["test"]


def test_a_moment_after_which_only_new_users_come_is_refused(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = ["a,x,2026-01-01", "a,y,2026-01-02", "b,x,2026-01-03", "c,x,2026-02-01"]
    (tmp_path / "x.csv").write_text("user,item,time\n" + "\n".join(rows) + "\n")
    arguments = ("--presets", "popularity", *CPU, "--at", "2026-02-01")
    refusal = cli("compare", "x.csv", *arguments).refusal
    assert "where: --split time; found: 1 pairs, all of users who begin after it" in refusal


def test_a_split_that_the_data_do_not_allow_is_refused_by_its_option(
    cli: CommandLine, clicks: Path
) -> None:
    command = ("compare", clicks, "--presets", "popularity", *CPU)
    refusal = cli(*command, "--split", "time").refusal
    assert "where: --split time; found: no timestamps;" in refusal
    assert "--split ratio" in refusal
    assert "where: --split; found: 'random'" in cli(*command, "--split", "random").refusal
    assert "where: --split;" in cli(*command, "--split", "last", "--at", "2026-10-01").refusal
    assert "where: --test-share" in cli(*command, "--split", "ratio", "--test-share", "0").refusal
    assert "where: --folds, --split" in cli(*command, "--folds", "2", "--split", "last").refusal
    assert "--models, --folds" in cli(*command, "--folds", "2", "--models", "models").refusal


def test_a_split_comes_before_a_test_part_that_is_there(cli: CommandLine, parts: Path) -> None:
    command = ("compare", parts, "--presets", "popularity", *CPU, "--json")
    own, other = cli(*command), cli(*command, "--split", "last")
    assert "parts has a test part already; it is left out" in other.err
    assert own.json["results"][0]["test"] != other.json["results"][0]["test"]


def test_folds_are_one_table_with_intervals_over_the_folds(cli: CommandLine, clicks: Path) -> None:
    command = ("compare", clicks, "--presets", "popularity,item-knn", *CPU, "--folds", "3")
    found = cli(*command, "--report", "folds.html", "--json").json
    assert found["folds"] == 3
    for line in found["results"]:
        values = [fold["test"]["ndcg@20"] for fold in line["folds"]]
        assert len(values) == 3
        assert line["test"]["ndcg@20"] == pytest.approx(sum(values) / 3)
        interval = line["intervals"]["ndcg@20"]
        assert interval["low"] < line["test"]["ndcg@20"] < interval["high"]
    head, *lines = cli(*command).out.splitlines()
    assert "ndcg@20 over folds" in head
    assert len(lines) == 2
    for line in found["results"]:
        interval = line["intervals"]["ndcg@20"]
        shown = f"[{interval['low']:.4f}, {interval['high']:.4f}]"
        assert any(line["preset"] in row and shown in row for row in lines)
