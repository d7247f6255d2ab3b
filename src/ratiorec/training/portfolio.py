"""The portfolio of the automatic choice: candidates of growing cost, with an estimate of each."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ratiorec.encoders.settings import LightGCN
from ratiorec.losses.softmax import Softmax
from ratiorec.presets import PRESETS
from ratiorec.settings import ModelSettings, Settings, SolverSettings
from ratiorec.solvers.settings import EASE, WMF, AnySolver, GraphFilter, ItemKNN, LocalEASE, Walk

if TYPE_CHECKING:
    from ratiorec.data.interactions import Interactions
    from ratiorec.machine import Device

Cost = Callable[["Interactions", "Device"], float]

_CPU_FLOPS = 2.5e10  # of a core, in the products of training
_CPU_FLOPS_OF_RISK = 8e10  # of a core, in the risks over all pairs
_GPU_FLOPS = 1e14
_GPU_STEP = 2.5e-3  # seconds that a step takes at least
_GPU_START = 6.0  # seconds, for kernels that are compiled
_EPOCHS = {"density-ratio": 8, "softmax": 24}  # until a model is worth having
_RANKING = 1.5e-9  # seconds for each pair and judged user, on one core
_LEARNED_ON_CPU = 64  # dimensions: more take too long there
# items: a matrix over all pairs of more makes a model of 400 MB and more, and the older methods
# rank worse there than the others
_LARGEST_MATRIX = 10_000


@dataclass(frozen=True)
class Candidate:
    """Settings to try, of which the best on the held-out pairs stands for all.

    `seconds` estimates one fit. The floor of the portfolio is fitted whatever the budget. `again`
    names a candidate whose chosen settings are fitted once more, with another seed.
    """

    name: str
    variants: tuple[ModelSettings, ...]
    seconds: Cost = lambda data, device: 0.0
    seed: int = 0
    is_floor: bool = False
    again: str = ""

    @property
    def is_solved(self) -> bool:
        """Whether no early stopping asks for many validation users."""
        return all(isinstance(settings, SolverSettings) for settings in self.variants)


def portfolio(data: Interactions, device: Device) -> list[Candidate]:
    """All candidates in the order in which they are tried."""
    on_gpu = device.type == "cuda"
    # few users or items do not fill many dimensions: vectors of them would be learnt by heart
    most = max(4, min(data.n_users, data.n_items) // 4)
    softmax = _wide("softmax", min(most, 512 if on_gpu else _LEARNED_ON_CPU))
    dregn_cf = _wide("dregn-cf-fast", min(most, 128 if on_gpu else _LEARNED_ON_CPU))
    unweighted = data.relative_weights is None
    local = [LocalEASE(*settings, 200 if on_gpu and unweighted else 100) for settings in _LOCAL]
    filters = [GraphFilter(256, *settings) for settings in _FILTERS]
    lightgcn = _with_l2(_wide("lightgcn", min(most, 64)), 3e-4, 3e-3)
    learned = _learned_seconds(softmax)
    small = data.n_items <= _LARGEST_MATRIX
    candidates = (
        (True, Candidate("popularity", (PRESETS["popularity"],), is_floor=True)),
        (True, Candidate("walk", _solved(*_WALKS), _walk_seconds)),
        (small, Candidate("item-knn", _solved(*_KNN), _knn_seconds)),
        (small, Candidate("wmf", _solved(*_WMF), _wmf_seconds)),
        # beside learned members of many dimensions it adds nothing but latency; weights it ignores
        (not on_gpu and unweighted, Candidate("graph-filter", _solved(*filters), _filter_seconds)),
        (True, Candidate("local-ease", _solved(*local), _local_seconds)),
        (small, Candidate("ease", _solved(*_EASE), _ease_seconds)),
        (True, Candidate("dregn-cf", _with_l2(dregn_cf, 0.045, 0.01), _learned_seconds(dregn_cf))),
        (True, Candidate("softmax", (softmax, _two_temperatures(softmax)), learned)),
        (small, Candidate("lightgcn", lightgcn, _pairwise_seconds)),
        # the mean of several seeds ranks better, and differs less from one fit to the next
        (on_gpu, Candidate("softmax-2", (), learned, seed=1, again="softmax")),
        (on_gpu, Candidate("softmax-3", (), learned, seed=2, again="softmax")),
    )
    return [candidate for is_wanted, candidate in candidates if is_wanted]


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
_KNN = (ItemKNN(200), ItemKNN(50), ItemKNN(200, 0.0))
_WMF = (WMF(32, 5.0, 40.0), WMF(32, 5.0, 80.0), WMF(64, 20.0, 80.0), WMF(32, 5.0, 15.0))
_LOCAL = ((20.0, 0.2, 0.3, 0.6), (5.0, 0.2, 0.3, 0.3), (50.0, 0.0, 0.0, 0.0))
_EASE = (EASE(l2=200), EASE(20, 0.2, 0.3, 0.6), EASE(l2=1000))


def _solved(*solvers: AnySolver) -> tuple[SolverSettings, ...]:
    return tuple(SolverSettings(solver) for solver in solvers)


def _wide(name: str, dimension: int) -> Settings:
    """A preset with vectors of another dimension."""
    settings = PRESETS[name]
    assert isinstance(settings, Settings)
    assert isinstance(settings.encoder, LightGCN)
    return replace(settings, encoder=replace(settings.encoder, dimension=dimension))


def _with_l2(settings: Settings, *values: float) -> tuple[Settings, ...]:
    return tuple(replace(settings, training=replace(settings.training, l2=l2)) for l2 in values)


def _two_temperatures(settings: Settings) -> Settings:
    """The positives' scores by a log-mean-exp: better on some data, worse on others."""
    assert isinstance(settings.risk, Softmax)
    return replace(settings, risk=replace(settings.risk, positive_temperature=0.5))


