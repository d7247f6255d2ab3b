from __future__ import annotations

import io
import re
import time

import pytest
from rich.console import Console

from ratiorec import progress
from ratiorec.progress import FitProgress, progress_bar
from ratiorec.training.fit import EpochFinished, StepTaken

JUDGED = {
    "phase": "search",
    "epoch": 5,
    "step": 10,
    "risk": -0.25,
    "seconds": 1.5,
    "validation": {"recall@20": 0.125, "ndcg@20": 0.0625},
}


def test_without_a_terminal_a_validation_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with FitProgress() as shown:
        shown(StepTaken("search", 4, 9, 20, -0.5))
        shown(EpochFinished({key: JUDGED[key] for key in JUDGED if key != "validation"}))
        shown(EpochFinished(JUDGED))
    assert capsys.readouterr() == (
        "",
        "search epoch 5: risk -0.2500, validation recall@20 0.1250, ndcg@20 0.0625, 2 s\n",
    )


def test_epochs_of_an_earlier_run_are_not_printed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FitProgress() as shown:
        shown(EpochFinished(JUDGED, resumed=True))
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal is sent."""
    screen = io.StringIO()
    monkeypatch.setattr(
        progress,
        "Console",
        lambda stderr: Console(file=screen, force_terminal=True, width=160, _environ={}),
    )
    return screen


def test_on_a_terminal_a_bar_shows_epoch_rate_risk_and_recall(
    screen: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    with FitProgress() as shown:
        shown(StepTaken("search", 4, 9, 20, -0.5))
        shown(EpochFinished(JUDGED))
        shown(StepTaken("search", 5, 10, 20, -0.75))
        shown(StepTaken("refit", 0, 1, 10, -0.125))
    text = screen.getvalue()
    for word in ("search", "refit", "10/20", "epoch 5", "/s", "risk -0.7500", "recall@20 0.1250"):
        assert word in text
    assert "validation recall@20" not in capsys.readouterr().err


def test_the_time_left_is_never_more_than_the_budget_has(screen: io.StringIO) -> None:
    with FitProgress(max_seconds=20) as shown:
        for step in range(3):  # by their rate, a million steps take half a day
            shown(StepTaken("search", 0, step, 1_000_000, -0.5))
            time.sleep(0.05)
    left = re.findall(r"(\d+):(\d\d):(\d\d) left", screen.getvalue())
    assert left
    assert max(3600 * int(h) + 60 * int(m) + int(s) for h, m, s in left) <= 20


def test_time_that_an_earlier_run_has_spent_is_no_longer_left(screen: io.StringIO) -> None:
    with FitProgress(max_seconds=20) as shown:
        shown(EpochFinished({**JUDGED, "seconds": 15.0}, resumed=True))
        shown(StepTaken("search", 5, 11, 20, -0.5))
    assert re.search(r" 0:00:0[45] left", screen.getvalue())


def test_a_search_that_was_ended_has_no_time_left(screen: io.StringIO) -> None:
    with FitProgress(max_seconds=7200) as shown:
        shown(StepTaken("search", 0, 1, 1_000_000, -0.5))
        shown(StepTaken("refit", 0, 1, 10, -0.5))
    *_, last = (frame for frame in screen.getvalue().split("search") if "refit" in frame)
    ended, _, running = last.partition("refit")
    assert " left" in running
    assert " left" not in ended


def test_without_a_terminal_a_long_step_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.05)
    with FitProgress(max_seconds=30) as shown:
        time.sleep(0.4)
        shown(StepTaken("search", 0, 9, 2000, -0.5))
        time.sleep(0.4)
    *_, last = lines = capsys.readouterr().err.splitlines()
    left = r"\d+ s, at most 0:00:\d\d left"
    assert re.fullmatch(f"no step taken yet, {left}", lines[0])
    assert re.fullmatch(rf"search step 9 of at most 2,000, risk -0\.5000, {left}", last)
    time.sleep(0.2)
    assert capsys.readouterr().err == ""  # what has ended says no more


def test_a_function_shows_the_same_bar_and_keeps_to_its_budget(screen: io.StringIO) -> None:
    with progress_bar(20, prefix="wmf: ") as observe:
        for step in range(3):
            observe(StepTaken("search", 0, step, 1_000_000, -0.5))
            time.sleep(0.05)
    assert "wmf: search" in screen.getvalue()
    assert set(re.findall(r"(\S+) left", screen.getvalue())) <= {"0:00:20", "0:00:19"}


def test_a_function_without_a_terminal_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.05)
    with progress_bar(20) as observe:
        observe(StepTaken("search", 0, 1, 10, -0.5))
        observe(EpochFinished(JUDGED))
        time.sleep(0.2)
    assert capsys.readouterr() == ("", "")
