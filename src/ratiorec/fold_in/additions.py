"""New pairs for a trained model: of known users, of new ones, and of new items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.merging import merge_pairs
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError
from ratiorec.fold_in.choice import Rule
from ratiorec.fold_in.closed_form import WeightedRidge
from ratiorec.fold_in.folded import FoldProgress, in_blocks
from ratiorec.fold_in.learned_step import LearnedStep
from ratiorec.fold_in.new_items import (
    transposed,
    with_new_neighbours,
    with_new_outputs,
    with_new_weights,
)
from ratiorec.scorers import (
    Autoencoder,
    FloatMatrix,
    FromHistories,
    Indices,
    InnerProduct,
    ItemWeights,
    Neighbours,
    Popularity,
    StoredScorer,
)
from ratiorec.seen import Pairs, SeenItems, pairs_of, some_of


class Addition(NamedTuple):
    """All pairs, old and added, over all ids; the old ids come first, with their indices."""

    users: Vocabulary
    items: Vocabulary
    pairs: SeenItems
    touched: Indices  # the users who have more pairs than before
    n_known_users: int
    n_known_items: int

    @property
    def n_new_items(self) -> int:
        return len(self.items) - self.n_known_items

    @property
    def histories(self) -> SeenItems:
        """All items of each touched user."""
        return some_of(self.pairs, self.touched)


def add_pairs(
    users: Vocabulary, items: Vocabulary, seen: SeenItems, added: Interactions
) -> Addition:
    """Old and added pairs together."""
    all_users, of_users = _joined(users, added.users)
    all_items, of_items = _joined(items, added.items)
    old_users = np.repeat(np.arange(seen.n_users), np.diff(seen.indptr))
    new_users = of_users[added.pair_users]
    merged = merge_pairs(
        np.concatenate([old_users, new_users]),
        np.concatenate([seen.indices.astype(np.int64), of_items[added.indices]]),
        shape=(len(all_users), len(all_items)),
    )
    more = np.diff(merged.indptr)
    more[: seen.n_users] -= np.diff(seen.indptr)
    return Addition(
        all_users,
        all_items,
        SeenItems(merged.indptr, merged.indices),
        np.flatnonzero(more),
        len(users),
        len(items),
    )


def grown(
    scorer: StoredScorer,
    rule: Rule | None,
    settings: Mapping[str, Any],
    addition: Addition,
    progress: FoldProgress | None = None,
) -> StoredScorer:
    """The model with the added pairs; what they do not touch is as it was.

    Args:
        scorer: The model.
        rule: How it turns histories into vectors, where it has vectors.
        settings: How it was trained.
        addition: All pairs.
        progress: Told of the users folded in.

    Raises:
        ConfigError: There are new items, and nothing says how to take them in.
    """
    if isinstance(scorer, Popularity):
        counts = np.bincount(addition.pairs.indices, minlength=len(addition.items))
        return Popularity(counts.astype(np.float32), len(addition.users))
    if isinstance(scorer, InnerProduct) and rule is not None:
        return _grown_factors(scorer, rule, addition, progress)
    if isinstance(scorer, FromHistories) and not addition.n_new_items:
        return scorer.with_histories(addition.pairs)
    return _with_new_items_of_histories(scorer, settings.get("solver", {}), addition)


def _with_new_items_of_histories(
    scorer: StoredScorer, solver: Mapping[str, Any], addition: Addition
) -> StoredScorer:
    by_item = transposed(addition.pairs, len(addition.items))
    if isinstance(scorer, Neighbours) and solver.get("kind") == "item-knn":
        return with_new_neighbours(scorer, solver, addition.pairs, by_item)
    if isinstance(scorer, ItemWeights) and solver.get("kind") == "ease":
        return with_new_weights(scorer, solver, addition.pairs, by_item)
    if isinstance(scorer, Autoencoder):
        return with_new_outputs(scorer, addition.pairs, by_item)
    raise ConfigError(
        "nothing says how this model takes new items in",
        where="partial_fit",
        found=f"{addition.n_new_items} new items for a model of kind {scorer.kind}",
        wanted="pairs of known items, a model that `fit` made, or another fit",
    )


def _grown_factors(
    scorer: InnerProduct, rule: Rule, addition: Addition, progress: FoldProgress | None
) -> InnerProduct:
    """New items by what users of theirs are by known items; then the users by all their items."""
    n_new_users = len(addition.users) - addition.n_known_users
    users = np.pad(scorer.users, ((0, n_new_users), (0, 0)))
    touched = addition.touched
    if addition.n_new_items:
        known = _before(addition.pairs, touched, addition.n_known_items)
        some = np.flatnonzero(np.diff(known.indptr))
        users[touched[some]] = in_blocks(rule, known, progress)[some]
        items, rule = _with_new_items(scorer, rule, addition, users)
    else:
        items = scorer.items
    users[touched] = in_blocks(rule, addition.histories, progress)
    return InnerProduct(users, items)


def _with_new_items(
    scorer: InnerProduct, rule: Rule, addition: Addition, users: FloatMatrix
) -> tuple[FloatMatrix, Rule]:
    """All items, the new ones by the mirrored problem, and the rule for histories of them."""
    n_known, by_item = addition.n_known_items, transposed(addition.pairs, len(addition.items))
    of_new = SeenItems(
        by_item.indptr[n_known:] - by_item.indptr[n_known],
        by_item.indices[by_item.indptr[n_known] :],
    )
    if isinstance(rule, WeightedRidge):
        mirrored: Rule = replace(rule, items=users)
    else:
        known = by_item.indptr[: n_known + 1]
        of_known = SeenItems(known, by_item.indices[: known[-1]])
        mirrored = LearnedStep.learnt(scorer.items, users, of_known)
    items = np.concatenate([scorer.items, mirrored(of_new)])
    return items, rule.with_items(items, np.diff(by_item.indptr))


def _before(pairs: Pairs, users: Indices, n_items: int) -> SeenItems:
    """The histories of some users, less the items from `n_items` on."""
    rows, listed = pairs_of(pairs, users)
    kept = listed < n_items
    ends = np.searchsorted(rows[kept], np.arange(len(users) + 1))
    return SeenItems(ends, listed[kept])


def _joined(known: Vocabulary, added: Vocabulary) -> tuple[Vocabulary, Indices]:
    """All ids, the known ones first, and where each of the added ones is among them."""
    found = known.indices(added.ids, on_unknown="skip")
    is_new = found < 0
    found[is_new] = len(known) + np.arange(is_new.sum())
    ids = added.ids[is_new]
    if known.ids.dtype == np.int64 and ids.dtype != np.int64 and len(ids):
        raise DataError(
            f"{known.kind} ids are of two kinds",
            where=f"{known.kind} ids of the new pairs",
            found=repr(ids[0]),
            wanted="whole numbers, as in the model",
        )
    if not len(ids):
        return known, found
    both = np.concatenate([known.ids, ids.astype(str) if known.ids.dtype == object else ids])
    names = None if known.names is None else _names(known, added, is_new)
    return Vocabulary(both.astype(known.ids.dtype), known.kind, names), found


def _names(known: Vocabulary, added: Vocabulary, is_new: NDArray[np.bool_]) -> NDArray[Any]:
    new = [added.name(place) for place in np.flatnonzero(is_new).tolist()]
    assert known.names is not None
    return np.concatenate([known.names, np.array(new, object)])
