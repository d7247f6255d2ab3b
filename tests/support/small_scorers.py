"""A small scorer of every kind, random but always the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import scipy.sparse

from ratiorec.scorers import (
    Autoencoder,
    Blend,
    ColdItems,
    GraphFilterScorer,
    InnerProduct,
    ItemFactors,
    ItemWeights,
    Mix,
    Neighbours,
    PopularityScorer,
    StoredScorer,
    WalkScorer,
)
from ratiorec.scorers.blend import Narrowing
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


def item_factors(histories: UserItems, n_items: int) -> ItemFactors:
    return ItemFactors(random_floats(n_items, 9), random_floats(n_items, 9)[::-1], histories)


def walk(histories: UserItems, n_items: int) -> WalkScorer:
    return WalkScorer.over(histories, np.array([0.7, 1, 0.3], np.float32), n_items)


def graph_filter(histories: UserItems, n_items: int) -> GraphFilterScorer:
    values, gains = np.linspace(1, 0.5, 6, dtype=np.float32), random_floats(6)
    vectors, linear = random_floats(n_items, 6), np.array([1.3], np.float32)
    return GraphFilterScorer(walk(histories, n_items), vectors, values, gains, linear)


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


def blend(histories: UserItems, n_items: int) -> Blend:
    makers = (inner_product, neighbours, item_factors, popularity)
    members = tuple(make(histories, n_items) for make in makers)
    maps = Narrowing(random_floats(12 + 9, 15), random_floats(12 + 9, 15))
    return Blend(members, np.array([0.5, 0.25, 0.15, 0.1], np.float32), maps)


def random_mix(n_known: int, n_new: int) -> Mix:
    """New items that are each like a few of the known ones."""
    rows = random_rows(n_known, 8, longest=5, seed=2)
    values = random_floats(len(rows.indices))
    features = scipy.sparse.csr_array((values, rows.indices, rows.indptr), shape=(n_known, 8))
    return Mix(features, random_floats(n_new, 8) / np.float32(n_known))


def cold_items(histories: UserItems, n_items: int) -> ColdItems:
    n_new = min(5, n_items // 2)
    known = inner_product(histories, n_items - n_new)
    return ColdItems(known, random_mix(n_items - n_new, n_new))


MAKERS: Mapping[str, Maker] = {
    InnerProduct.kind: inner_product,
    PopularityScorer.kind: popularity,
    ItemWeights.kind: item_weights,
    Neighbours.kind: neighbours,
    Autoencoder.kind: autoencoder,
    ItemFactors.kind: item_factors,
    WalkScorer.kind: walk,
    GraphFilterScorer.kind: graph_filter,
    Blend.kind: blend,
    ColdItems.kind: cold_items,
}
