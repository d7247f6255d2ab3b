"""Curves for TensorBoard, as files in a folder that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ratiorec.errors import MissingExtraError
from ratiorec.model.artifact import Artifact
from ratiorec.tracking.tracker import figures, final_figures
from ratiorec.training.fit import EpochFinished, StepTaken


class TensorBoard:
    """Writes a curve for every figure, over steps, and the settings as text."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writer: Any = None
        self._step = 0

    def begin(self, settings: Mapping[str, Any]) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            raise MissingExtraError(
                "TensorBoard is not installed",
                where="--track tensorboard",
                found="no module tensorboard",
                wanted="pip install 'ratiorec[tensorboard]'",
            ) from None
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
