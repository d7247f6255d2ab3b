"""The portfolio of the automatic choice: candidates of growing cost, with an estimate of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ratiorec.encoders.settings import LightGCN
from ratiorec.presets import PRESETS
from ratiorec.settings import ModelSettings, Settings, SolverSettings
from ratiorec.solvers.settings import EASE, AnySolver, GraphFilter, LocalEASE, Walk

if TYPE_CHECKING:
    import torch

    from ratiorec.data.interactions import Interactions

Cost = Callable[["Interactions", "torch.device"], float]

_CPU_FLOPS = 2.5e10  # of a core, in the products of training
_GPU_FLOPS = 1e14
_GPU_STEP = 2e-3  # seconds that a step takes at least
_EPOCHS = 12  # that a learned model takes until it is worth having
_RANKING = 1.5e-9  # seconds for each pair and judged user, on one core
_LEARNED_ON_CPU = 64  # dimensions: more take too long there
_LARGEST_MATRIX = 10_000  # items: a matrix over all pairs of more makes a model of 400 MB and more


@dataclass(frozen=True)
class Candidate:
    """Settings to try, of which the best on the held-out pairs stands for all.

    `seconds` estimates one fit. The floor of the portfolio is fitted whatever the budget.
    """

    name: str
    variants: tuple[ModelSettings, ...]
    seconds: Cost = lambda data, device: 0.0
    seed: int = 0
    is_floor: bool = False

    @property
    def is_solved(self) -> bool:
        """Whether no early stopping asks for many validation users."""
        return all(isinstance(settings, SolverSettings) for settings in self.variants)


def portfolio(data: Interactions, device: torch.device) -> list[Candidate]:
    """All candidates in the order in which they are tried."""
    on_gpu = device.type == "cuda"
    # few users or items do not fill many dimensions: vectors of them would be learnt by heart
    most = max(4, min(data.n_users, data.n_items) // 4)
    softmax = _wide("softmax", min(most, 512 if on_gpu else _LEARNED_ON_CPU))
    dregn_cf = _wide("dregn-cf-fast", min(most, 128 if on_gpu else _LEARNED_ON_CPU))
    local = [LocalEASE(*settings, 200 if on_gpu else 100) for settings in _LOCAL]
    filters = [GraphFilter(512 if on_gpu else 256, *settings) for settings in _FILTERS]
    candidates = [
        Candidate("popularity", (PRESETS["popularity"],), is_floor=True),
        Candidate("walk", _solved(*_WALKS), _walk_seconds),
        Candidate("graph-filter", _solved(*filters), _filter_seconds),
        Candidate("local-ease", _solved(*local), _local_seconds),
        Candidate("dregn-cf", _with_l2(dregn_cf, 0.045, 0.01), _learned_seconds(dregn_cf)),
        Candidate("softmax", (softmax,), _learned_seconds(softmax)),
    ]
    if data.n_items <= _LARGEST_MATRIX:
        candidates.insert(4, Candidate("ease", _solved(*_EASE), _ease_seconds))
    if on_gpu:
        candidates.append(Candidate("softmax-2", (softmax,), _learned_seconds(softmax), seed=1))
    return candidates


# in the order of what helped most often on data of different kinds
_WALKS = (
    Walk(0.7, 0.75, 0.2),
    Walk(0.5, 0.5, 0.5),
    Walk(0.5, 0.3, 0.3),
    Walk(0.5, 0.75, 0.5),
    Walk(1.0, 1.0, 0.2),
)
_FILTERS = (
    (1.0, 0.2, 0.4),
    (1.5, 0.4, 0.2),
    (1.0, 0.2, 0.0),
    (3.0, 0.4, 0.2),
    (10.0, 0.2, 0.0),
)
_LOCAL = ((20.0, 0.2, 0.3, 0.6), (5.0, 0.2, 0.3, 0.3), (50.0, 0.0, 0.0, 0.0))
_EASE = (EASE(l2=200), EASE(20, 0.2, 0.3, 0.6), EASE(l2=1000))


def _solved(*solvers: Walk | GraphFilter | LocalEASE | EASE) -> tuple[SolverSettings, ...]:
    return tuple(SolverSettings(solver) for solver in solvers)


def _wide(name: str, dimension: int) -> Settings:
    """A preset with vectors of another dimension."""
    settings = PRESETS[name]
    assert isinstance(settings, Settings)
    assert isinstance(settings.encoder, LightGCN)
    return replace(settings, encoder=replace(settings.encoder, dimension=dimension))


def _with_l2(settings: Settings, *values: float) -> tuple[Settings, ...]:
    return tuple(replace(settings, training=replace(settings.training, l2=l2)) for l2 in values)


def _cores() -> int:
    return min(8, os.cpu_count() or 1)


def _judging(data: Interactions) -> float:
    return 1000 * _RANKING * data.n_pairs / _cores()


def _walk_seconds(data: Interactions, device: torch.device) -> float:
    return 1e-6 * data.n_pairs + _judging(data)


def _filter_seconds(data: Interactions, device: torch.device) -> float:
    """Nine products with all pairs, and their bases orthogonalised."""
    width = 288
    n_products = 9 * 2 * data.n_pairs * width
    n_gram = 6 * data.n_items * width**2
    flops = _GPU_FLOPS / 50 if device.type == "cuda" else _cores() * _CPU_FLOPS / 5
    return (n_products + n_gram) / flops + _judging(data)


def _local_seconds(data: Interactions, device: torch.device) -> float:
    """Systems of 100 neighbours set up and solved; on a GPU of 200, a matrix of all being there."""
    if device.type == "cuda":
        return data.n_items * 200**3 / (_GPU_FLOPS / 10)
    return data.n_items * (6e-8 * 100**2 + 100**3 / _CPU_FLOPS) / _cores() + _judging(data)


def _ease_seconds(data: Interactions, device: torch.device) -> float:
    flops = _GPU_FLOPS / 5 if device.type == "cuda" else _cores() * _CPU_FLOPS
    return data.n_items**3 / flops + 2e-8 * data.n_items**2


def solver_seconds(solver: AnySolver, data: Interactions, device: torch.device) -> float:
    """An estimate of one fit of a solver; 0 where there is none."""
    costs: dict[type, Cost] = {
        Walk: _walk_seconds,
        GraphFilter: _filter_seconds,
        LocalEASE: _local_seconds,
        EASE: _ease_seconds,
    }
    cost = costs.get(type(solver))
    return 0.0 if cost is None else cost(data, device)


def _learned_seconds(settings: Settings) -> Cost:
    """A few epochs over all pairs of users and items."""

    def seconds(data: Interactions, device: torch.device) -> float:
        dimension = getattr(settings.encoder, "dimension", _LEARNED_ON_CPU)
        n_flops = 10.0 * data.n_users * data.n_items * dimension
        if device.type == "cuda":
            return _EPOCHS * (n_flops / _GPU_FLOPS + data.n_users / 2048 * _GPU_STEP)
        return _EPOCHS * n_flops / (_cores() * _CPU_FLOPS)

    return seconds
