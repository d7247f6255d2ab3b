"""New users as something that can be scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ratiorec.errors import ConfigError
from ratiorec.fold_in.choice import Rule
from ratiorec.fold_in.sums import row_blocks
from ratiorec.scorers import (
    Factored,
    FloatMatrix,
    FromHistories,
    InnerProduct,
    Popularity,
    StoredScorer,
)
from ratiorec.seen import SeenItems, some_of

_USERS_AT_ONCE = 1024

FoldProgress = Callable[[int, int], None]  # users done, and users in all


@dataclass(frozen=True, eq=False)
class FoldedUsers:
    """Users known by their histories alone: `scorer` scores the n-th of them as user n."""

    scorer: StoredScorer
    histories: SeenItems

    def __len__(self) -> int:
        return self.histories.n_users

    @property
    def vectors(self) -> FloatMatrix:
        """One vector for each user [n, d], where scores are inner products."""
        if isinstance(self.scorer, Factored):
            return self.scorer.user_vectors(np.arange(len(self)))
        raise ConfigError(
            "this kind of model has no vectors of users",
            where="fold_in",
            found=self.scorer.kind,
            wanted=f"{InnerProduct.kind} or autoencoder; scorer.scores has the scores",
        )


def folded(scorer: StoredScorer, rule: Rule | None, histories: SeenItems) -> FoldedUsers:
    """The users who have these histories; `rule` is needed where a user is a vector."""
    if isinstance(scorer, FromHistories):
        return FoldedUsers(scorer.with_histories(histories), histories)
    if isinstance(scorer, Popularity):
        return FoldedUsers(replace(scorer, n_users=histories.n_users), histories)
    if isinstance(scorer, InnerProduct) and rule is not None:
        return FoldedUsers(scorer.with_users(rule(histories)), histories)
    raise ConfigError(
        "this kind of model takes no new users in",
        where="fold_in",
        found=scorer.kind,
        wanted="a kind that the library makes itself",
    )


def in_blocks(rule: Rule, histories: SeenItems, progress: FoldProgress | None) -> FloatMatrix:
    """What the rule makes of the histories, some at a time; no user's bits depend on the others."""
    if progress is None or not histories.n_users:
        return rule(histories)
    parts = []
    for rows in row_blocks(histories.n_users, _USERS_AT_ONCE):
        parts.append(rule(some_of(histories, rows)))
        progress(int(rows[-1]) + 1, histories.n_users)
    return np.concatenate(parts)
