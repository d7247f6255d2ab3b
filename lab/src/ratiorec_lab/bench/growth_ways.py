"""What is timed at a point: steps, what comes before the first of them, and lists of items."""

from __future__ import annotations

import importlib.util
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from ratiorec.batches.users import UserBatches
from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.scorers.topk import Exact
from ratiorec.settings import Settings
from ratiorec.training.loop import GradientTraining
from ratiorec.training.validation import GpuTopK
from ratiorec_lab.bench.case import Size
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.contenders import settings_of
from ratiorec_lab.bench.recommend import K, floor_of_ranking, some_users
from ratiorec_lab.bench.split_step import SplitStep
from ratiorec_lab.bench.stand_in import random_model
from ratiorec_lab.bench.step_floor import step_floor
from ratiorec_lab.bench.timing import CPU, Way, Work, once

PRESET = "dregn-cf"
TILED, TRITON, REFERENCE = "tiled", "triton", "reference"
EAGER, RECORDED = "eager", "CUDA graph"
MOST_RANKED = 1000
_REFERENCE_BYTES = 4 * 10  # for each user and candidate of a batch: about ten matrices


def executions(device: torch.device) -> tuple[str, ...]:
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

    def step(self, execution: str) -> Way:
        """Training as a fit does it or, where its steps are not to be recorded, part by part."""
        settings = self._settings(execution.partition(",")[0])
        if execution.endswith(EAGER):
            return self._way(SplitStep(settings, self.data, self.device))
        bursts = _bursts(settings.descent(self.data, rng=_rng(), device=self.device))
        return self._way(lambda: next(bursts))

    def preparation(self) -> Way:
        """What a fit does before its first step: graph, first vectors, first batch."""
        settings = self._settings(TILED)

        def prepare() -> None:
            data = replace(self.data)  # a copy that has not counted anything yet
            run = settings.descent(data, rng=_rng(), device=self.device)
            run.epochs.complete(next(iter(run.epochs(_rng()))).to(self.device))

        return self._way(once(prepare))

    def ranking(self) -> Way:
        """Lists of random factors for some users."""
        size = self._ranking_size
        model = random_model(size["users"], size["items"], size["dimension"])
        users, k = some_users(size), size["k"]
        ranker = GpuTopK(k, self.device) if self.device.type == "cuda" else Exact(k)
        return Way(
            once(lambda: deque(ranker.stream(model, users, seen=self.data), maxlen=0)),
            device=self.device,
        )

    @property
    def n_ranked(self) -> int:
        """How many users that is."""
        return min(MOST_RANKED, self.data.n_users)

    @cached_property
    def n_candidates(self) -> int:
        """Those of one batch; on a graphics card all items stand in the list."""
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
        """That of a step, whatever its execution."""
        n_parameters = (self.data.n_users + self.data.n_items) * self.size["dimension"]
        return step_floor(self._settings(TILED), self.data, n_parameters)

    @property
    def ranking_floor(self) -> Floor:
        """That of one user's list."""
        return floor_of_ranking(self._ranking_size).times(1 / self.n_ranked)

    @property
    def _ranking_size(self) -> dict[str, int]:
        return {**self.size, "ranked": self.n_ranked, "k": min(K, self.data.n_items)}

    def _settings(self, execution: str) -> Settings:
        size = self.size
        found = settings_of(
            f"{PRESET}:encoder.dimension={size['dimension']}:risk.execution={execution}"
            f":batches.n_users={size['batch']}:batches.min_steps_per_epoch=1"
        )
        assert isinstance(found, Settings), f"{PRESET} descends"
        return found

    def _way(self, work: Work) -> Way:
        return Way(
            work, deterministic_threads if self.device.type == "cpu" else nullcontext, self.device
        )


def _bursts(run: GradientTraining) -> Iterator[int]:
    """Epoch after epoch; how many steps were taken each time."""
    while True:
        for risks in run.one_epoch(sys.maxsize):
            yield len(risks)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)
