from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from ratiorec.errors import ConfigError, MissingExtraError
from ratiorec.model.artifact import Artifact
from ratiorec.tracking.tracker import Tracker, figures, flat, named_tracker, tracked
from ratiorec.training.fit import EpochFinished, StepTaken

STEP = StepTaken("search", epoch=0, step=1, last_step=9, risk=0.5)


class Heard:
    """A tracker of one's own: it has the methods, and inherits from nothing."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def begin(self, settings: Mapping[str, Any]) -> None:
        self.told.append(("begin", dict(settings)))

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        self.told.append(event)

    def finish(self, model: Artifact) -> None:
        self.told.append("finish")

    def end(self, *, succeeded: bool) -> None:
        self.told.append(("end", succeeded))


def test_all_trackers_are_told_of_the_beginning_the_events_and_the_end() -> None:
    trackers: list[Tracker] = [Heard(), Heard()]
    with tracked(trackers, {"seed": 1}) as tell:
        tell(STEP)
    for tracker in trackers:
        assert isinstance(tracker, Heard)
        assert tracker.told == [("begin", {"seed": 1}), STEP, ("end", True)]


def test_an_error_ends_every_tracker_as_failed() -> None:
    heard = Heard()
    with pytest.raises(ZeroDivisionError), tracked([heard], {}):
        _ = 1 / 0
    assert heard.told[-1] == ("end", False)


def test_a_tracker_that_cannot_begin_ends_those_that_have() -> None:
    class Broken(Heard):
        def begin(self, settings: Mapping[str, Any]) -> None:
            raise OSError("no")

    first, second = Heard(), Broken()
    with pytest.raises(OSError, match="no"), tracked([first, second], {}):
        pass
    assert first.told[-1] == ("end", False)
    assert second.told == []


def test_tables_inside_a_table_become_names_with_dots() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": 2}, "e": 3}) == {"a.b.c": 1, "a.d": 2, "e": 3}


def test_a_record_without_risk_or_validation_has_no_figures() -> None:
    assert figures({"phase": "refit", "step": 3, "risk": None}) == {}


@pytest.mark.parametrize("text", ["tensorboard", "tensorboard:", "wandb:x", ""])
def test_an_unknown_store_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="unknown store of experiments"):
        named_tracker(text)


@pytest.mark.parametrize("text", ["tensorboard:x", "mlflow"])
def test_a_missing_package_is_told_with_the_command_that_adds_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = text.split(":")[0]
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'ratiorec\[{extra}\]'"):
        named_tracker(text).begin({})
