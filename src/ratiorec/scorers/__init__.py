"""Scores of users against all items: the one thing ranking asks of a model."""

from ratiorec.scorers.autoencoder import Autoencoder
from ratiorec.scorers.histories import FromHistories
from ratiorec.scorers.inner_product import InnerProduct, by_cosine
from ratiorec.scorers.item_item import ItemWeights, Neighbours
from ratiorec.scorers.kinds import SCORERS
from ratiorec.scorers.popularity import Popularity
from ratiorec.scorers.protocol import Factored, FloatMatrix, Indices, Scorer, StoredScorer
from ratiorec.scorers.stranger import WithStranger, with_strangers

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
    "Popularity",
    "Scorer",
    "StoredScorer",
    "WithStranger",
    "by_cosine",
    "with_strangers",
]
