"""What the curve of a run tells: when it converged, how long a step took, whether it was cut.

Everything is read from the record's `curve`: one entry an epoch, with the step, the seconds so
far and, where the epoch was validated, the figures on held-out training pairs.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from ratiorec_lab.reproduce.names import SELECTED_BY

CONVERGED = 0.99  # the share of the best nDCG@20 on validation pairs


class Validation(NamedTuple):
    """A look at the validation pairs."""

    epoch: int
    step: int
    metrics: Mapping[str, float]


class Convergence(NamedTuple):
    """When a run had all but a hundredth of its best validation nDCG@20."""

    step: int
    best: float
    is_rising: bool  # the best was the last one, and something else than patience ended the run


def validations(record: Mapping[str, Any]) -> list[Validation]:
    """All validations of a run in their order."""
    return [
        Validation(entry["epoch"], entry["step"], entry["validation"])
        for entry in record["curve"]
        if "validation" in entry
    ]


def convergence(record: Mapping[str, Any]) -> Convergence | None:
    """The first validation with 99 % of the run's best nDCG@20, or None without validations."""
    judged = validations(record)
    if not judged:
        return None
    best = max(judged, key=lambda one: one.metrics[SELECTED_BY])
    enough = CONVERGED * best.metrics[SELECTED_BY]
    first = next(one for one in judged if one.metrics[SELECTED_BY] >= enough)
    is_rising = best is judged[-1] and record.get("stopped_by") != "no gain"
    return Convergence(first.step, best.metrics[SELECTED_BY], is_rising)


def seconds_per_step(record: Mapping[str, Any]) -> float | None:
    """The median over epochs in which nothing but training took place, or None without any.

    Those that follow a validation have its time in them, and the first of a phase has the time
    of setting up; both are left out.
    """
    clean = [
        (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in itertools.pairwise(record["curve"])
        if before["phase"] == after["phase"]
        and "validation" not in before
        and after["step"] > before["step"]
    ]
    return statistics.median(clean) if clean else None


def seconds_to_converge(record: Mapping[str, Any]) -> float | None:
    """Steps to convergence by the time of a step: without set-up and validation."""
    found, per_step = convergence(record), seconds_per_step(record)
    return None if found is None or per_step is None else found.step * per_step


def was_cut(record: Mapping[str, Any]) -> bool:
    """Whether the time budget ended a run that would have gone on."""
    budget = record.get("max_seconds")
    if budget is None:
        return False
    return record.get("stopped_by") == "time budget" or record["seconds"]["train"] >= budget


def machine_of(record: Mapping[str, Any]) -> str:
    """The graphics card, or else the processor."""
    machine = record["machine"]
    return machine.get("accelerator") or f"{machine['cores']} cores, {machine['processor']}"
