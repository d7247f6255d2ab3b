"""Intake of new pairs: of known users, of new ones, and of new items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary, merge_pairs
from ratiorec.errors import ConfigError, DataError
from ratiorec.model.foldin.linear import AsScored, LearnedStep, WeightedRidge, row_blocks
from ratiorec.model.foldin.new_items import (
    NeighbourSolver,
    NewItems,
    items_before,
    transposed,
    with_new_eigenvectors,
    with_new_factors,
    with_new_neighbours,
    with_new_outputs,
    with_new_weights,
)
from ratiorec.model.foldin.newton import UserProblem
from ratiorec.model.foldin.rules import (
    AnyRule,
    FoldProgress,
    MemberRules,
    Provenance,
    Rule,
    in_blocks,
    member_settings,
    rule_for,
    training_settings,
)
from ratiorec.scorers import (
    Autoencoder,
    Blend,
    FloatMatrix,
    FromHistories,
    GraphFilterScorer,
    Indices,
    InnerProduct,
    ItemFactors,
    ItemWeights,
    Neighbours,
    PopularityScorer,
    StoredScorer,
    WalkScorer,
)
from ratiorec.scorers.scorer import Pairs, UserItems, some_of
from ratiorec.settings import SolverSettings
from ratiorec.solvers.settings import EASE, AnySolver


class Addition(NamedTuple):
    """All pairs, old and added, over all ids; the old ids come first, with their indices."""

    users: Vocabulary
    items: Vocabulary
    pairs: UserItems
    touched: Indices  # the users who have more pairs than before
    remade: Indices  # the items since training that have more pairs than before
    n_added: Indices  # pairs of each item that were not there before
    n_known_users: int
    n_known_items: int
    trained: Provenance

    @property
    def n_new_items(self) -> int:
        return len(self.items) - self.n_known_items

    @property
    def has_new_items(self) -> bool:
        """Whether some item is new, or has come since training and has more pairs now."""
        return bool(self.n_new_items or len(self.remade))

    def with_all_known(self) -> Addition:
        """The same, all items that have come since training being as good as trained."""
        n_known = self.n_known_items
        trained = self.trained._replace(n_items=n_known)
        return self._replace(remade=self.remade[self.remade >= n_known], trained=trained)

    @property
    def histories(self) -> UserItems:
        """All items of each touched user."""
        return some_of(self.pairs, self.touched)


def add_pairs(
    users: Vocabulary,
    items: Vocabulary,
    seen: UserItems,
    added: Interactions,
    trained: Provenance,
) -> Addition:
    """Old and added pairs together."""
    all_users, of_users = joined(users, added.users)
    all_items, of_items = joined(items, added.items)
    old_users = np.repeat(np.arange(seen.n_users), np.diff(seen.indptr))
    merged = merge_pairs(
        np.concatenate([old_users, of_users[added.pair_users]]),
        np.concatenate([seen.indices.astype(np.int64), of_items[added.indices]]),
        shape=(len(all_users), len(all_items)),
    )
    more_of_users = np.diff(merged.indptr)
    more_of_users[: seen.n_users] -= np.diff(seen.indptr)
    more_of_items = np.bincount(merged.indices, minlength=len(all_items))
    more_of_items -= np.bincount(seen.indices, minlength=len(all_items))
    return Addition(
        all_users,
        all_items,
        UserItems(merged.indptr, merged.indices),
        np.flatnonzero(more_of_users),
        trained.n_items + np.flatnonzero(more_of_items[trained.n_items :]),
        more_of_items,
        len(users),
        len(items),
        trained,
    )


def grown(
    scorer: StoredScorer,
    rule: AnyRule,
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
    if isinstance(scorer, Blend) and isinstance(rule, MemberRules):
        parts = zip(scorer.members, rule.rules, member_settings(scorer, settings), strict=True)
        members = [grown(member, one, of, addition, progress) for member, one, of in parts]
        return replace(scorer, members=tuple(members))
    if isinstance(scorer, PopularityScorer):
        counts = addition.n_added.astype(np.float32)
        counts[: scorer.n_items] += scorer.counts
        return PopularityScorer(counts, len(addition.users))
    if isinstance(scorer, InnerProduct) and rule is not None:
        assert not isinstance(rule, MemberRules)
        return _grown_factors(scorer, rule, addition, progress)
    if isinstance(scorer, WalkScorer):  # nothing but a function of the pairs
        return scorer.grown(addition.pairs, len(addition.items))
    if isinstance(scorer, GraphFilterScorer):
        return with_new_eigenvectors(scorer, _new_items(addition))
    if isinstance(scorer, FromHistories) and not addition.has_new_items:
        return scorer.with_histories(addition.pairs)
    return _with_new_items_of_histories(scorer, _solver(settings), addition)


def _solver(settings: Mapping[str, Any]) -> AnySolver | None:
    """The solver that the settings name; None where they name none, or are not whole."""
    try:
        trained = training_settings(settings)
    except ConfigError:
        return None
    return trained.solver if isinstance(trained, SolverSettings) else None


def _new_items(addition: Addition) -> NewItems:
    return NewItems(addition.pairs, len(addition.items), addition.remade, addition.trained)


def _with_new_items_of_histories(
    scorer: StoredScorer, solver: AnySolver | None, addition: Addition
) -> StoredScorer:
    new = _new_items(addition)
    if isinstance(scorer, Neighbours) and isinstance(solver, NeighbourSolver):
        return with_new_neighbours(scorer, solver, new)
    if isinstance(scorer, ItemWeights):
        precisions = scorer.precisions
        if precisions is not None and len(precisions) == new.trained.n_items:
            settings = solver if isinstance(solver, EASE) else EASE()
            return with_new_weights(scorer, precisions, settings, new)
    if isinstance(scorer, Autoencoder):
        return with_new_outputs(scorer, new)
    if isinstance(scorer, ItemFactors):
        return with_new_factors(scorer, new)
    raise ConfigError(
        "nothing says how this model takes new items in",
        where="partial_fit",
        found=f"{addition.n_new_items or len(addition.remade)} new items for a {scorer.kind} model",
        wanted="pairs of known items, a model that `fit` made, or another fit",
    )


def _grown_factors(
    scorer: InnerProduct, rule: Rule, addition: Addition, progress: FoldProgress | None
) -> InnerProduct:
    """New items by what users of theirs are by known items; then the users by all their items."""
    n_new_users = len(addition.users) - addition.n_known_users
    users = np.pad(scorer.users, ((0, n_new_users), (0, 0)))
    touched = addition.touched
    if addition.has_new_items:
        known = items_before(addition.pairs, touched, addition.trained.n_items)
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
    n_trained, by_item = addition.trained.n_items, transposed(addition.pairs, len(addition.items))
    if isinstance(rule, WeightedRidge):
        mirrored: Rule = replace(rule, items=users)
    else:
        of_trained = some_of(by_item, np.arange(n_trained))
        learn = rule.learnt_for_items if isinstance(rule, AsScored) else LearnedStep.learnt
        mirrored = learn(scorer.items[:n_trained], users, of_trained)
    items = np.pad(scorer.items, ((0, addition.n_new_items), (0, 0)))
    items[addition.remade] = mirrored(some_of(by_item, addition.remade))
    return items, rule.with_items(items, np.diff(by_item.indptr))


def joined(known: Vocabulary, added: Vocabulary) -> tuple[Vocabulary, Indices]:
    """All ids, the known ones first, and where each of the added ones is among them."""
    found = known.indices(added.ids, on_unknown="skip")
    is_new = found < 0
    found[is_new] = len(known) + np.arange(is_new.sum())
    ids = added.ids[is_new]
    require_one_kind(known, ids, where=f"new {known.kind} ids")
    if not len(ids):
        return known, found
    both = np.concatenate([known.ids, ids.astype(str) if known.ids.dtype == object else ids])
    names = None if known.names is None else _names(known, added, is_new)
    return Vocabulary(both.astype(known.ids.dtype), known.kind, names), found


def require_one_kind(known: Vocabulary, new: NDArray[Any], *, where: str) -> None:
    """Refuse new ids that are text where the known ones are whole numbers."""
    if known.ids.dtype != np.int64 or new.dtype == np.int64 or not len(new):
        return
    odd = next((one for one in new.tolist() if isinstance(known.native(one), str)), new[0])
    raise DataError(
        f"{known.kind} ids are of two kinds",
        where=where,
        found=repr(odd),
        wanted="whole numbers, as in the model",
    )


def _names(known: Vocabulary, added: Vocabulary, is_new: NDArray[np.bool_]) -> NDArray[Any]:
    new = [added.name(place) for place in np.flatnonzero(is_new).tolist()]
    assert known.names is not None
    return np.concatenate([known.names, np.array(new, object)])


_ROWS_AT_ONCE = 1024


class _Side(NamedTuple):
    """A learned step, and the pairs whose vectors it makes."""

    step: LearnedStep
    pairs: Pairs


def propagated(
    scorer: StoredScorer,
    rule: AnyRule,
    settings: Mapping[str, Any],
    pairs: UserItems,
    addition: Addition,
    progress: FoldProgress | None = None,
) -> StoredScorer:
    """The model with the added pairs, all other users and items moved by them (theory: F8).

    Args:
        scorer: The model.
        rule: How it turns histories into vectors.
        settings: How it was trained.
        pairs: The pairs it has.
        addition: All pairs.
        progress: Told of the users folded in.
    """
    if isinstance(scorer, Blend) and isinstance(rule, MemberRules):
        parts = zip(scorer.members, rule.rules, member_settings(scorer, settings), strict=True)
        members = [propagated(m, one, of, pairs, addition, progress) for m, one, of in parts]
        return replace(scorer, members=tuple(members))
    if not isinstance(rule, UserProblem) or rule.free or not _determines_steps(scorer):
        return grown(scorer, rule, settings, addition, progress)
    addition = addition.with_all_known()  # an item once made follows and need not be remade
    after = grown(scorer, rule, settings, addition, progress)
    assert isinstance(scorer, InnerProduct)
    assert isinstance(after, InnerProduct)
    items = after.items.copy()
    items[: scorer.n_items] += _moves_of_items(scorer, pairs, after, addition)
    users = after.users.copy()
    users[: scorer.n_users] += _moves_of_users(rule.start, pairs, items, addition.touched)
    moved = InnerProduct(users, items)
    again = rule_for(moved, settings, addition.pairs, rule.kept_ridge())
    assert isinstance(again, UserProblem)
    users[addition.touched] = in_blocks(again, addition.histories, progress)
    return InnerProduct(users, items)


def _determines_steps(scorer: StoredScorer) -> bool:
    """Whether there are enough users and items to learn what the vectors of one make the other."""
    assert isinstance(scorer, InnerProduct)
    n_users, dimension = scorer.users.shape
    return bool(min(n_users, len(scorer.items)) > dimension)


def _moves_of_items(
    scorer: InnerProduct, pairs: UserItems, after: InnerProduct, addition: Addition
) -> FloatMatrix:
    """Of the known items, by their users as they were and as they are; others stay exactly."""
    all_of_items = transposed(addition.pairs, after.n_items)
    lengths = np.sqrt(np.maximum(np.diff(addition.pairs.indptr), 1)).astype(np.float32)
    of_items = transposed(pairs, scorer.n_items)
    step = LearnedStep.learnt(scorer.items, scorer.users, of_items)
    now = replace(step, items=after.users, lengths=lengths)
    theirs = addition.histories.indices
    moved = np.unique(theirs[theirs < scorer.n_items]).astype(np.int64)
    return _moves(_Side(step, of_items), _Side(now, all_of_items), moved, len(scorer.items))


def _moves_of_users(
    step: LearnedStep, pairs: UserItems, items: FloatMatrix, touched: Indices
) -> FloatMatrix:
    """Of the users without an added pair, by their items as they were and as they are."""
    moved = np.setdiff1d(np.flatnonzero(np.diff(pairs.indptr)), touched)
    now = replace(step, items=items)
    return _moves(_Side(step, pairs), _Side(now, pairs), moved, pairs.n_users)


def _moves(before: _Side, after: _Side, rows: Indices, n_rows: int) -> FloatMatrix:
    """What the step makes of some rows after, less what it made of them before [n_rows, d]."""
    moves = np.zeros((n_rows, before.step.items.shape[1]), np.float32)
    for places in row_blocks(len(rows), _ROWS_AT_ONCE):
        some = rows[places]
        moves[some] = after.step.at(after.pairs, some) - before.step.at(before.pairs, some)
    return moves
