"""How everybody follows pairs that were added: what a learned step makes of the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ratiorec.fold_in.additions import Addition, grown
from ratiorec.fold_in.choice import Rule, rule_for
from ratiorec.fold_in.density_ratio import UserRisk
from ratiorec.fold_in.folded import FoldProgress, in_blocks
from ratiorec.fold_in.learned_step import LearnedStep
from ratiorec.fold_in.new_items import transposed
from ratiorec.fold_in.sums import row_blocks
from ratiorec.scorers import FloatMatrix, Indices, InnerProduct, StoredScorer
from ratiorec.seen import Pairs, SeenItems

_ROWS_AT_ONCE = 1024


class _Side(NamedTuple):
    """A learned step, and the pairs whose vectors it makes."""

    step: LearnedStep
    pairs: Pairs


def followed(
    scorer: StoredScorer,
    rule: Rule | None,
    settings: Mapping[str, Any],
    pairs: SeenItems,
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
    if not isinstance(rule, UserRisk) or rule.free:
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
    assert again is not None
    users[addition.touched] = in_blocks(again, addition.histories, progress)
    return InnerProduct(users, items)


def _moves_of_items(
    scorer: InnerProduct, pairs: SeenItems, after: InnerProduct, addition: Addition
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
    step: LearnedStep, pairs: SeenItems, items: FloatMatrix, touched: Indices
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
