"""Cells: single training runs, each with the settings that a protocol makes of a preset.

The protocol `validated` changes nothing: every setting is the preset's, and early stopping chooses
the step on held-out training pairs, a random tenth of each user's; under `validated-last` they are
the last tenth. `paper` fixes what the paper fixes: batches, λ, D̄ and number
of steps of each data set; nothing is chosen at all. A quick run is short on small data, to see that
everything works and nothing more.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ratiorec.config import model_preset as preset_settings
from ratiorec.config import resolve, to_table
from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import Synthetic
from ratiorec.encoders.settings import MultVAE
from ratiorec.settings import (
    ModelSettings,
    PairBatches,
    Settings,
    SolverSettings,
    Training,
    TwoStageSettings,
)
from ratiorec_lab.reproduce.published import SMALL, dataset_name

VALIDATED, VALIDATED_LAST, PAPER = "validated", "validated-last", "paper"
PROTOCOLS = (VALIDATED, VALIDATED_LAST, PAPER)
HELD_OUT: Mapping[str, str] = MappingProxyType({VALIDATED: "random", VALIDATED_LAST: "last"})
CURVE_EPOCHS = 300  # of batches of users; early stopping ended all of these runs before that
L2, BOUND, RATE = "training.l2", "risk.upper_bound", "training.learning_rate"

Value = float | str
Changes = Mapping[str, Value]
"""Settings by their dotted names, as `fit --set` takes them."""


@dataclass(frozen=True)
class Cell:
    """A preset on a data set with a seed, under a protocol.

    `changes` are the settings in which it differs from what the protocol makes of the preset.
    A run `on_validation` is trained on nine tenths of each user's pairs and judged on the rest:
    there is no refit, and the test part is never read. One `on_test_curve` is trained on all pairs
    for a fixed number of epochs and judged on the test part along the way, as Figure 3 of the paper
    is: it chooses nothing, and its figures stand in no table.
    """

    dataset: str
    preset: str
    protocol: str
    seed: int
    changes: tuple[tuple[str, Value], ...] = ()
    on_validation: bool = False
    on_test_curve: bool = False
    settings: ModelSettings = field(kw_only=True, compare=False, repr=False)

    @property
    def name(self) -> str:
        """`dregn-cf+training.l2=0.02+validation`."""
        changed = (f"{name}={_value_text(value)}" for name, value in self.changes)
        kinds = {"validation": self.on_validation, "test-curve": self.on_test_curve}
        return "+".join([self.preset, *changed, *(kind for kind, is_so in kinds.items() if is_so)])

    @property
    def path(self) -> str:
        """Path of its files, without an ending."""
        return f"{self.protocol}/{self.dataset}/{self.name}-seed{self.seed}"

    @property
    def title(self) -> str:
        """Name of the cell in a line of progress."""
        return f"{dataset_name(self.dataset)}, {self.name}, seed {self.seed}"


def _value_text(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def cell_of(
    preset: str,
    dataset: str,
    *,
    protocol: str,
    seed: int,
    changes: Changes | None = None,
    on_validation: bool = False,
    on_test_curve: bool = False,
) -> Cell | None:
    """The cell, or None where the protocol has no settings for it.

    A change to what is there already is none, so that equal runs have equal names.
    """
    start = settings_of(preset, dataset, protocol=protocol, on_validation=on_validation)
    if start is None:
        return None
    if on_test_curve:
        start = _with_changes(start, _drawn_to_the_end(preset, start))
    table = to_table(start)
    changed = {n: v for n, v in (changes or {}).items() if setting_in(table, n) != v}
    return Cell(
        dataset,
        preset,
        protocol,
        seed,
        tuple(sorted(changed.items())),
        on_validation,
        on_test_curve,
        settings=_with_changes(start, changed),
    )


def command_of(cell: Cell, *, max_seconds: float) -> str:
    """The command that runs this cell alone, wherever data and results lie."""
    where = ["--quick"] if cell.dataset == SMALL else ["--datasets", cell.dataset]
    words = ["ratiorec", "reproduce", "all", "--protocol", cell.protocol, *where]
    words += ["--seeds", str(cell.seed), "--only", cell.name]
    if math.isfinite(max_seconds):
        words += ["--max-seconds", f"{max_seconds:g}"]
    return shlex.join(words)


def setting_in(table: Mapping[str, Any], name: str) -> Any:
    """The value under a dotted name.

    >>> setting_in({"risk": {"upper_bound": 70.0}}, "risk.upper_bound")
    70.0
    """
    found: Any = table
    for word in name.split("."):
        found = found[word]
    return found


def settings_of(
    preset: str, dataset: str, *, protocol: str, on_validation: bool
) -> ModelSettings | None:
    """The settings of a preset under a protocol; None where the protocol has none.

    With `on_validation` a run is judged on held-out training pairs alone. Under `paper` it then
    takes all its steps, and is validated often enough to draw a curve.
    """
    settings = preset_settings(preset)
    if protocol == PAPER:
        changes = _paper_changes(preset, dataset)
        if changes is None:
            return None
        settings = _with_changes(settings, changes)
    if dataset == SMALL:
        settings = _with_changes(settings, _quick_changes(settings))
    if protocol == PAPER and on_validation:
        assert isinstance(settings.stopping, Training), f"{preset} has no epochs"
        settings = _with_changes(settings, _no_early_stopping(preset, settings.stopping.epochs))
    return settings


def _drawn_to_the_end(preset: str, settings: ModelSettings) -> dict[str, Value]:
    """So many epochs that every curve has been flat for long, and nothing that could stop it."""
    assert isinstance(settings.stopping, Training), f"{preset} has no epochs"
    epochs = min(settings.stopping.epochs, 1000 if preset in _PAIRWISE else CURVE_EPOCHS)
    return {"training.epochs": epochs, "training.patience": epochs}


def _with_changes(settings: ModelSettings, changes: Changes) -> ModelSettings:
    if not changes:
        return settings
    return resolve(settings, assignments=[f"{name}={value}" for name, value in changes.items()])


# The protocol `paper`

_BOUNDED = ("dregn-cf", "dregn-cf-no-is", "dregn-cf-uniform", "dregn-cf-popularity")
_UNBOUNDED = ("dregn-cf-no-nn", "dre")
_PAIRWISE = ("lightgcn", "lightgcn-dns")
_STATIC = "dregn-cf-static"
PRESETS_OF_THE_PAPER = (*_BOUNDED, *_UNBOUNDED, *_PAIRWISE, "pu", _STATIC)


@dataclass(frozen=True)
class FixedSettings:
    """Settings of the paper on one data set.

    It prints the users of a batch and the number of steps. λ and D̄ are those of its authors'
    program; the learning rate, which it chose from .01 to .1 and does not print, is ours. An epoch
    deals every user once in batches of at most `n_users`, so steps become whole epochs.
    """

    n_users: int
    epochs: int
    l2: float
    upper_bound: float = 70
    learning_rate: float = 0.02

    def changes(self, *, bounded: bool = True, regularised: bool = True) -> dict[str, Value]:
        """The settings by name."""
        found: dict[str, Value] = {
            "batches.n_users": self.n_users,
            "batches.min_steps_per_epoch": 1,
            RATE: self.learning_rate,
            "training.epochs": self.epochs,
        }
        bound: dict[str, Value] = {BOUND: self.upper_bound} if bounded else {}
        return found | bound | ({L2: self.l2} if regularised else {})


_AMAZON = FixedSettings(6_000, 53, 0.05, upper_bound=80)
FIXED: Mapping[str, FixedSettings] = MappingProxyType(
    {
        "gowalla": FixedSettings(9_500, 60, 0.06),
        "yelp2018": FixedSettings(12_000, 160, 0.05),
        "amazon-book": _AMAZON,
        "amazon-book-75": _AMAZON,
    }
)
# LightGCN's authors' settings, which the paper says it used
_LIGHTGCN: dict[str, Value] = {
    "batches.n_pairs": 2048,
    RATE: 0.001,
    L2: 0.0001,
    "training.epochs": 1000,
}


def _paper_changes(preset: str, dataset: str) -> dict[str, Value] | None:
    if preset not in PRESETS_OF_THE_PAPER:
        return None
    if dataset == SMALL:
        return {}
    fixed = FIXED.get(dataset)
    if fixed is None or preset in _PAIRWISE:
        return None if fixed is None else _LIGHTGCN
    if preset == _STATIC:
        whole = fixed.changes()
        return {f"{stage}.{n}": v for stage in ("first", "second") for n, v in whole.items()}
    # a probability and a ratio differ in scale, and so do their λ
    return fixed.changes(bounded=preset in _BOUNDED, regularised=preset != "pu")


def _no_early_stopping(preset: str, epochs: int) -> dict[str, Value]:
    """All epochs; validation every ten steps, LightGCN's less often."""
    stage = "second." if preset == _STATIC else ""
    found: dict[str, Value] = {f"{stage}training.patience": epochs}
    if preset not in _PAIRWISE:
        found |= {
            f"{stage}training.validate_every_epochs": 1,
            f"{stage}training.min_steps_between_validations": 10,
        }
    return found


