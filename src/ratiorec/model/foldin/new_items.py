"""New items of models to whom a user is a history: what the known items say of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ratiorec.model.foldin.linear import LearnedStep
from ratiorec.model.foldin.rules import Provenance
from ratiorec.scorers import Autoencoder, Indices, ItemWeights, Neighbours
from ratiorec.scorers.scorer import Pairs, UserItems, pairs_of, some_of
from ratiorec.solvers.settings import ItemKNN


@dataclass(frozen=True, eq=False)
class NewItems:
    """All pairs, and which items are to be made from them; the trained ones come first."""

    pairs: UserItems
    n_items: int
    remade: Indices
    trained: Provenance

    @property
    def share_of_training(self) -> float:
        """φ: of the pairs that the trained items have now, those that they had in training."""
        n_now = int((self.pairs.indices < self.trained.n_items).sum())
        return min(1.0, self.trained.n_pairs / max(1, n_now))

    @cached_property
    def by_item(self) -> UserItems:
        """The users of each item."""
        return transposed(self.pairs, self.n_items)

    def common_users(self, item: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For every item, the weights of the users it shares with this one added up."""
        users = self.by_item.indices[self.by_item.indptr[item] : self.by_item.indptr[item + 1]]
        rows, items = pairs_of(self.pairs, users.astype(np.int64))
        sums = np.bincount(items, weights=weights[users[rows]], minlength=self.n_items)
        return sums.astype(np.float64)


def with_new_neighbours(model: Neighbours, solver: ItemKNN, new: NewItems) -> Neighbours:
    """Every new item with its nearest, which are told of it, too (theory: F7)."""
    degrees, lengths = np.diff(new.by_item.indptr), np.diff(new.pairs.indptr)
    weights = np.maximum(lengths, 1) ** -float(solver.user_exponent)
    told = np.repeat(np.arange(model.n_items), np.diff(model.indptr))
    stays = ~(np.isin(told, new.remade) | np.isin(model.indices, new.remade))
    rows, columns = [told[stays]], [model.indices[stays].astype(np.int64)]
    values = [model.values[stays]]
    for item in new.remade.tolist():
        common = new.common_users(item, weights)
        similar = common / (np.sqrt(degrees * degrees[item]) + solver.shrinkage)
        similar[item] = 0
        near = np.argsort(-similar, kind="stable")[: solver.n_neighbours]
        near = near[similar[near] > 0]
        itself = np.full(len(near), item)
        rows += [near, itself]
        columns += [itself, near]
        values += [similar[near].astype(np.float32)] * 2
    # two new items may have named each other
    keys = np.concatenate(rows) * new.n_items + np.concatenate(columns)
    kept, first = np.unique(keys, return_index=True)
    indptr = np.searchsorted(kept, np.arange(new.n_items + 1) * new.n_items)
    indices = (kept % new.n_items).astype(np.int32)
    return Neighbours(indptr, indices, np.concatenate(values)[first], new.pairs)


def with_new_weights(
    model: ItemWeights, precisions: NDArray[np.float32], new: NewItems
) -> ItemWeights:
    """Every new item by its ridge regression on the trained ones (theory: F7).

    b = φ² (I − B)·diag(P)·g, g the users that each trained item shares with it.
    """
    n_more, n_trained = new.n_items - model.n_items, new.trained.n_items
    weights = np.pad(model.weights, ((0, n_more), (0, n_more)))
    trained, ones = model.weights[:n_trained, :n_trained], np.ones(new.pairs.n_users)
    scaled = np.float32(new.share_of_training**2) * precisions
    for item in new.remade.tolist():
        shared = new.common_users(item, ones)[:n_trained].astype(np.float32)
        gains = scaled * shared
        weights[:n_trained, item] = gains - trained @ gains
    return ItemWeights(weights, new.pairs, precisions)


def with_new_outputs(model: Autoencoder, new: NewItems) -> Autoencoder:
    """Every new item by the mirrored learned step; of the others it says nothing (theory: F7)."""
    everyone = np.arange(new.pairs.n_users)
    by_trained = model.with_histories(items_before(new.pairs, everyone, new.trained.n_items))
    of_trained = some_of(new.by_item, np.arange(new.trained.n_items))
    step = LearnedStep.learnt(
        model.item_vectors[: new.trained.n_items], by_trained.user_vectors(everyone), of_trained
    )
    vectors = step.at(new.by_item, new.remade)
    arrays, n_more = model.arrays(), new.n_items - model.n_items
    arrays["item_in"] = np.pad(arrays["item_in"], ((0, n_more), (0, 0)))
    arrays["item_out"] = np.pad(arrays["item_out"], ((0, n_more), (0, 0)))
    arrays["bias_out"] = np.pad(arrays["bias_out"], (0, n_more))
    arrays["item_out"][new.remade] = vectors[:, :-1]
    arrays["bias_out"][new.remade] = vectors[:, -1]
    return Autoencoder.from_arrays(arrays, new.pairs)


def items_before(pairs: Pairs, users: Indices, n_items: int) -> UserItems:
    """The histories of some users, less the items from `n_items` on."""
    rows, listed = pairs_of(pairs, users)
    kept = listed < n_items
    ends = np.searchsorted(rows[kept], np.arange(len(users) + 1))
    return UserItems(ends, listed[kept])


def transposed(pairs: Pairs, n_items: int) -> UserItems:
    """The users of each item."""
    users = np.repeat(np.arange(len(pairs.indptr) - 1, dtype=np.int32), np.diff(pairs.indptr))
    counts = np.bincount(pairs.indices, minlength=n_items)
    order = np.argsort(pairs.indices, kind="stable")
    return UserItems(np.concatenate([[0], np.cumsum(counts)]), users[order])
