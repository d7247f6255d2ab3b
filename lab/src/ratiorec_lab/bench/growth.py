"""How time and memory grow with users, items, pairs, dimension and batch, on data made for it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ratiorec.data.interactions import Dataset
from ratiorec.machine import available_memory_mb
from ratiorec_lab.bench.case import Case, Measured, Size, digits
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.conditions import Conditions, Effort
from ratiorec_lab.bench.growth_data import long_tailed_pairs
from ratiorec_lab.bench.growth_lines import growths
from ratiorec_lab.bench.growth_points import AXES, QUICK, USUAL, Plan, size_at
from ratiorec_lab.bench.growth_ways import RECORDED, REFERENCE, Point, executions
from ratiorec_lab.bench.side_by_side import Outcome, side_by_side
from ratiorec_lab.bench.timing import CPU, Times, Way

STEP, PREPARATION, RANKING = "step", "preparation", "top-20 for a user"
OURS = "ratiorec"


@dataclass(frozen=True)
class _Timed:
    """Work at a place, and what is known of it beside its time."""

    work: str
    execution: str
    place: str
    way: Way
    floor: Floor | None = None
    n_units: int = 1

    @property
    def key(self) -> str:
        how = self.execution if self.work == STEP else self.work
        return f"{how} {self.place}"

    @property
    def has_memory(self) -> bool:
        # a replayed step allocates nothing: its memory was taken when it was recorded
        return self.work == STEP and not self.execution.endswith(RECORDED)


def measure(conditions: Conditions) -> Measured:
    """All points take turns in one run, so that a bad minute bends no line."""
    plan = _plan(conditions.effort)
    pairs = functools.cache(long_tailed_pairs)
    points = {
        place: Point(size, pairs(size["users"], size["items"], size["pairs"]), conditions.device)
        for place, size in plan.places().items()
    }
    left_out: dict[str, str] = {}
    timed = [one for place in points for one in _work(place, points[place], left_out)]
    ways = {one.key: one.way for one in timed if one.has_memory}
    also = {one.key: one.way for one in timed if not one.has_memory}
    found = side_by_side("growth", ways, plan.base, conditions, also=also)
    cases = [
        _case(one, axis, points[place], found)
        for axis in AXES
        for place in plan.along(axis)
        for one in timed
        if one.place == place and (axis, one.work) != ("batch", RANKING)
    ]
    return _with_exponents(Measured("growth", cases, found.ceilings, left_out))


def alone(execution: str, size: Size) -> Way:
    """A step in one execution at one place around a base of this size."""
    how, _, place = execution.rpartition(" ")
    there = size_at(place, size)
    data = long_tailed_pairs(there["users"], there["items"], there["pairs"])
    return Point(there, data, CPU).step(how)


def own_data(effort: Effort) -> Dataset:
    """The pairs of the base point."""
    size = _plan(effort).base
    pairs = long_tailed_pairs(size["users"], size["items"], size["pairs"])
    return Dataset("long-tailed pairs", pairs)


def _plan(effort: Effort) -> Plan:
    return QUICK if effort.is_quick else USUAL


def _work(place: str, point: Point, left_out: dict[str, str]) -> Iterator[_Timed]:
    """All that is timed at a point, but for what its memory does not hold."""
    room = available_memory_mb(str(point.device)) / 2  # the other points are held as well
    for execution in executions(point.device):
        if execution.startswith(REFERENCE) and point.reference_mb > room:
            left_out[f"{execution} at {place}"] = (
                f"about {point.reference_mb:,.0f} MB of matrices, more than {room:,.0f} MB"
            )
            continue
        yield _Timed(STEP, execution, place, point.step(execution), point.step_floor)
    yield _Timed(PREPARATION, OURS, place, point.preparation())
    yield _Timed(RANKING, OURS, place, point.ranking(), point.ranking_floor, point.n_ranked)


def _case(one: _Timed, axis: str, point: Point, found: Outcome) -> Case:
    size = {**point.size, "pairs": point.data.n_pairs, "candidates": point.n_candidates}
    return Case(
        f"{one.work}, {size[axis]:,} {AXES[axis]}",
        one.execution,
        point.device.type,
        size,
        Times(tuple(seconds / one.n_units for seconds in found.times[one.key].rounds)),
        one.floor,
        found.peaks.get(one.key),
        is_reference=one.work == STEP and one.execution.startswith(REFERENCE),
        figures={"work": one.work, "axis": axis, "value": size[axis]},
    )


def _with_exponents(measured: Measured) -> Measured:
    """The case at the end of a line tells the exponents of the line."""
    told = measured.to_json()
    lines = growths(told)
    cases = []
    for case, figures in zip(measured.cases, told, strict=True):
        at_end = {line.figure: line.exponents for line in lines if line.ends_with(figures)}
        exponents = {
            figure: {name: digits(slope, 3) for name, slope in found._asdict().items()}
            for figure, found in at_end.items()
            if found is not None
        }
        more = {"exponents": exponents} if exponents else {}
        cases.append(replace(case, figures={**case.figures, **more}))
    return replace(measured, cases=cases)