# The quick run

_POPULATION = Synthetic(n_users=240, n_items=100, mean_pairs=20)


def small_dataset() -> Dataset:
    """Pairs of a synthetic population, always the same, in an order that means nothing."""
    drawn = _POPULATION(rng=np.random.default_rng(0)).dataset
    order = np.arange(drawn.train.n_pairs, dtype=np.int32)
    return replace(drawn, name=SMALL, train=replace(drawn.train, order=order))


def _quick_changes(settings: ModelSettings) -> dict[str, Value]:
    """Changes that make training short: small vectors, few steps; λ, D̄ and the rate stay."""
    if isinstance(settings, SolverSettings):
        return {}
    if isinstance(settings, TwoStageSettings):
        stages = {"second": settings.second, "first": settings.first}
        found = {f"{n}.{k}": v for n, one in stages.items() for k, v in _shortened(one).items()}
        return found | {"first.training.epochs": 3}
    return _shortened(settings)


def _shortened(settings: Settings) -> dict[str, Value]:
    training: dict[str, Value] = {
        "training.epochs": 12,
        "training.validate_every_epochs": 2,
        "training.min_steps_between_validations": 1,
        "training.patience": 3,
    }
    encoder: dict[str, Value] = {"encoder.dimension": 8}
    if isinstance(settings.encoder, MultVAE):
        encoder = {"encoder.hidden": 16, "encoder.latent": 8}
    batches: dict[str, Value] = {"batches.n_users": 60}
    if isinstance(settings.batches, PairBatches):
        batches = {"batches.n_pairs": 1024}
    return training | encoder | batches | {"batches.min_steps_per_epoch": 4}
