"""Target `growth`: how time and memory grow with users, items, pairs, dimension and batch.

At every point of a plan are timed: training steps, what comes before the first of them, and lists.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.kernels.gpu_topk import GpuTopK
from ratiorec.machine import available_memory_mb
from ratiorec.scorers.topk import Exact
from ratiorec.settings import Settings, UserBatches
from ratiorec.training.loop import GradientTraining
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.clock import (
    CPU,
    Conditions,
    Effort,
    Floor,
    Times,
    Way,
    digits,
    once,
    training_way,
)
from ratiorec_lab.bench.growth_lines import AXES, QUICK, USUAL, Plan, growths, size_at
from ratiorec_lab.bench.random_data import long_tailed_pairs, random_model
from ratiorec_lab.bench.ranking import K, exhaust, ranking_floor, some_users
from ratiorec_lab.bench.side_by_side import Outcome, side_by_side
from ratiorec_lab.bench.step import EAGER, RECORDED, SplitStep, bursts, step_floor, trained

PRESET = "dregn-cf"
TILED, TRITON, REFERENCE, OURS = "tiled", "triton", "reference", "ratiorec"
STEP, PREPARATION, RANKING = "step", "preparation", "top-20 for a user"
MOST_RANKED = 1000
_REFERENCE_BYTES = 4 * 10  # for each user and candidate of a batch: about ten matrices


@dataclass(frozen=True)
class _Timed:
    """Work at a place, and what is known of it beside its time."""

    work: str
    backend: str
    place: str
    way: Way
    floor: Floor | None = None
    n_units: int = 1

    @property
    def key(self) -> str:
        how = self.backend if self.work == STEP else self.work
        return f"{how} {self.place}"

    @property
    def has_memory(self) -> bool:
        # a replayed step allocates nothing: its memory was taken when it was recorded
        return self.work == STEP and not self.backend.endswith(RECORDED)


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


def alone(key: str, size: Size) -> Way:
    """A step in one backend at one place around a base of this size."""
    backend, _, place = key.rpartition(" ")
    there = size_at(place, size)
    data = long_tailed_pairs(there["users"], there["items"], there["pairs"])
    return Point(there, data, CPU).step(backend)


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
    for backend in backends(point.device):
        if backend.startswith(REFERENCE) and point.reference_mb > room:
            left_out[f"{backend} at {place}"] = (
                f"about {point.reference_mb:,.0f} MB of matrices, more than {room:,.0f} MB"
            )
            continue
        yield _Timed(STEP, backend, place, point.step(backend), point.step_floor)
    yield _Timed(PREPARATION, OURS, place, point.preparation())
    yield _Timed(RANKING, OURS, place, point.ranking(), point.ranking_floor, point.n_ranked)


def _case(one: _Timed, axis: str, point: Point, found: Outcome) -> Case:
    size = {**point.size, "pairs": point.data.n_pairs, "candidates": point.n_candidates}
    name = f"{one.work}, {size[axis]:,} {AXES[axis]}"
    is_reference = one.work == STEP and one.backend.startswith(REFERENCE)
    figures = {"work": one.work, "axis": axis, "value": size[axis]}
    case = found.case(
        one.key, name, one.backend, size, one.floor, is_reference=is_reference, figures=figures
    )
    rounds = tuple(seconds / one.n_units for seconds in case.times.rounds)
    return replace(case, times=Times(rounds))


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


def backends(device: torch.device) -> tuple[str, ...]:
    """Those of a step; the reference is never recorded, and memory is told of what is not."""
    if device.type == "cpu":
        return TILED, REFERENCE
    fused = TRITON if importlib.util.find_spec("triton") else TILED
    return f"{fused}, {RECORDED}", f"{fused}, {EAGER}", f"{REFERENCE}, {EAGER}"


@dataclass(frozen=True, eq=False)
class Point:
    """Data of one size on one device, and the work that is done on them."""

    size: Size
    data: Interactions
    device: torch.device

    def step(self, backend: str) -> Way:
        """Training as a fit does it or, where its steps are not to be recorded, part by part."""
        settings = self.settings(backend.partition(",")[0])
        if backend.endswith(EAGER):
            return training_way(SplitStep(settings, self.data, self.device), self.device)
        return training_way(bursts(self._start(settings, self.data)), self.device)

    def preparation(self) -> Way:
        """What a fit does before its first step: graph, initial vectors, first batch."""
        settings = self.settings(TILED)

        def prepare() -> None:
            data = replace(self.data)  # a copy that has not counted anything yet
            run = self._start(settings, data)
            run.epochs.complete(next(iter(run.epochs(_rng()))).to(self.device))

        return training_way(once(prepare), self.device)

    def ranking(self) -> Way:
        """Lists of random factors for some users."""
        size = self._ranking_size
        model = random_model(size["users"], size["items"], size["dimension"])
        users, k = some_users(size), size["k"]
        ranker = GpuTopK(k, self.device) if self.device.type == "cuda" else Exact(k)
        return Way(once(lambda: exhaust(ranker, model, users, self.data)), device=self.device)

    @property
    def n_ranked(self) -> int:
        """How many users that is."""
        return min(MOST_RANKED, self.data.n_users)

    @cached_property
    def n_candidates(self) -> int:
        """Those of one batch; on a GPU all items stand in the list."""
        if self.device.type == "cuda":
            return self.data.n_items
        epochs = UserBatches(self.size["batch"])(self.data, device=CPU)
        return len(next(iter(epochs(_rng()))).candidates)

    @property
    def reference_mb(self) -> float:
        """About what whole matrices over a batch take."""
        n_users = min(self.size["batch"], self.data.n_users)
        return _REFERENCE_BYTES * n_users * self.n_candidates / 2**20

    @property
    def step_floor(self) -> Floor:
        """That of a step, whatever its backend."""
        n_parameters = (self.data.n_users + self.data.n_items) * self.size["dimension"]
        return step_floor(self.settings(TILED), self.data, n_parameters)

    @property
    def ranking_floor(self) -> Floor:
        """That of one user's list."""
        return ranking_floor(self._ranking_size).times(1 / self.n_ranked)

    @property
    def _ranking_size(self) -> dict[str, int]:
        return {**self.size, "ranked": self.n_ranked, "k": min(K, self.data.n_items)}

    def settings(self, backend: str) -> Settings:
        """Those of the preset at this point, with a backend of the loss."""
        return trained(
            f"{PRESET}:encoder.dimension={self.size['dimension']}:risk.backend={backend}"
            f":batches.n_users={self.size['batch']}:batches.min_steps_per_epoch=1"
        )

    def _start(self, settings: Settings, data: Interactions) -> GradientTraining:
        return GradientTraining.start(data, settings, rng=_rng(), device=self.device)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
