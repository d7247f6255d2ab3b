"""Named configurations: the paper's method, its ablations, and what it is compared with.

`docs/rivals.md` has the formula, the reference and the origin of the settings of each.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ratiorec.data import samplers
from ratiorec.data.batches import UserBatches
from ratiorec.data.pair_batches import EqualUsers, PairBatches
from ratiorec.encoders.enmf import ENMF
from ratiorec.encoders.factorisation import Factorisation
from ratiorec.encoders.initial import Normal
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.encoders.ngcf import NGCF
from ratiorec.encoders.spectral import Spectral
from ratiorec.encoders.variational import Variational
from ratiorec.errors import ConfigError
from ratiorec.risk.correction import as_sampled
from ratiorec.risk.density_ratio import DensityRatio
from ratiorec.risk.multinomial import Multinomial
from ratiorec.risk.pairwise import BPR
from ratiorec.risk.plain import WeightedDRE, WeightedPU
from ratiorec.risk.weights import Confident, Popularity, Uniform
from ratiorec.risk.whole_data import WholeData
from ratiorec.schedules import Falling
from ratiorec.settings import AnySettings, Settings, Solved, TwoStage
from ratiorec.solvers import popularity
from ratiorec.solvers.ease import EASE
from ratiorec.solvers.implicit_als import ImplicitALS
from ratiorec.solvers.item_knn import ItemKNN
from ratiorec.solvers.wmf import WMF
from ratiorec.training import Training

DREGN_CF = Settings()
UNIFORM = Settings(risk=DensityRatio(weights=Uniform()))

_PAIRS = PairBatches(65536, dealing=EqualUsers(), least_steps=20)
# LightGCN's graph has no self loops, and its vectors start a hundred times larger
_LIGHTGCN = Settings(
    encoder=LightGCN(self_loops=False, initial=Normal(0.1)),
    risk=BPR(),
    batches=_PAIRS,
    training=Training(learning_rate=0.005, penalty=3e-4, validate_every=10, tail=0.25),
)

PRESETS: Mapping[str, AnySettings] = MappingProxyType(
    {
        # the paper's full method: row (h) of its ablation
        "dregn-cf": DREGN_CF,
        # the same model from a start that knows the pairs, in fewer and longer steps
        "dregn-cf-fast": Settings(
            encoder=LightGCN(initial=Spectral()),
            batches=UserBatches(2500, least_steps=10),
            training=Training(
                learning_rate=0.06, schedule=Falling(120), validate_every=1, steps_between=24
            ),
        ),
        # the same risk on free vectors: no graph, cheaper steps
        "dre-mf": Settings(encoder=Factorisation()),
        # rows (a) to (g) of the ablation
        # probabilities near a thousandth lie where the link is flat; confident positives are not
        "pu": Settings(risk=WeightedPU(weights=Confident(3000)), training=Training(penalty=0.01)),
        "dre": Settings(risk=WeightedDRE()),
        "dregn-cf-no-is": Settings(risk=DensityRatio(sampling=as_sampled)),
        "dregn-cf-no-nn": Settings(risk=DensityRatio(upper_bound=math.inf)),
        "dregn-cf-uniform": UNIFORM,
        "dregn-cf-popularity": Settings(risk=DensityRatio(weights=Popularity(0.5))),
        # a first model that has learnt the order turns it round, so it is stopped early
        "dregn-cf-static": TwoStage(
            first=replace(UNIFORM, training=Training(epochs=5)), second=DREGN_CF
        ),
        # systems that the paper compares with
        "lightgcn": _LIGHTGCN,
        "lightgcn-dns": replace(_LIGHTGCN, batches=replace(_PAIRS, sampler=samplers.Dynamic(8))),
        "ngcf": replace(
            _LIGHTGCN,
            encoder=NGCF(),
            batches=replace(_PAIRS, n_pairs=32768),
            training=replace(_LIGHTGCN.training, learning_rate=0.003, penalty=3e-3),
        ),
        "mult-vae": Settings(
            encoder=Variational(dropout=0.85, anneal_steps=2000),
            risk=Multinomial(),
            batches=UserBatches(500, least_steps=10),
            training=Training(learning_rate=0.001, penalty=0.2, validate_every=10),
        ),
        "enmf": Settings(
            encoder=ENMF(),
            risk=WholeData(0.015),
            batches=UserBatches(2500, least_steps=10),
            training=Training(learning_rate=0.01, penalty=0.0),
        ),
        "bpr-mf": replace(_LIGHTGCN, encoder=Factorisation(initial=Normal(0.1))),
        "wmf": Solved(WMF()),
        # what one would try first
        "popularity": Solved(popularity.Popularity()),
        "item-knn": Solved(ItemKNN()),
        "ease": Solved(EASE()),
        "implicit-als": Solved(ImplicitALS()),
    }
)


def preset(name: str) -> AnySettings:
    """The settings under this name."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            "unknown preset",
            where="--preset",
            found=repr(name),
            wanted="one of " + ", ".join(PRESETS) + hint,
        )
    return PRESETS[name]
