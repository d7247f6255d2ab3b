"""Targets by name, and cases by themselves.

`python -m ratiorec_lab.bench.targets TARGET SIZE CASE…` prints the megabytes that each case takes
beyond its inputs; `side_by_side` starts it.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from ratiorec.data.interactions import Dataset
from ratiorec.errors import unknown_choice
from ratiorec_lab.bench import growth, kernels, ranking, softmax, step, training
from ratiorec_lab.bench.case import Measured
from ratiorec_lab.bench.clock import Conditions, Effort
from ratiorec_lab.bench.side_by_side import Alone, peak_extra_mb

ALL = "all"
_TINY = 8


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
        "risk": Target(kernels.measure_risk, kernels.risk_alone),
        "softmax": Target(softmax.measure, softmax.alone),
        "propagation": Target(kernels.measure_propagation, kernels.propagation_alone),
        "step": Target(step.measure, step.alone),
        "fit": Target(training.measure_fit),
        "recommend": Target(ranking.measure_recommend, ranking.recommend_alone),
        "evaluate": Target(ranking.measure_evaluate, ranking.evaluate_alone),
        "frontier": Target(training.measure_frontier),
        "growth": Target(growth.measure, growth.alone, growth.own_data),
    }
)


def named(target: str) -> list[str]:
    """The targets that a name stands for."""
    if target == ALL:
        return list(TARGETS)
    if target not in TARGETS:
        raise unknown_choice("unknown target", target, [*TARGETS, ALL], where="TARGET")
    return [target]


def main(target: str, size: str, *keys: str) -> None:
    """Measure, after the same on next to nothing has loaded all that is loaded once."""
    alone = TARGETS[target].alone
    assert alone is not None, f"{target} has no case that can run by itself"
    numbers = json.loads(size)
    tiny = {name: min(number, _TINY) for name, number in numbers.items()}
    peaks = {}
    for key in keys:
        peak_extra_mb(partial(alone, key, tiny))
        peaks[key] = peak_extra_mb(partial(alone, key, numbers))
    print(json.dumps(peaks))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:  # whoever started this is interrupted as well, and says so
        sys.exit(128 + signal.SIGINT)
