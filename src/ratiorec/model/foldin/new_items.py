"""New items of models to whom a user is a history: what the known items say of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.model.foldin.linear import LearnedStep
from ratiorec.model.foldin.rules import Provenance
from ratiorec.scorers import (
    Autoencoder,
    FloatMatrix,
    GraphFilterScorer,
    Indices,
    ItemFactors,
    ItemWeights,
    Neighbours,
    WalkScorer,
)
from ratiorec.scorers.scorer import Pairs, UserItems, history_rows, pairs_of, some_of
from ratiorec.solvers.settings import EASE, ItemKNN, LocalEASE, Walk


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

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """How many users each item has, but 1 at least."""
        return np.maximum(np.diff(self.by_item.indptr), 1)

    def activity_weights(self, exponent: float) -> NDArray[np.float64]:
        """|I_u|^−exponent of every user."""
        weights: NDArray[np.float64] = np.maximum(np.diff(self.pairs.indptr), 1) ** -float(exponent)
        return weights

    def common_users(self, item: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For every item, the weights of the users it shares with this one added up."""
        users = self.by_item.indices[self.by_item.indptr[item] : self.by_item.indptr[item + 1]]
        rows, items = pairs_of(self.pairs, users.astype(np.int64))
        sums = np.bincount(items, weights=weights[users[rows]], minlength=self.n_items)
        return sums.astype(np.float64)


NeighbourSolver = ItemKNN | Walk | LocalEASE
Told = tuple[Indices, NDArray[np.float64], NDArray[np.float64]]
"""The neighbours of an item, what they say of it, and what it says of them."""


def with_new_neighbours(model: Neighbours, solver: NeighbourSolver, new: NewItems) -> Neighbours:
    """Every new item with its nearest, which are told of it, too (theory: F7)."""
    told = np.repeat(np.arange(model.n_items), np.diff(model.indptr))
    stays = ~(np.isin(told, new.remade) | np.isin(model.indices, new.remade))
    rows, columns = [told[stays]], [model.indices[stays].astype(np.int64)]
    values = [model.values[stays]]
    tell = _regressed if isinstance(solver, LocalEASE) else _similar
    for item in new.remade.tolist():
        near, of_it, by_it = tell(item, solver, new)
        itself = np.full(len(near), item)
        rows += [near, itself]
        columns += [itself, near]
        values += [of_it.astype(np.float32), by_it.astype(np.float32)]
    # two new items may have named each other
    keys = np.concatenate(rows) * new.n_items + np.concatenate(columns)
    kept, first = np.unique(keys, return_index=True)
    indptr = np.searchsorted(kept, np.arange(new.n_items + 1) * new.n_items)
    indices = (kept % new.n_items).astype(np.int32)
    return Neighbours(indptr, indices, np.concatenate(values)[first], new.pairs)


def _similar(item: int, solver: Any, new: NewItems) -> Told:
    """By the similarity of training, to the item and from it."""
    common = new.common_users(item, new.activity_weights(solver.user_exponent))
    if isinstance(solver, ItemKNN):
        of_it = common / (np.sqrt(new.degrees * new.degrees[item]) + solver.shrinkage)
        by_it = of_it
    else:
        a, _, c = solver.exponents
        of_it = common * new.degrees**-a * new.degrees[item] ** -c
        by_it = common * new.degrees[item] ** -a * new.degrees**-c
    near = _nearest(of_it, item, solver.n_neighbours)
    return near, of_it[near], by_it[near]


def _regressed(item: int, solver: Any, new: NewItems) -> Told:
    """By a regression of its own on trained items; of these it says nothing."""
    weights = new.activity_weights(solver.activity_exponent)
    common = new.common_users(item, weights)
    common[new.trained.n_items :] = 0
    near = _nearest(common / np.sqrt(new.degrees), item, solver.n_neighbours)
    pairs = history_rows(new.by_item, near, new.pairs.n_users)
    gram = ((pairs * weights) @ pairs.T).toarray().astype(np.float64)
    gram[np.diag_indices(len(near))] += solver.ridges(new.degrees[near])
    powers = solver.popularity(new.degrees)
    found = np.linalg.solve(gram, common[near]) * powers[near] / powers[item]
    return near, found, np.zeros(len(near))


