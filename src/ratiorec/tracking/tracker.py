"""Trackers: stores of experiments that are told of a fit, and TensorBoard as one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from ratiorec.errors import ConfigError, require_extra
from ratiorec.model.artifact import Artifact
from ratiorec.training.fit import EpochFinished, Observer, StepTaken


class Tracker(Protocol):
    """A store that is told of one fit; anything with these four methods will do.

    `begin` comes first and `end` last, whatever happens; `finish` only where there is a model.
    """

    def begin(self, settings: Mapping[str, Any]) -> None:
        """The fit starts; `settings` are plain names and numbers, with tables inside."""

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        """A step was taken, or an epoch finished."""

    def finish(self, model: Artifact) -> None:
        """The fit gave this model, whose card has the final figures."""

    def end(self, *, succeeded: bool) -> None:
        """Nothing more will be told."""


@contextmanager
def tracked(trackers: list[Tracker], settings: Mapping[str, Any]) -> Iterator[Observer]:
    """One observer for all of them; they are told at the end whether there was an error."""
    with ExitStack() as stack:
        for tracker in trackers:
            tracker.begin(settings)
            stack.push(_ending(tracker))

        def tell(event: StepTaken | EpochFinished) -> None:
            for tracker in trackers:
                tracker(event)

        yield tell


def _ending(tracker: Tracker) -> Callable[..., None]:
    def end(kind: type[BaseException] | None, *_: object) -> None:
        tracker.end(succeeded=kind is None)

    return end


def named_tracker(text: str) -> Tracker:
    """`tensorboard:FOLDER`, `mlflow` or `mlflow:STORE`, STORE being a database or a server."""
    kind, _, place = text.partition(":")
    if kind == "tensorboard" and place:
        return TensorBoard(place)
    if kind == "mlflow":
        from ratiorec.tracking.mlflow_runs import MLflowRun

        return MLflowRun(place or None)
    raise ConfigError(
        "unknown store of experiments",
        where="--track",
        found=repr(text),
        wanted="tensorboard:FOLDER, mlflow, or mlflow:STORE with a database or the URL of a server",
    )


class TensorBoard:
    """A tracker for TensorBoard: a curve for every figure, over steps, and the settings as text."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writer: Any = None
        self._step = 0

    def begin(self, settings: Mapping[str, Any]) -> None:
        require_extra("tensorboard", "tensorboard", where="--track tensorboard")
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(self._folder)
        # four spaces make a block of code of it
        text = json.dumps(settings, indent=2).replace("\n", "\n    ")
        self._writer.add_text("settings", "    " + text)

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        if isinstance(event, StepTaken):
            self._step = event.step
            return
        for name, value in figures(event.record).items():
            self._writer.add_scalar(name, value, event.record["step"])

    def finish(self, model: Artifact) -> None:
        for name, value in final_figures(model).items():
            self._writer.add_scalar(f"model/{name}", value, self._step)

    def end(self, *, succeeded: bool) -> None:
        self._writer.close()


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables inside a table as names with dots.

    >>> flat({"risk": {"link": "softplus"}, "seed": 0})
    {'risk.link': 'softplus', 'seed': 0}
    """
    found: dict[str, Any] = {}
    for name, value in table.items():
        found |= (
            flat(value, f"{prefix}{name}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{name}": value}
        )
    return found


def figures(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch's record, by the phase that they belong to.

    >>> figures({"phase": "search", "step": 9, "risk": -1.5, "validation": {"recall@20": 0.2}})
    {'search/risk': -1.5, 'search/recall@20': 0.2}
    """
    told = {"risk": record.get("risk"), **record.get("validation", {})}
    return {f"{record['phase']}/{name}": v for name, v in told.items() if v is not None}


def final_figures(model: Artifact) -> dict[str, float]:
    """The figures on a model's card."""
    card = model.card
    judged = {
        f"{part}/{name}": float(value)
        for part in ("validation", "test")
        for name, value in (card.get(part) or {}).items()
    }
    return judged | {"seconds": float(card["seconds"]["train"]), "epochs": float(card["epochs"])}
