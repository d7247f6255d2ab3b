"""Two protocols, and what each changes in a preset.

`validated` changes nothing: every setting is the preset's, and the stopping step is chosen on
held-out training pairs. `paper` fixes what the paper fixes: batches, penalty, bound and number
of steps of each data set; nothing is chosen at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ratiorec.config import resolve
from ratiorec.errors import ConfigError
from ratiorec.presets import preset as preset_settings
from ratiorec.settings import AnySettings
from ratiorec.training.loop import Training
from ratiorec_lab.reproduce import quick
from ratiorec_lab.reproduce.names import SMALL

VALIDATED, PAPER = "validated", "paper"
PROTOCOLS = (VALIDATED, PAPER)

Changes = Mapping[str, float]
"""Settings by their dotted names, as `fit --set` takes them."""

_BOUNDED = ("dregn-cf", "dregn-cf-no-is", "dregn-cf-uniform", "dregn-cf-popularity")
_UNBOUNDED = ("dregn-cf-no-nn", "dre")
_PAIRWISE = ("lightgcn", "lightgcn-dns")
PRESETS_OF_THE_PAPER = (*_BOUNDED, *_UNBOUNDED, *_PAIRWISE, "pu", "dregn-cf-static")


@dataclass(frozen=True)
class FixedSettings:
    """What the paper trains with on one data set.

    It prints the users of a batch and the number of steps. λ and D̄ are those of its authors'
    program; the rate, which it chose from .01 to .1 and does not print, is ours. An epoch deals
    every user once in batches of at most `n_users`, so steps become whole epochs.
    """

    n_users: int
    epochs: int
    penalty: float
    upper_bound: float = 70
    learning_rate: float = 0.02

    def changes(self, *, bounded: bool = True, penalised: bool = True) -> dict[str, float]:
        """The settings by name."""
        found = {
            "batches.n_users": self.n_users,
            "batches.min_steps_per_epoch": 1,
            "training.learning_rate": self.learning_rate,
            "training.epochs": self.epochs,
        }
        bound = {"risk.upper_bound": self.upper_bound} if bounded else {}
        return found | bound | ({"training.penalty": self.penalty} if penalised else {})


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
_LIGHTGCN = {
    "batches.n_pairs": 2048,
    "training.learning_rate": 0.001,
    "training.penalty": 0.0001,
    "training.epochs": 1000,
}


def settings_of(
    preset: str, dataset: str, *, protocol: str, on_validation: bool
) -> AnySettings | None:
    """The settings of a preset under a protocol; None where the protocol has none.

    With `on_validation` a run is judged on held-out training pairs alone. Under `paper` it then
    takes all its steps, and is validated often enough to draw a curve.
    """
    settings: AnySettings | None = preset_settings(preset)
    if protocol == PAPER:
        changes = _paper_changes(preset, dataset)
        settings = None if changes is None else laid_over(preset_settings(preset), changes)
    if settings is not None and dataset == SMALL:
        settings = laid_over(settings, quick.changes(settings))
    if settings is not None and protocol == PAPER and on_validation:
        assert isinstance(settings.stopping, Training), f"{preset} has no epochs"
        settings = laid_over(settings, _to_the_end(preset, settings.stopping.epochs))
    return settings


def laid_over(settings: AnySettings, changes: Changes) -> AnySettings:
    """Settings with some of them changed."""
    if not changes:
        return settings
    return resolve(settings, assignments=[f"{name}={value}" for name, value in changes.items()])


def require_protocol(name: str) -> None:
    """Refuse a protocol that is not one of the two."""
    if name not in PROTOCOLS:
        raise ConfigError(
            "unknown protocol",
            where="--protocol",
            found=repr(name),
            wanted="one of " + ", ".join(PROTOCOLS),
        )


def _paper_changes(preset: str, dataset: str) -> dict[str, float] | None:
    if preset not in PRESETS_OF_THE_PAPER:
        return None
    if dataset == SMALL:
        return {}
    if preset in _PAIRWISE:
        return _LIGHTGCN if dataset in FIXED else None
    fixed = FIXED.get(dataset)
    if fixed is None:
        return None
    if preset == "dregn-cf-static":
        whole = fixed.changes()
        return {f"{stage}.{n}": v for stage in ("first", "second") for n, v in whole.items()}
    # a probability and a ratio differ in scale, and so do their λ
    return fixed.changes(bounded=preset in _BOUNDED, penalised=preset != "pu")


def _to_the_end(preset: str, epochs: int) -> dict[str, float]:
    """Never stop early; look at the validation pairs every ten steps, LightGCN's less often."""
    stage = "second." if preset == "dregn-cf-static" else ""
    found: dict[str, float] = {f"{stage}training.patience": epochs}
    if preset not in _PAIRWISE:
        found |= {
            f"{stage}training.validate_every": 1,
            f"{stage}training.min_steps_between_validations": 10,
        }
    return found
