"""Top-K recommendation from implicit feedback by density-ratio estimation.

The pipeline, one way: a source gives `Interactions`; `fit` splits them, makes batches, encodes
users and items as `Embeddings` and minimises a loss by gradients; the result is an `Artifact`,
which recommends, is evaluated, and is saved.

    import ratiorec as rr

    model = rr.fit(frame)
    model.recommend(["alice"], k=20)

Importing this module loads none of its parts: each public name is found when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Artifact": "ratiorec.model.artifact",
    "Columns": "ratiorec.data.formats",
    "Dataset": "ratiorec.data.interactions",
    "FitOptions": "ratiorec.training.fit",
    "IdTable": "ratiorec.catalogue.tables",
    "Interactions": "ratiorec.data.interactions",
    "Loss": "ratiorec.losses",
    "PresetComparison": "ratiorec.api",
    "Query": "ratiorec.model.query",
    "RatioRec": "ratiorec.estimator",
    "RatiorecError": "ratiorec.errors",
    "Rules": "ratiorec.reranking.rules",
    "Settings": "ratiorec.settings",
    "Vocabulary": "ratiorec.data.vocabulary",
    "compare": "ratiorec.api",
    "evaluate": "ratiorec.api",
    "fit": "ratiorec.api",
    "load": "ratiorec.data.benchmarks",
    "read": "ratiorec.api",
}

__all__ = [
    "Artifact",
    "Columns",
    "Dataset",
    "FitOptions",
    "IdTable",
    "Interactions",
    "Loss",
    "PresetComparison",
    "Query",
    "RatioRec",
    "RatiorecError",
    "Rules",
    "Settings",
    "Vocabulary",
    "__version__",
    "compare",
    "evaluate",
    "fit",
    "load",
    "read",
]

if TYPE_CHECKING:
    from ratiorec.api import PresetComparison, compare, evaluate, fit, read
    from ratiorec.catalogue.tables import IdTable
    from ratiorec.data.benchmarks import load
    from ratiorec.data.formats import Columns
    from ratiorec.data.interactions import Dataset, Interactions
    from ratiorec.data.vocabulary import Vocabulary
    from ratiorec.errors import RatiorecError
    from ratiorec.estimator import RatioRec
    from ratiorec.losses import Loss
    from ratiorec.model.artifact import Artifact
    from ratiorec.model.query import Query
    from ratiorec.reranking.rules import Rules
    from ratiorec.settings import Settings
    from ratiorec.training.fit import FitOptions


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
