"""The names of parts: the only place where a name becomes a part and a part becomes a name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ratiorec.data import samplers
from ratiorec.data.batches import UserBatches
from ratiorec.data.pair_batches import EqualUsers, EveryPair, PairBatches
from ratiorec.encoders.enmf import ENMF
from ratiorec.encoders.factorisation import Factorisation
from ratiorec.encoders.initial import Normal, Xavier
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.encoders.ngcf import NGCF
from ratiorec.encoders.spectral import Spectral
from ratiorec.encoders.variational import Variational
from ratiorec.risk import weights
from ratiorec.risk.bregman import GENERATORS
from ratiorec.risk.correction import SAMPLING
from ratiorec.risk.density_ratio import DensityRatio
from ratiorec.risk.fused.choice import EXECUTIONS
from ratiorec.risk.multinomial import Multinomial
from ratiorec.risk.pairwise import BPR
from ratiorec.risk.plain import WeightedDRE, WeightedPU
from ratiorec.risk.whole_data import WholeData
from ratiorec.schedules import Constant, Falling
from ratiorec.scores import LINKS
from ratiorec.solvers.ease import EASE
from ratiorec.solvers.implicit_als import ImplicitALS
from ratiorec.solvers.item_knn import ItemKNN
from ratiorec.solvers.popularity import Popularity
from ratiorec.solvers.wmf import WMF

# fields that hold one of several constants, chosen by name
CONSTANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "generator": GENERATORS,
        "link": LINKS,
        "sampling": SAMPLING,
        "execution": EXECUTIONS,
    }
)
# fields that hold one of several kinds of part, each with settings of its own
KINDS: Mapping[str, Mapping[str, type]] = MappingProxyType(
    {
        "encoder": {
            "lightgcn": LightGCN,
            "factorisation": Factorisation,
            "ngcf": NGCF,
            "enmf": ENMF,
            "variational": Variational,
        },
        "initial": {"xavier": Xavier, "normal": Normal, "spectral": Spectral},
        "risk": {
            "density-ratio": DensityRatio,
            "weighted-dre": WeightedDRE,
            "weighted-pu": WeightedPU,
            "bpr": BPR,
            "whole-data": WholeData,
            "multinomial": Multinomial,
        },
        "weights": {
            "hard-sample": weights.HardSample,
            "uniform": weights.Uniform,
            "popularity": weights.Popularity,
            "confident": weights.Confident,
        },
        "batches": {"users": UserBatches, "pairs": PairBatches},
        "sampler": {
            "uniform": samplers.Uniform,
            "popularity": samplers.Popularity,
            "dynamic": samplers.Dynamic,
        },
        "schedule": {"constant": Constant, "falling": Falling},
        "dealing": {"every-pair": EveryPair, "equal-users": EqualUsers},
        "solver": {
            "popularity": Popularity,
            "item-knn": ItemKNN,
            "ease": EASE,
            "wmf": WMF,
            "implicit-als": ImplicitALS,
        },
    }
)
