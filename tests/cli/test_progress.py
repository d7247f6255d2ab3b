from __future__ import annotations

import signal

import pytest

from ratiorec.cli.progress import StopRequest, stop_on_interrupt


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
