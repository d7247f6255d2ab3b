"""Named configurations: the paper's method, its ablations, and what it is compared with.

`docs/rivals.md` has the formula, the reference and the origin of the settings of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ratiorec.encoders.settings import (
    ENMF,
    NGCF,
    Factorisation,
    ItemsOnly,
    LightGCN,
    MultVAE,
    Normal,
    Spectral,
)
from ratiorec.losses.bpr import BPR
from ratiorec.losses.density_ratio import (
    ConstantPositiveWeight,
    DensityRatio,
    PopularityWeights,
    UniformWeights,
)
from ratiorec.losses.generators import RelativeRatio
from ratiorec.losses.multinomial import Multinomial
from ratiorec.losses.softmax import Softmax
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.losses.whole_data import WholeData
from ratiorec.settings import (
    InverseTimeDecay,
    ModelSettings,
    PairBatches,
    Settings,
    SolverSettings,
    Training,
    TwoStageSettings,
    UniformSampler,
    UserBatches,
)
from ratiorec.solvers.settings import (
    EASE,
    WMF,
    GraphFilter,
    ImplicitALS,
    ItemKNN,
    LocalEASE,
    PopularitySolver,
    Walk,
)

AUTO = "auto"  # the default: the best blend of these that the time allows
DREGN_CF = Settings()
UNIFORM = Settings(risk=DensityRatio(weights=UniformWeights()))

_PAIRS = PairBatches(65536, pair_order="user-balanced", min_steps_per_epoch=20)
# LightGCN's graph has no self loops, and its vectors start a hundred times larger
_LIGHTGCN = Settings(
    encoder=LightGCN(self_loops=False, init=Normal(0.1)),
    risk=BPR(),
    batches=_PAIRS,
    training=Training(
        learning_rate=0.005, l2=3e-4, validate_every_epochs=10, extra_patience_fraction=0.25
    ),
)
# the Kullback-Leibler member: cosines, and every pair counts equally
_SOFTMAX = Settings(
    encoder=LightGCN(512, n_layers=2, self_loops=False, init=Normal(0.1), normalize=True),
    risk=Softmax(),
    batches=UserBatches(2048, min_steps_per_epoch=10),
    training=Training(learning_rate=0.01, l2=0.0, validate_every_epochs=3, patience=2),
)

PRESETS: Mapping[str, ModelSettings] = MappingProxyType(
    {
        # the paper's full method: row (h) of its ablation
        "dregn-cf": DREGN_CF,
        # the same model from a start that knows the pairs, in fewer and longer steps
        "dregn-cf-fast": Settings(
            encoder=LightGCN(init=Spectral()),
            batches=UserBatches(2500, min_steps_per_epoch=10),
            training=Training(
                learning_rate=0.06,
                lr_schedule=InverseTimeDecay(120),
                validate_every_epochs=1,
                min_steps_between_validations=24,
            ),
        ),
        # a ratio that cannot exceed 5, in place of the bound on the term (theory, B7)
        "dregn-cf-relative": Settings(
            risk=DensityRatio(RelativeRatio(mixing=0.05), upper_bound=math.inf)
        ),
        # the same risk on free vectors: no graph, cheaper steps
        "dre-mf": Settings(encoder=Factorisation()),
        # another member of the paper's family, and the same without a table of users
        "softmax": _SOFTMAX,
        "items-only": replace(_SOFTMAX, encoder=ItemsOnly(512)),
        # rows (a) to (g) of the ablation
        # probabilities near a thousandth lie where the link is flat; confident positives are not
        "pu": Settings(
            risk=WeightedPU(weights=ConstantPositiveWeight(3000)), training=Training(l2=0.01)
        ),
        "dre": Settings(risk=WeightedDRE()),
        "dregn-cf-no-is": Settings(risk=DensityRatio(candidate_correction="none")),
        "dregn-cf-no-nn": Settings(risk=DensityRatio(upper_bound=math.inf)),
        "dregn-cf-uniform": UNIFORM,
        "dregn-cf-popularity": Settings(risk=DensityRatio(weights=PopularityWeights(0.5))),
        # a first model that has learnt the order turns it round, so it is stopped early
        "dregn-cf-static": TwoStageSettings(
            first=replace(UNIFORM, training=Training(epochs=5)), second=DREGN_CF
        ),
        # systems that the paper compares with
        "lightgcn": _LIGHTGCN,
        "lightgcn-dns": replace(
            _LIGHTGCN,
            risk=BPR(hardest=True),
            batches=replace(_PAIRS, sampler=UniformSampler(n_negatives=8)),
        ),
        "ngcf": replace(
            _LIGHTGCN,
            encoder=NGCF(),
            batches=replace(_PAIRS, n_pairs=32768),
            training=replace(_LIGHTGCN.training, learning_rate=0.003, l2=3e-3),
        ),
        "mult-vae": Settings(
            encoder=MultVAE(dropout=0.85, anneal_steps=2000),
            risk=Multinomial(),
            batches=UserBatches(500, min_steps_per_epoch=10),
            training=Training(learning_rate=0.001, l2=0.2, validate_every_epochs=10),
        ),
        "enmf": Settings(
            encoder=ENMF(),
            risk=WholeData(0.015),
            batches=UserBatches(2500, min_steps_per_epoch=10),
            training=Training(learning_rate=0.01, l2=0.0),
        ),
        "bpr-mf": replace(_LIGHTGCN, encoder=Factorisation(init=Normal(0.1))),
        "wmf": SolverSettings(WMF()),
        # what one would try first
        "popularity": SolverSettings(PopularitySolver()),
        "item-knn": SolverSettings(ItemKNN()),
        "ease": SolverSettings(EASE()),
        # closed forms: EASE without popularity and activity, in full and for large catalogues
        "dan": SolverSettings(EASE(20.0, 0.2, 0.3, 0.6)),
        "local-ease": SolverSettings(LocalEASE()),
        "walk": SolverSettings(Walk()),
        "graph-filter": SolverSettings(GraphFilter()),
        "implicit-als": SolverSettings(ImplicitALS()),
    }
)
