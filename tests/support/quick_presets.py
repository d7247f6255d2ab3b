"""Presets that take a moment on small data, and ones that cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

import pytest

from ratiorec import presets
from ratiorec.encoders.settings import Factorisation
from ratiorec.errors import MissingExtraError
from ratiorec.settings import AnySettings, Settings, SolverSettings, Training, UserBatches

MISSING = MissingExtraError(
    "a library is missing", where="solver", found="nothing", wanted="pip install it"
)


@dataclass(frozen=True)
class Failing:
    """A solver that raises before its first sweep."""

    error: Exception = MISSING
    n_sweeps: int = 1

    def start(self, *_: object, **__: object) -> NoReturn:
        raise self.error


QUICK: Mapping[str, AnySettings] = {
    "popularity": presets.PRESETS["popularity"],
    "dre-mf": Settings(
        encoder=Factorisation(4),
        batches=UserBatches(20),
        training=Training(
            learning_rate=0.1, epochs=3, validate_every_epochs=1, min_steps_between_validations=1
        ),
    ),
    "item-knn": presets.PRESETS["item-knn"],
}


def use_presets(monkeypatch: pytest.MonkeyPatch, **more: AnySettings) -> None:
    """Let these, under their names with hyphens, and the quick ones be all presets there are."""
    named = {name.replace("_", "-"): settings for name, settings in more.items()}
    monkeypatch.setattr(presets, "PRESETS", {**QUICK, **named})


def failing(error: Exception = MISSING) -> SolverSettings:
    return SolverSettings(Failing(error))
