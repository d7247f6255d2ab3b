"""What can be measured, by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ratiorec.data.interactions import Dataset
from ratiorec.errors import ConfigError
from ratiorec_lab.bench import evaluate, fit, frontier, growth, propagation, recommend, risk, step
from ratiorec_lab.bench.case import Measured
from ratiorec_lab.bench.conditions import Conditions, Effort
from ratiorec_lab.bench.memory import Alone

ALL = "all"


@dataclass(frozen=True)
class Target:
    """Measures under conditions; `alone` runs one case by itself, to find its memory.

    A target with `own_data` looks at no others.
    """

    measure: Callable[[Conditions], Measured]
    alone: Alone | None = None
    own_data: Callable[[Effort], Dataset] | None = None


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "risk": Target(risk.measure, risk.alone),
        "propagation": Target(propagation.measure, propagation.alone),
        "step": Target(step.measure, step.alone),
        "fit": Target(fit.measure),
        "recommend": Target(recommend.measure, recommend.alone),
        "evaluate": Target(evaluate.measure, evaluate.alone),
        "frontier": Target(frontier.measure),
        "growth": Target(growth.measure, growth.alone, growth.own_data),
    }
)


def named(target: str) -> list[str]:
    """The targets that a name stands for."""
    if target == ALL:
        return list(TARGETS)
    if target not in TARGETS:
        near = difflib.get_close_matches(target, [*TARGETS, ALL], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            "unknown target",
            where="TARGET",
            found=repr(target),
            wanted="one of " + ", ".join([*TARGETS, ALL]) + hint,
        )
    return [target]
