"""A small scorer of every kind, random but always the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ratiorec.scorers import (
    Autoencoder,
    InnerProduct,
    ItemWeights,
    Neighbours,
    PopularityScorer,
    StoredScorer,
)
from ratiorec.scorers.scorer import UserItems

Maker = Callable[[UserItems, int], StoredScorer]


def rows_of(lists: list[list[int]]) -> UserItems:
    """Histories as they are listed."""
    indptr = np.cumsum([0, *map(len, lists)])
    return UserItems(indptr, np.array([i for items in lists for i in items], np.int32))


def random_rows(n_users: int, n_items: int, *, longest: int = 12, seed: int = 0) -> UserItems:
    """Histories of any length up to `longest`; the first user has none."""
    rng = np.random.default_rng([n_users, n_items, seed])
    lengths = rng.integers(0, min(longest, n_items) + 1, n_users)
    lengths[:1] = 0
    return rows_of([sorted(rng.choice(n_items, n, replace=False).tolist()) for n in lengths])


def random_floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def inner_product(histories: UserItems, n_items: int) -> InnerProduct:
    return InnerProduct(random_floats(histories.n_users, 12), random_floats(n_items, 12))


def popularity(histories: UserItems, n_items: int) -> PopularityScorer:
    counts = np.bincount(histories.indices, minlength=n_items).astype(np.float32)
    return PopularityScorer(counts, histories.n_users)


def item_weights(histories: UserItems, n_items: int) -> ItemWeights:
    return ItemWeights(random_floats(n_items, n_items), histories)


def neighbours(histories: UserItems, n_items: int) -> Neighbours:
    rows = random_rows(n_items, n_items, seed=1)
    return Neighbours(rows.indptr, rows.indices, random_floats(len(rows.indices)), histories)


def autoencoder(
    histories: UserItems, n_items: int, *, n_hidden: int = 20, n_latent: int = 7
) -> Autoencoder:
    rng = np.random.default_rng(n_items)

    def layer(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    return Autoencoder(
        item_in=layer(n_items, n_hidden),
        bias_in=layer(n_hidden),
        to_latent=layer(n_hidden, n_latent),
        bias_latent=layer(n_latent),
        from_latent=layer(n_latent, n_hidden),
        bias_hidden=layer(n_hidden),
        item_out=layer(n_items, n_hidden),
        bias_out=layer(n_items),
        histories=histories,
    )


MAKERS: Mapping[str, Maker] = {
    InnerProduct.kind: inner_product,
    PopularityScorer.kind: popularity,
    ItemWeights.kind: item_weights,
    Neighbours.kind: neighbours,
    Autoencoder.kind: autoencoder,
}
