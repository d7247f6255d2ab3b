from __future__ import annotations

import signal
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ratiorec.cli import tune as command
from ratiorec.training import tune
from ratiorec.training.tune import Trial
from support.command_line import CommandLine
from support.quick_presets import failing, use_presets

KNN = ("--preset", "item-knn", "--device", "cpu", "-o", "best.toml")
FOUR = (*KNN, "--trials", "4")


@pytest.fixture(autouse=True)
def no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    # to look for garbage takes longer than such a fit
    monkeypatch.setattr(tune, "release_memory", lambda device: True)


def test_what_fit_finds_with_the_file_is_what_the_search_has_found(
    cli: CommandLine, clicks: Path
) -> None:
    found = cli("tune", clicks, *FOUR, "--json").json
    assert found.keys() == {
        *("dataset", "preset", "seed", "device", "validation_by", "validation_users", "seconds"),
        *("settings", "validation", "start_validation", "trials", "importance", "left_out"),
        *("config", "study", "report"),
    }
    trials = found["trials"]
    assert [trial["preset"] for trial in trials] == ["item-knn"] * 4
    assert trials[0]["validation"] == found["start_validation"]
    assert found["validation"]["ndcg@20"] == max(one["validation"]["ndcg@20"] for one in trials)
    assert found["importance"]["item-knn"].keys() == trials[0]["settings"].keys()
    text = Path("best.toml").read_text()
    assert text.startswith(
        f"# ratiorec tune: validation ndcg@20 {found['validation']['ndcg@20']:.4f}"
    )
    fitted = cli("fit", clicks, "-o", "model", "--config", "best.toml", "--device", "cpu", "--json")
    assert fitted.json["preset"] == "item-knn"
    assert fitted.json["validation"] == found["validation"]


def test_the_same_command_goes_on(cli: CommandLine, clicks: Path) -> None:
    first = cli("tune", clicks, *FOUR, "--json").json
    more = cli("tune", clicks, *KNN, "--trials", "5", "--json")
    assert more.err.splitlines()[1].startswith("trial 5 item-knn: ")
    again = more.json
    assert again["trials"][:4] == first["trials"]
    assert len(again["trials"]) == 5
    refusal = cli("tune", clicks, *FOUR, "--seed", "1").refusal
    assert "found: another" in refusal
    assert "where: best.study.db;" in refusal


def test_people_see_the_best_what_mattered_and_what_to_do_next(
    cli: CommandLine, clicks: Path
) -> None:
    told = cli("tune", clicks, *FOUR)
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[0].split() == ["preset", "ndcg@20", "recall@20", "seconds", "settings"]
    scores = [float(line.split()[1]) for line in lines[1:5]]
    assert scores == sorted(scores, reverse=True)
    assert sum("as it is" in line for line in lines[1:5]) == 1
    assert "importance of each setting of item-knn" in lines
    shares = [float(line.split()[1].rstrip("%")) for line in lines if line.startswith("  solver.")]
    assert sum(shares) == pytest.approx(100, abs=2)
    assert lines[-1] == f"next: ratiorec fit {clicks} -o MODEL --config best.toml"
    assert [line.split(":")[0] for line in told.err.splitlines()[1:]] == [
        f"trial {number} item-knn" for number in range(1, 5)
    ]


def test_a_fixed_setting_is_in_the_file_and_not_searched(cli: CommandLine, clicks: Path) -> None:
    found = cli("tune", clicks, *FOUR, "--set", "solver.shrinkage=7.5", "--json").json
    assert all("solver.shrinkage" not in trial["settings"] for trial in found["trials"])
    assert "shrinkage = 7.5\n" in Path("best.toml").read_text()
    several = ("--preset", "item-knn,wmf", "--set", "solver.shrinkage=1")
    assert "where: --set; found: 2 presets" in cli("tune", clicks, *FOUR, *several).refusal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_found(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    tell = command.TuneProgress.tell

    def interrupted(self: Any, trial: Trial) -> None:
        tell(self, trial)
        if len(self._session.trials) == 2:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(command.TuneProgress, "tell", interrupted)
        stopped = cli("tune", clicks, *FOUR, "--json")
    assert stopped.code == 128 + number
    assert "the same command goes on" in stopped.err
    assert len(stopped.json["trials"]) == 2
    assert Path("best.toml").exists()
    assert len(cli("tune", clicks, *FOUR, "--json").json["trials"]) == 4


def test_an_interrupt_before_anything_was_found_writes_nothing(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        command.TuneProgress, "__call__", lambda *_: signal.raise_signal(signal.SIGINT)
    )
    stopped = cli("tune", clicks, *FOUR, "--json")
    assert (stopped.code, stopped.out) == (130, "")
    assert not Path("best.toml").exists()


def test_presets_that_cannot_run_are_told(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_presets(monkeypatch, broken=failing())
    names = ("--preset", "broken,popularity")
    found = cli("tune", clicks, *KNN, *names, "--trials", "9", "--json").json
    assert found["preset"] == "popularity"
    assert [trial["state"] for trial in found["trials"]] == ["failed", "done"]
    assert Path("best.toml").read_text().endswith('preset = "popularity"\n')
    alone = cli("tune", clicks, *FOUR, "--preset", "broken", "-o", "b.toml").refusal
    assert "no trial came to its end" in alone
    assert "a library is missing" in alone
    assert not Path("b.toml").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--preset", "item-kn"), "did you mean item-knn?"),
        (("--preset", "auto"), "unknown preset"),
        (("--validation", "0"), "nothing to choose settings by"),
        (("--max-seconds", "0"), "where: --max-seconds"),
        (("-o", "."), "a folder stands where a file would be written"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_is_tried(
    words: tuple[str, str], told: str, cli: CommandLine, clicks: Path
) -> None:
    assert told in cli("tune", clicks, *FOUR, *words).refusal
    assert not Path("best.study.db").exists()


def test_without_optuna_one_line_says_how_to_get_it_before_any_data_are_read(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert "wanted: pip install 'ratiorec[tune]'" in cli("tune", "nowhere.csv", *FOUR).refusal


def test_a_report_is_the_laboratorys(
    cli: CommandLine, clicks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("tune", clicks, *FOUR, "--report", "r.html", "--json").json["report"] == "r.html"
    assert "What matters for item-knn" in Path("r.html").read_text()
    monkeypatch.setattr(command, "entry_points", lambda **_: metadata.EntryPoints())
    refusal = cli("tune", clicks, *FOUR, "--report", "q.html").refusal
    assert "pip install ratiorec-lab" in refusal
