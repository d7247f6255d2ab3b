"""Scores of users against all items: the one thing ranking asks of a model."""

from ratiorec.scorers.autoencoder import Autoencoder
from ratiorec.scorers.factors import InnerProduct, WithFallbackUser, by_cosine, with_fallback_users
from ratiorec.scorers.item_item import ItemWeights, Neighbours
from ratiorec.scorers.kinds import SCORERS
from ratiorec.scorers.popularity import PopularityScorer
from ratiorec.scorers.scorer import (
    Factored,
    FloatMatrix,
    FromHistories,
    Indices,
    Scorer,
    StoredScorer,
)

__all__ = [
    "SCORERS",
    "Autoencoder",
    "Factored",
    "FloatMatrix",
    "FromHistories",
    "Indices",
    "InnerProduct",
    "ItemWeights",
    "Neighbours",
    "PopularityScorer",
    "Scorer",
    "StoredScorer",
    "WithFallbackUser",
    "by_cosine",
    "with_fallback_users",
]
