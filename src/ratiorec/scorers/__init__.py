"""Scorers: scores of users against all items, the one thing ranking asks of a model."""

from collections.abc import Mapping
from types import MappingProxyType

from ratiorec.scorers.autoencoder import Autoencoder
from ratiorec.scorers.blend import Blend
from ratiorec.scorers.cold_items import ColdItems, Mix
from ratiorec.scorers.factors import InnerProduct, by_cosine
from ratiorec.scorers.item_factors import ItemFactors
from ratiorec.scorers.item_item import ItemWeights, Neighbours
from ratiorec.scorers.more_users import WithMoreUsers, with_unknown_users
from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import (
    Factored,
    FloatMatrix,
    FromHistories,
    Indices,
    Scorer,
    StoredScorer,
)
from ratiorec.scorers.walk import GraphFilterScorer, WalkScorer

SCORERS: Mapping[str, type[StoredScorer]] = MappingProxyType(
    {
        InnerProduct.kind: InnerProduct,
        PopularityScorer.kind: PopularityScorer,
        ItemWeights.kind: ItemWeights,
        Neighbours.kind: Neighbours,
        Autoencoder.kind: Autoencoder,
        Blend.kind: Blend,
        ColdItems.kind: ColdItems,
        ItemFactors.kind: ItemFactors,
        WalkScorer.kind: WalkScorer,
        GraphFilterScorer.kind: GraphFilterScorer,
    }
)
"""The kinds of scorer that a model folder may hold, by name."""

__all__ = [
    "SCORERS",
    "Autoencoder",
    "Blend",
    "ColdItems",
    "Factored",
    "FloatMatrix",
    "FromHistories",
    "GraphFilterScorer",
    "Indices",
    "InnerProduct",
    "ItemFactors",
    "ItemWeights",
    "Mix",
    "Neighbours",
    "PopularityScorer",
    "Scorer",
    "StoredScorer",
    "WalkScorer",
    "WithMoreUsers",
    "by_cosine",
    "with_unknown_users",
]
