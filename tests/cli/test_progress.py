from __future__ import annotations

import io
import signal

import pytest
from rich.console import Console

from ratiorec.cli import progress
from ratiorec.cli.progress import FitProgress, StopRequest, stop_on_interrupt
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


def test_on_a_terminal_a_bar_shows_epoch_rate_risk_and_recall(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        progress,
        "Console",
        lambda stderr: Console(file=screen, force_terminal=True, width=160, _environ={}),
    )
    with FitProgress() as shown:
        shown(StepTaken("search", 4, 9, 20, -0.5))
        shown(EpochFinished(JUDGED))
        shown(StepTaken("search", 5, 10, 20, -0.75))
        shown(StepTaken("refit", 0, 1, 10, -0.125))
    text = screen.getvalue()
    for word in ("search", "refit", "10/20", "epoch 5", "/s", "risk -0.7500", "recall@20 0.1250"):
        assert word in text
    assert "validation recall@20" not in capsys.readouterr().err


def test_a_signal_asks_to_stop_and_a_second_one_interrupts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = StopRequest()
    assert not request()
    request.ask(signal.SIGINT, None)
    assert request()
    assert "Ctrl-C again to leave at once" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        request.ask(signal.SIGINT, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_inside_the_block_a_signal_only_asks_and_after_it_all_is_as_before(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with stop_on_interrupt() as asked:
        signal.raise_signal(number)
        assert asked()
    assert signal.getsignal(number) is before
    with stop_on_interrupt() as asked_anew:
        assert not asked_anew()
