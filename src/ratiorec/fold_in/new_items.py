"""New items of models to whom a user is a history: what the known items say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.fold_in.learned_step import LearnedStep
from ratiorec.scorers import Autoencoder, Indices, ItemWeights, Neighbours
from ratiorec.seen import Pairs, SeenItems, pairs_of


def with_new_neighbours(
    model: Neighbours, solver: Mapping[str, Any], pairs: SeenItems, by_item: SeenItems
) -> Neighbours:
    """Every new item with its nearest, which are told of it, too (theory: F7)."""
    n_known, n_items = model.n_items, by_item.n_users
    degrees, lengths = np.diff(by_item.indptr), np.diff(pairs.indptr)
    weights = np.maximum(lengths, 1) ** -float(solver["user_exponent"])
    rows = [np.repeat(np.arange(n_known), np.diff(model.indptr))]
    columns, values = [model.indices.astype(np.int64)], [model.values]
    for item in range(n_known, n_items):
        common = _common_users(item, pairs, by_item, weights)
        similar = common / (np.sqrt(degrees * degrees[item]) + solver["shrinkage"])
        similar[item] = 0
        near = np.argsort(-similar, kind="stable")[: solver["n_neighbours"]]
        near = near[similar[near] > 0]
        itself = np.full(len(near), item)
        rows += [near, itself]
        columns += [itself, near]
        values += [similar[near].astype(np.float32)] * 2
    # two new items may have named each other
    keys = np.concatenate(rows) * n_items + np.concatenate(columns)
    kept, first = np.unique(keys, return_index=True)
    indptr = np.searchsorted(kept, np.arange(n_items + 1) * n_items)
    indices = (kept % n_items).astype(np.int32)
    return Neighbours(indptr, indices, np.concatenate(values)[first], pairs)


def with_new_weights(
    model: ItemWeights, solver: Mapping[str, Any], pairs: SeenItems, by_item: SeenItems
) -> ItemWeights:
    """Every new item by its ridge regression on the known ones (theory: F7).

    b = (I − B)·diag(P)·g, g the users that each known item shares with it, and P_jj from what
    B and the pairs of training say.
    """
    n_known, n_new = model.n_items, by_item.n_users - model.n_items
    weights = np.pad(model.weights, ((0, n_new), (0, n_new)))
    ones = np.ones(pairs.n_users)
    old = SeenItems(model.histories.indptr, model.histories.indices)
    old_by_item = transposed(old, n_known)
    for item in range(n_known, n_known + n_new):
        shared = _common_users(item, pairs, by_item, ones)[:n_known]
        near = np.flatnonzero(shared)
        column = np.zeros(n_known)
        for other in near:
            gram = _common_users(int(other), old, old_by_item, ones[: old.n_users])
            of_other = -model.weights[:, other].astype(np.float64)
            of_other[other] = 1
            column += shared[other] / (gram @ of_other + solver["penalty"]) * of_other
        weights[:n_known, item] = column
    return ItemWeights(weights, pairs)


def with_new_outputs(model: Autoencoder, pairs: SeenItems, by_item: SeenItems) -> Autoencoder:
    """Every new item by the mirrored learned step; of the others it says nothing (theory: F7)."""
    n_known = model.n_items
    users = model.user_vectors(np.arange(model.n_users))
    users = np.pad(users, ((0, pairs.n_users - len(users)), (0, 0)))
    known = SeenItems(by_item.indptr[: n_known + 1], by_item.indices[: by_item.indptr[n_known]])
    step = LearnedStep.learnt(model.item_vectors, users, known)
    vectors = step.at(by_item, np.arange(n_known, by_item.n_users))
    arrays = model.arrays()
    arrays["item_in"] = np.pad(arrays["item_in"], ((0, len(vectors)), (0, 0)))
    arrays["item_out"] = np.concatenate([arrays["item_out"], vectors[:, :-1]])
    arrays["bias_out"] = np.concatenate([arrays["bias_out"], vectors[:, -1]])
    return Autoencoder.from_arrays(arrays, pairs)


def transposed(pairs: Pairs, n_items: int) -> SeenItems:
    """The users of each item."""
    users = np.repeat(np.arange(len(pairs.indptr) - 1, dtype=np.int32), np.diff(pairs.indptr))
    counts = np.bincount(pairs.indices, minlength=n_items)
    order = np.argsort(pairs.indices, kind="stable")
    return SeenItems(np.concatenate([[0], np.cumsum(counts)]), users[order])


def _common_users(
    item: int, pairs: SeenItems, by_item: SeenItems, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For every item, the weights of the users it shares with this one added up."""
    users: Indices = by_item.indices[by_item.indptr[item] : by_item.indptr[item + 1]].astype(
        np.int64
    )
    rows, items = pairs_of(pairs, users)
    sums = np.bincount(items, weights=weights[users[rows]], minlength=by_item.n_users)
    return sums.astype(np.float64)
