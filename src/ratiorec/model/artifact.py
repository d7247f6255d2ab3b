"""A trained model: everything that recommending needs, and nothing of training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import OnUnknown, Vocabulary
from ratiorec.evaluation.evaluate import Report, evaluate
from ratiorec.model.foldin.intake import Addition, add_pairs, grown, propagated
from ratiorec.model.foldin.rules import FoldedUsers, Provenance, Rule, folded, rule_for
from ratiorec.model.item_map import ItemMap
from ratiorec.model.query import Ids, known_indices, resolve, resolve_histories
from ratiorec.model.store import (
    describe,
    pack,
    part_of,
    parts_are_whole,
    read_model,
    unpack,
    write_model,
)
from ratiorec.scorers import SCORERS, Scorer, StoredScorer, with_fallback_users
from ratiorec.scorers.table import Recommendations
from ratiorec.scorers.topk import Exact, Progress, Ranking
from ratiorec.scorers.user_items import UserItems, check_pairs, identity_pairs, require_fit


@dataclass(frozen=True, eq=False)
class Artifact:
    """A model ready to recommend; it needs numpy and no torch.

    `settings` is how it was trained and `card` what came of it (metrics, training curve, seconds,
    fingerprint of the data, versions); both hold plain JSON types.
    """

    scorer: StoredScorer
    users: Vocabulary
    items: Vocabulary
    seen: UserItems
    settings: Mapping[str, Any] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_fit("user ids", len(self.users), self.scorer.n_users, "one for each user scored")
        require_fit("item ids", len(self.items), self.scorer.n_items, "one for each item scored")
        check_pairs(self.seen, len(self.items), name="seen items", n_users=len(self.users))

    @classmethod
    def of(
        cls,
        scorer: StoredScorer,
        data: Interactions,
        *,
        settings: Mapping[str, Any],
        card: Mapping[str, Any],
    ) -> Artifact:
        """A scorer with the ids and the seen items of the pairs it was trained on."""
        return cls(scorer, data.users, data.items, UserItems.of(data), settings, card)

    def with_card(self, card: Mapping[str, Any]) -> Artifact:
        """The same model with another card."""
        return replace(self, card=card)

    def recommend(
        self,
        user_ids: Ids,
        k: int = 20,
        *,
        exclude_seen: bool = True,
        allow: Ids | None = None,
        deny: Ids | None = None,
        on_unknown: OnUnknown = "raise",
        memory_mb: float = 512,
    ) -> Recommendations:
        """The k best items of each user, fewer where there are fewer.

        Args:
            user_ids: Users, in the order in which they will be listed; one alone will do.
            k: How many items at most.
            exclude_seen: Leave out the items a user has interacted with in training.
            allow: List only these items.
            deny: List none of these items, even if allowed.
            on_unknown: What to do about an unknown id: "raise"; "skip", leave it out; or
                "fallback", give an unknown user the items with most users, the score being how
                many that are. Unknown items in `allow` and `deny` are left out in both cases.
            memory_mb: The memory that ranking may use.
        """
        rank = self._ranker(k, exclude_seen=exclude_seen, memory_mb=memory_mb)
        asked = resolve(
            user_ids, allow, deny, users=self.users, items=self.items, on_unknown=on_unknown
        )
        scorer, users, seen = with_fallback_users(
            self.scorer, asked.users, self.seen, self._popularity
        )
        ranking = rank(scorer, users, seen=seen, allow=asked.allow, deny=asked.deny)
        return Recommendations.of(ranking, asked.user_ids, self.items)

    def recommend_blocks(
        self,
        user_ids: Ids,
        k: int = 20,
        *,
        exclude_seen: bool = True,
        allow: Ids | None = None,
        deny: Ids | None = None,
        on_unknown: OnUnknown = "raise",
        memory_mb: float = 512,
        progress: Progress | None = None,
    ) -> Iterator[Recommendations]:
        """What `recommend` gives, in blocks of users that fit the memory."""
        rank = self._ranker(k, exclude_seen=exclude_seen, memory_mb=memory_mb)
        asked = resolve(
            user_ids, allow, deny, users=self.users, items=self.items, on_unknown=on_unknown
        )
        scorer, users, seen = with_fallback_users(
            self.scorer, asked.users, self.seen, self._popularity
        )
        blocks = rank.stream(
            scorer, users, seen=seen, allow=asked.allow, deny=asked.deny, progress=progress
        )
        return self._tables(blocks, asked.user_ids)

    def recommend_all(
        self,
        k: int = 20,
        *,
        exclude_seen: bool = True,
        allow: Ids | None = None,
        deny: Ids | None = None,
        memory_mb: float = 512,
        progress: Progress | None = None,
    ) -> Iterator[Recommendations]:
        """The k best items of every user, in blocks of users that fit the memory."""
        return self.recommend_blocks(
            self.users.ids,
            k,
            exclude_seen=exclude_seen,
            allow=allow,
            deny=deny,
            memory_mb=memory_mb,
            progress=progress,
        )

    def recommend_to(
        self,
        histories: Sequence[Sequence[Any]],
        k: int = 20,
        *,
        exclude_seen: bool = True,
        allow: Ids | None = None,
        deny: Ids | None = None,
        on_unknown: OnUnknown = "raise",
        memory_mb: float = 512,
    ) -> Recommendations:
        """The k best items of users who are known by their histories alone.

        In the table a user is the place in `histories`. An item of the history is listed unless
        `exclude_seen`; an unknown one is refused, or left out. A history without any item is
        refused, has no list ("skip"), or gets the items with most users ("fallback").
        """
        rank = self._ranker(k, exclude_seen=exclude_seen, memory_mb=memory_mb)
        asked = resolve([], allow, deny, users=self.users, items=self.items, on_unknown=on_unknown)
        known = self.fold_in(histories, on_unknown=on_unknown)
        is_empty = np.diff(known.histories.indptr) == 0
        places = np.flatnonzero(~is_empty | (on_unknown == "fallback"))
        scorer, users, seen = with_fallback_users(
            known.scorer, np.where(is_empty[places], -1, places), known.histories, self._popularity
        )
        ranking = rank(scorer, users, seen=seen, allow=asked.allow, deny=asked.deny)
        return Recommendations.of(ranking, places, self.items)

    def fold_in(
        self, histories: Sequence[Sequence[Any]], *, on_unknown: OnUnknown = "raise"
    ) -> FoldedUsers:
        """Users who were not there in training, from the items they have (theory: F1, F2, F3).

        Unknown items and empty histories are refused; or the former are left out, and the latter
        are what the model makes of nobody.
        """
        rows = resolve_histories(histories, items=self.items, on_unknown=on_unknown)
        return folded(self.scorer, self.rule, rows)

    def partial_fit(self, pairs: Interactions, *, progress: Progress | None = None) -> Artifact:
        """The model with more pairs, its other users and items as they are (theory: F6).

        Users of these pairs are folded in from all their items, and new items from their users.

        Raises:
            ConfigError: There are new items, and nothing says how to take them in.
        """
        more = self._joined_by(pairs)
        return self._with(more, grown(self.scorer, self.rule, self.settings, more, progress))

    def update(self, pairs: Interactions, *, progress: Progress | None = None) -> Artifact:
        """The model with more pairs, its other users and items moved by them (theory: F8).

        As `partial_fit`, and nearer to another fit, for models of a density-ratio risk on a graph;
        for all others the same as `partial_fit`.

        Raises:
            ConfigError: There are new items, and nothing says how to take them in.
        """
        more = self._joined_by(pairs)
        scorer = propagated(self.scorer, self.rule, self.settings, self.seen, more, progress)
        return self._with(more, scorer)

    def _joined_by(self, pairs: Interactions) -> Addition:
        n_items, n_pairs = len(self.items), len(self.seen.indices)
        trained = Provenance.read(self.card, n_items=n_items, n_pairs=n_pairs)
        return add_pairs(self.users, self.items, self.seen, pairs, trained)

    def _with(self, more: Addition, scorer: StoredScorer) -> Artifact:
        """The model that a scorer of all pairs makes."""
        card = more.trained.written(self.card, self.rule, n_pairs=len(more.pairs.indices))
        return Artifact(scorer, more.users, more.items, more.pairs, self.settings, card)

    def similar(
        self, item_ids: Ids, k: int = 20, *, on_unknown: OnUnknown = "raise"
    ) -> Recommendations:
        """The k items most similar to each given one, without the item itself.

        The columns are item_id, similar_id, score and rank, and similar_name where there are
        names. An unknown item has nothing to fall back on: it is left out, or refused.
        """
        rank = self._ranker(k, exclude_seen=True, memory_mb=512)
        items = known_indices(item_ids, self.items, on_unknown=on_unknown)
        ranking = rank(self.similarity, items, seen=identity_pairs(len(self.items)))
        return Recommendations.of(
            ranking, self.items.ids[items], self.items, query="item", answer="similar"
        )

    def evaluate(
        self,
        test: Interactions,
        ks: Sequence[int] = (20,),
        *,
        on_unknown: Literal["raise", "skip"] = "raise",
        memory_mb: float = 512,
        progress: Progress | None = None,
        seed: int = 0,
    ) -> Report:
        """Judge the lists on test pairs; unknown ids are refused, or their pairs left out."""
        same = test.users.same_as(self.users) and test.items.same_as(self.items)
        report = evaluate(
            self.scorer,
            self.seen,
            test if same else test.aligned_to(self.users, self.items, on_unknown=on_unknown),
            ks=ks,
            memory_mb=memory_mb,
            progress=progress,
            seed=seed,
        )
        return replace(report, user_ids=self.users.ids[report.users])

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder, new or in place of a model, in one step."""
        content = {
            "scorer": self.scorer.kind,
            "users": describe(self.users),
            "items": describe(self.items),
            "settings": self.settings,
            "card": self.card,
        }
        arrays = {f"scorer.{name}": array for name, array in self.scorer.arrays().items()}
        arrays |= {"seen.indptr": self.seen.indptr, "seen.indices": self.seen.indices}
        arrays |= pack(self.users) | pack(self.items)
        arrays |= self.item_map.arrays() if self.item_map is not None else {}
        write_model(folder, content, arrays)

    @classmethod
    def load(cls, folder: str | Path) -> Artifact:
        """Read a model; one that is missing, cut short, altered or foreign is refused.

        Raises:
            ModelError: The folder holds no whole model of this format.
        """
        content, arrays = read_model(folder)
        with parts_are_whole(folder):
            seen = UserItems(arrays["seen.indptr"], arrays["seen.indices"])
            model = cls(
                SCORERS[content["scorer"]].from_arrays(part_of(arrays, "scorer."), seen),
                unpack("user", content["users"], arrays),
                unpack("item", content["items"], arrays),
                seen,
                dict(content["settings"]),
                dict(content["card"]),
            )
            if (kept := ItemMap.kept(arrays, len(model.items))) is not None:
                object.__setattr__(model, "item_map", kept)
        return model

    def _ranker(self, k: int, *, exclude_seen: bool, memory_mb: float) -> Exact:
        rank = Exact(k, exclude_seen, memory_mb)
        return replace(rank, k=min(k, max(len(self.items), 1)))

    @cached_property
    def rule(self) -> Rule | None:
        """How histories become vectors of users, where users are vectors."""
        return rule_for(self.scorer, self.settings, self.seen, self.card.get("fold_in"))

    @cached_property
    def item_map(self) -> ItemMap | None:
        """The items on a plane, where they are vectors: as saved, or made when first asked for."""
        return ItemMap.of(self.scorer)

    @cached_property
    def _popularity(self) -> NDArray[np.float32]:
        return np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)

    def _tables(
        self, blocks: Iterable[Ranking], user_ids: NDArray[Any]
    ) -> Iterator[Recommendations]:
        done = 0
        for block in blocks:
            ids = user_ids[done : done + len(block.users)]
            done += len(ids)
            yield Recommendations.of(block, ids, self.items)

    @cached_property
    def similarity(self) -> Scorer:
        """Scores items against one another."""
        return self.scorer.similarity()
