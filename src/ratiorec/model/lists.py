"""Lists: from a query and users of any sort to tables of lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.model.foldin.rules import FoldedUsers
from ratiorec.model.profiles import known_by_table, profile_table
from ratiorec.model.query import Ids, Query, ResolvedQuery, known_indices
from ratiorec.reranking.reranker import Graded, Reranker
from ratiorec.scorers import Scorer, with_unknown_users
from ratiorec.scorers.scorer import UserItems, identity_pairs
from ratiorec.scorers.table import Recommendations
from ratiorec.scorers.topk import Cap, Exact, Progress, Ranking

if TYPE_CHECKING:
    from ratiorec.model.artifact import Artifact


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists that a query wants of a model: its users, who scores them, what they have seen."""

    model: Artifact
    query: Query
    found: ResolvedQuery
    scorer: Scorer
    seen: UserItems

    @classmethod
    def of_users(cls, model: Artifact, query: Query, user_ids: Ids) -> Lists:
        """Users by their ids; unknown ones of whom there are attributes have lists by these."""
        found = query.resolve(user_ids, users=model.users, filters=model.filters)
        if model.new_users is not None and (found.users < 0).any():
            new, ids = model.new_users, model.new_user_ids
            users, known = known_by_table(found.users, found.user_ids, new, ids)
            if known.n_rows:
                found = found._replace(users=users, new=model.users_alike.scorer(known))
        return cls(model, query, found, model.scorer, model.seen)

    @classmethod
    def of_profiles(
        cls, model: Artifact, query: Query, profiles: Sequence[Mapping[str, Any]]
    ) -> Lists:
        """Users of whom attributes alone are known, called by their places."""
        new = model.users_alike.scorer(profile_table(profiles, model.user_table))
        places = np.arange(len(profiles))
        found = _of_nobody(model, query)._replace(users=-2 - places, user_ids=places, new=new)
        return cls(model, query, found, model.scorer, model.seen)

    @classmethod
    def of_folded(cls, model: Artifact, query: Query, known: FoldedUsers) -> Lists:
        """Users of whom histories alone are known, called by their places; empty ones by policy."""
        is_empty = np.diff(known.histories.indptr) == 0
        places = np.flatnonzero(~is_empty | (query.on_unknown == "fallback"))
        users = np.where(is_empty[places], -1, places)
        found = _of_nobody(model, query)._replace(users=users, user_ids=places)
        return cls(model, query, found, known.scorer, known.histories)

    def table(self) -> Recommendations:
        """The lists of all users."""
        ranking = Ranking.of(self._ranked(), self.found.users, _length(self.model, self.query))
        return self._listed(ranking, self.found.user_ids)

    def tables(self, progress: Progress | None, n_threads: int | None) -> Iterator[Recommendations]:
        """The same in blocks of users that fit the memory."""
        done = 0
        for block in self._ranked(progress, n_threads):
            rows = slice(done, done + len(block.users))
            done = rows.stop
            # ranking has others for unknown ones
            block = block._replace(users=self.found.users[rows])
            yield self._listed(block, self.found.user_ids[rows])

    def _listed(self, ranking: Ranking, user_ids: NDArray[Any]) -> Recommendations:
        cold, attributes = self.model.cold_items, self.found.attributes
        return Recommendations.of(
            ranking, user_ids, self.model.items, cold=cold, attributes=attributes
        )

    def _ranked(
        self, progress: Progress | None = None, n_threads: int | None = None
    ) -> Iterator[Ranking]:
        query, found, model = self.query, self.found, self.model
        scorer, users, seen = with_unknown_users(
            self.scorer, found.users, self.seen, model.popularity, found.new
        )
        cap, pick = cap_of(model, query), None
        if query.rules is not None:  # a rule looks at all items, and boosts decide which are best
            pick, cap = self._reranker(seen, cap)
        k = _length(model, query)
        rank = Exact(k, query.exclude_seen, query.memory_mb, n_threads, cap)
        return rank.stream(
            scorer,
            users,
            seen=seen,
            allow=found.allow,
            deny=found.deny,
            pick=pick,
            progress=progress,
        )

    def _reranker(self, seen: UserItems, cap: Cap | None) -> tuple[Reranker, Cap | None]:
        """The rules at work, with the cap as one of them; and what is left of the cap."""
        model, rules = self.model, self.query.rules
        assert rules is not None
        limit = None
        if cap is not None and cap.most:
            limit = Graded.of_some(np.arange(len(model.items)) >= cap.first, cap.most)
            cap = None
        k = _length(model, self.query)
        return model.shelf.reranker(rules, k, seen, limit=limit), cap


def similar_items(model: Artifact, query: Query, item_ids: Ids) -> Recommendations:
    """The items most similar to each of these."""
    items = known_indices(item_ids, model.items, on_unknown=query.on_unknown)
    found, itself = _of_nobody(model, query), identity_pairs(len(model.items))
    rank = Exact(_length(model, query), query.exclude_seen, query.memory_mb)
    pick = None
    if query.rules is not None:
        pick = model.shelf.reranker(query.rules, rank.k, itself)
    blocks = rank.stream(
        model.similarity, items, seen=itself, allow=found.allow, deny=found.deny, pick=pick
    )
    return Recommendations.of(
        Ranking.of(blocks, items, rank.k),
        model.items.ids[items],
        model.items,
        attributes=found.attributes,
        query="item",
        answer="similar",
    )


def cap_of(model: Artifact, query: Query) -> Cap | None:
    """How many items a list may have that are there by their content alone."""
    if not model.n_cold:
        return None
    return Cap(len(model.items) - model.n_cold, query.most_cold(_length(model, query)))


def _of_nobody(model: Artifact, query: Query) -> ResolvedQuery:
    """The query about no known user."""
    return query.resolve([], users=model.users, filters=model.filters)


def _length(model: Artifact, query: Query) -> int:
    return min(query.k, max(len(model.items), 1))
