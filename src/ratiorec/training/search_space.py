"""What `tune` searches: ranges of settings by their paths, and tables of what differs."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ratiorec.config import Table, parse_assignment, to_table
from ratiorec.settings import ModelSettings

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Range:
    """Numbers to search, whole ones where the setting is whole.

    A preset's own value is always inside. On a logarithmic range a value of 0 or infinity turns
    something off, and stays so. A setting that means something only where another one is on
    `needs` that one.
    """

    low: float
    high: float
    log: bool = False
    needs: str = ""

    def distribution(self, start: float, *, on_gpu: bool) -> BaseDistribution | None:
        """What Optuna draws from; None where there is nothing to search."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if math.isinf(start) or (self.log and start <= 0):
            return None
        low, high = min(self.low, start), max(self.high, start)
        if isinstance(start, int):
            return IntDistribution(int(low), int(high), log=self.log)
        return FloatDistribution(low, high, log=self.log)


@dataclass(frozen=True)
class PowersOfTwo:
    """2^k from `low` to `high`, or to `high_on_gpu` there; a preset's own value is among them."""

    low: int
    high: int
    high_on_gpu: int
    needs: str = ""

    def distribution(self, start: float, *, on_gpu: bool) -> BaseDistribution:
        """What Optuna draws from."""
        from optuna.distributions import CategoricalDistribution

        high = self.high_on_gpu if on_gpu else self.high
        powers = range(self.low.bit_length() - 1, high.bit_length())
        return CategoricalDistribution(sorted({int(start), *(2**k for k in powers)}))


_EXPONENT = Range(0, 1)
_WIDTH = PowersOfTwo(16, 128, high_on_gpu=512)

RANGES: Mapping[str, Range | PowersOfTwo] = {
    # how to train
    "training.learning_rate": Range(3e-4, 0.1, log=True),
    "training.l2": Range(1e-4, 0.3, log=True),
    "training.lr_schedule.half_life_steps": Range(20, 1000, log=True),
    "batches.sampler.n_negatives": Range(1, 32, log=True),
    "batches.sampler.exponent": _EXPONENT,
    # encoders
    "encoder.dimension": _WIDTH,
    "encoder.n_layers": Range(1, 4),
    "encoder.dropout": Range(0, 0.9),
    "encoder.popularity_term": Range(0, 0.05, needs="encoder.normalize"),
    "encoder.init.rms_length": Range(0.5, 8, log=True),
    "encoder.init.popularity_exponent": _EXPONENT,
    "encoder.hidden": Range(100, 1000, log=True),
    "encoder.latent": Range(50, 500, log=True),
    "encoder.anneal_steps": Range(200, 20_000, log=True),
    # losses
    "risk.temperature": Range(0.05, 0.3, log=True),
    "risk.positive_temperature": Range(0.1, 2, log=True),
    "risk.top_k_width": Range(0.1, 2, log=True, needs="risk.top_k"),
    "risk.upper_bound": Range(5, 1000, log=True),
    "risk.generator.exponent": Range(0, 2),
    "risk.generator.mixing": Range(0.01, 0.5, log=True),
    "risk.weights.exponent": _EXPONENT,
    "risk.weights.positive_exponent": Range(0, 2),
    "risk.weights.unlabelled_exponent": Range(0, 2),
    "risk.weights.positive_weight": Range(100, 30_000, log=True),
    "risk.unlabelled_weight": Range(1e-3, 0.5, log=True),
    # solvers
    "solver.l2": Range(1, 3000, log=True),
    "solver.dropout": Range(0, 0.9),
    "solver.popularity_exponent": _EXPONENT,
    "solver.activity_exponent": _EXPONENT,
    "solver.user_exponent": _EXPONENT,
    "solver.source_exponent": _EXPONENT,
    "solver.target_exponent": _EXPONENT,
    "solver.n_neighbours": Range(10, 500, log=True),
    "solver.shrinkage": Range(1, 500, log=True),
    "solver.n_eigenvectors": PowersOfTwo(32, 256, high_on_gpu=1024),
    "solver.plateau": Range(1, 10, log=True),
    "solver.low_pass": _EXPONENT,
    "solver.dimension": _WIDTH,
    "solver.confidence": Range(1, 200, log=True),
    "solver.alpha": Range(1, 200, log=True),
}
"""What is searched, by the path of the setting; where a model is trained twice, of the second."""


def search_space(
    start: ModelSettings, *, fixed: Collection[str] = (), on_gpu: bool = False
) -> dict[str, BaseDistribution]:
    """The settings of a preset that are searched, each with what Optuna draws from."""
    values, space = flat(to_table(start)), {}
    for path, value in values.items():
        known = RANGES.get(path.removeprefix("second."))
        if known is None or path in fixed or (known.needs and not values.get(known.needs)):
            continue
        value = math.inf if value == "inf" else value
        if (drawn := known.distribution(value, on_gpu=on_gpu)) is not None:
            space[path] = drawn
    return space


def fixed_by(assignments: Sequence[str]) -> set[str]:
    """The settings that assignments name, which are not searched."""
    named = [parse_assignment(text) for text in assignments]
    return {path for names, value in named for path in flat({".".join(names): value})}


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The plain values of a table by their paths.

    >>> flat({"risk": {"kind": "bpr"}, "training": {"l2": 0.1}})
    {'risk.kind': 'bpr', 'training.l2': 0.1}
    """
    found: dict[str, Any] = {}
    for name, value in table.items():
        inside = isinstance(value, Mapping)
        found |= flat(value, f"{prefix}{name}.") if inside else {prefix + name: value}
    return found


def nested(values: Mapping[str, Any]) -> Table:
    """The table that has these values at these paths."""
    table: Table = {}
    for path, value in values.items():
        *tables, name = path.split(".")
        inner = table
        for one in tables:
            inner = inner.setdefault(one, {})
        inner[name] = value
    return table


def difference(old: Table, new: Table) -> Table:
    """What must be laid over `old` to have `new`; a part of another kind is in it whole."""
    changed: Table = {}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            same_kind = value.get("kind") == before.get("kind")
            value = difference(before, value) if same_kind else value
            if value:
                changed[name] = value
        elif value != before:
            changed[name] = value
    return changed


def to_toml(table: Table, path: str = "") -> str:
    """A table of plain values and tables as TOML.

    >>> print(to_toml({"preset": "ease", "solver": {"l2": 300.0}}))
    preset = "ease"
    <BLANKLINE>
    [solver]
    l2 = 300.0
    """
    plain = [f"{name} = {json.dumps(v)}" for name, v in table.items() if not isinstance(v, dict)]
    tables = [
        to_toml(inner, f"{path}.{name}".lstrip("."))
        for name, inner in table.items()
        if isinstance(inner, dict)
    ]
    head = [f"[{path}]"] if path and plain else []
    return "\n\n".join(["\n".join(head + plain)] * bool(plain) + tables)