def _nearest(similarities: NDArray[np.float64], item: int, n: int) -> Indices:
    similarities = similarities.copy()
    similarities[item] = 0
    near = np.argsort(-similarities, kind="stable")[:n]
    return near[similarities[near] > 0]


def with_new_weights(
    model: ItemWeights, precisions: NDArray[np.float32], solver: EASE, new: NewItems
) -> ItemWeights:
    """Every new item by its ridge regression on the trained ones (theory: F7).

    b = φ² (I − B)·diag(P)·g, g what the users that each trained item shares with it weigh.
    """
    n_more, n_trained = new.n_items - model.n_items, new.trained.n_items
    weights = np.pad(model.weights, ((0, n_more), (0, n_more)))
    trained = model.weights[:n_trained, :n_trained]
    of_users, powers = (
        new.activity_weights(solver.activity_exponent),
        solver.popularity(new.degrees),
    )
    scaled = np.float32(new.share_of_training**2) * precisions * powers[:n_trained]
    for item in new.remade.tolist():
        shared = new.common_users(item, of_users)[:n_trained].astype(np.float32)
        gains = scaled * shared / powers[item]
        weights[:n_trained, item] = gains - trained @ gains
    return ItemWeights(weights, new.pairs, precisions)


def with_new_eigenvectors(model: GraphFilterScorer, new: NewItems) -> GraphFilterScorer:
    """The walk over all pairs, every new item by v = P V Λ⁻¹ of the trained ones (theory: F7)."""
    walk = WalkScorer.over(new.pairs, model.walk.exponents, new.n_items)
    vectors = np.pad(model.eigenvectors, ((0, new.n_items - model.n_items), (0, 0)))
    roots = new.degrees[: new.trained.n_items] ** -0.5
    known = np.flatnonzero(model.eigenvalues)
    for item in new.remade.tolist():
        common = new.common_users(item, new.activity_weights(1))[: new.trained.n_items]
        near = np.flatnonzero(common)
        scaled = (common[near] * roots[near]) / np.sqrt(new.degrees[item])
        vectors[item, known] = scaled @ vectors[near][:, known] / model.eigenvalues[known]
    return replace(model, walk=walk, eigenvectors=vectors)


def with_new_outputs(model: Autoencoder, new: NewItems) -> Autoencoder:
    """Every new item by the mirrored learned step; of the others it says nothing (theory: F7)."""
    vectors = _mirrored(model, model.item_vectors, new)
    arrays, n_more = model.arrays(), new.n_items - model.n_items
    arrays["item_in"] = np.pad(arrays["item_in"], ((0, n_more), (0, 0)))
    arrays["item_out"] = np.pad(arrays["item_out"], ((0, n_more), (0, 0)))
    arrays["bias_out"] = np.pad(arrays["bias_out"], (0, n_more))
    arrays["item_out"][new.remade] = vectors[:, :-1]
    arrays["bias_out"][new.remade] = vectors[:, -1]
    return Autoencoder.from_arrays(arrays, new.pairs)


def with_new_factors(model: ItemFactors, new: NewItems) -> ItemFactors:
    """Both vectors of every new item by the mirrored learned step (theory: F7)."""
    both = np.concatenate([model.inputs, model.outputs], axis=1)
    grown = np.pad(both, ((0, new.n_items - model.n_items), (0, 0)))
    grown[new.remade] = _mirrored(model, both, new)
    inputs, outputs = np.split(grown, 2, axis=1)
    return ItemFactors(inputs, outputs, new.pairs)


def _mirrored(model: Autoencoder | ItemFactors, vectors: FloatMatrix, new: NewItems) -> FloatMatrix:
    """Vectors of the new items as those of trained ones follow from users by trained items."""
    everyone, n_trained = np.arange(new.pairs.n_users), new.trained.n_items
    by_trained = model.with_histories(items_before(new.pairs, everyone, n_trained))
    of_trained = some_of(new.by_item, np.arange(n_trained))
    users = by_trained.user_vectors(everyone)
    return LearnedStep.learnt(vectors[:n_trained], users, of_trained).at(new.by_item, new.remade)


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