def _cores() -> int:
    return min(8, os.cpu_count() or 1)


def _judging(data: Interactions) -> float:
    return 1000 * _RANKING * data.n_pairs / _cores()


def _walk_seconds(data: Interactions, device: Device) -> float:
    return 1e-6 * data.n_pairs + _judging(data)


def _filter_seconds(data: Interactions, device: Device) -> float:
    """Nine products with all pairs, and their bases orthogonalised."""
    width = 288
    n_products = 9 * 2 * data.n_pairs * width
    n_gram = 6 * data.n_items * width**2
    flops = _GPU_FLOPS / 50 if device.type == "cuda" else _cores() * _CPU_FLOPS / 5
    return (n_products + n_gram) / flops + _judging(data)


def _local_seconds(data: Interactions, device: Device) -> float:
    """Systems of 100 neighbours set up and solved; on a GPU of 200, a matrix of all being there."""
    if device.type == "cuda" and data.relative_weights is None:
        return data.n_items * 200**3 / (_GPU_FLOPS / 10)
    return data.n_items * (3.5e-8 * 100**2 + 100**3 / _CPU_FLOPS) / _cores() + _judging(data)


def _ease_seconds(data: Interactions, device: Device) -> float:
    flops = _GPU_FLOPS / 5 if device.type == "cuda" else _cores() * _CPU_FLOPS
    n_products = 1 if data.relative_weights is None else 2
    return n_products * data.n_items**3 / flops + 2e-8 * data.n_items**2


def solver_seconds(solver: AnySolver, data: Interactions, device: Device) -> float:
    """An estimate of one fit of a solver; 0 where there is none."""
    costs: dict[type, Cost] = {
        Walk: _walk_seconds,
        GraphFilter: _filter_seconds,
        LocalEASE: _local_seconds,
        EASE: _ease_seconds,
    }
    cost = costs.get(type(solver))
    return 0.0 if cost is None else cost(data, device)


def _knn_seconds(data: Interactions, device: Device) -> float:
    return 1e-8 * float((data.user_degrees**2).sum()) / _cores() + _judging(data)


def _wmf_seconds(data: Interactions, device: Device) -> float:
    flops = _GPU_FLOPS / 50 if device.type == "cuda" else _cores() * _CPU_FLOPS / 2
    return 15 * 4 * data.n_pairs * 64**2 / flops + _judging(data)


def _pairwise_seconds(data: Interactions, device: Device) -> float:
    return 5 + 2e-5 * data.n_pairs if device.type == "cuda" else 4e-4 * data.n_pairs / _cores()


def _learned_seconds(settings: Settings) -> Cost:
    """A few epochs over all pairs of users and items."""
    dimension = getattr(settings.encoder, "dimension", _LEARNED_ON_CPU)
    kind = settings.risk.name

    def seconds(data: Interactions, device: Device) -> float:
        n_flops, n_epochs = 10.0 * data.n_users * data.n_items * dimension, _EPOCHS[kind]
        if device.type == "cuda":
            per_epoch = n_flops / (2 * _GPU_FLOPS) + data.n_users / 2048 * _GPU_STEP
            return _GPU_START + n_epochs * per_epoch
        return n_epochs * n_flops / (_cores() * _CPU_FLOPS_OF_RISK)

    return seconds
