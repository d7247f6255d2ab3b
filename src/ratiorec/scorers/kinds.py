"""The kinds of scorer by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ratiorec.scorers.autoencoder import Autoencoder
from ratiorec.scorers.factors import InnerProduct
from ratiorec.scorers.item_item import ItemWeights, Neighbours
from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import StoredScorer

_KINDS: tuple[type[StoredScorer], ...] = (
    InnerProduct,
    PopularityScorer,
    ItemWeights,
    Neighbours,
    Autoencoder,
)

SCORERS: Mapping[str, type[StoredScorer]] = MappingProxyType({kind.kind: kind for kind in _KINDS})
"""The kinds of scorer a model folder may hold."""
