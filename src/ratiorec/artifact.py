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
from ratiorec.errors import ModelError
from ratiorec.evaluate import Report, evaluate
from ratiorec.folder import read_model, write_model
from ratiorec.packing import Arrays, describe, pack, unpack
from ratiorec.recommend import Exact, Progress, Ranking
from ratiorec.request import Ids, known_indices, resolve
from ratiorec.scorers import SCORERS, Indices, Scorer, StoredScorer, WithStranger
from ratiorec.seen import SeenItems, check_pairs, itself, require_fit
from ratiorec.tables import Recommendations


@dataclass(frozen=True, eq=False)
class Artifact:
    """A model ready to recommend; it needs numpy and no torch.

    `settings` is how it was trained and `card` what came of it (metrics, training curve, seconds,
    fingerprint of the data, versions); both hold plain JSON types.
    """

    scorer: StoredScorer
    users: Vocabulary
    items: Vocabulary
    seen: SeenItems
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
        return cls(scorer, data.users, data.items, SeenItems.of(data), settings, card)

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
        scorer, users, seen = self._with_strangers(asked.users)
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
        scorer, users, seen = self._with_strangers(asked.users)
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

    def similar(
        self, item_ids: Ids, k: int = 20, *, on_unknown: OnUnknown = "raise"
    ) -> Recommendations:
        """The k items most similar to each given one, without the item itself.

        The columns are item_id, similar_id, score and rank, and similar_name where there are
        names. An unknown item has nothing to fall back on: it is left out, or refused.
        """
        rank = self._ranker(k, exclude_seen=True, memory_mb=512)
        items = known_indices(item_ids, self.items, on_unknown=on_unknown)
        ranking = rank(self.similarity, items, seen=itself(len(self.items)))
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
        same = _same_ids(test.users, self.users) and _same_ids(test.items, self.items)
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
        write_model(folder, content, arrays)

    @classmethod
    def load(cls, folder: str | Path) -> Artifact:
        """Read a model; one that is missing, cut short, altered or foreign is refused.

        Raises:
            ModelError: The folder holds no whole model of this format.
        """
        content, arrays = read_model(folder)
        try:
            seen = SeenItems(arrays["seen.indptr"], arrays["seen.indices"])
            kind = SCORERS[content["scorer"]]
            return cls(
                kind.from_arrays(_part(arrays, "scorer."), seen),
                unpack("user", content["users"], arrays),
                unpack("item", content["items"], arrays),
                seen,
                dict(content["settings"]),
                dict(content["card"]),
            )
        except ModelError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelError(
                "the model is not complete",
                where=str(folder),
                found=f"{type(error).__name__}: {error}",
                wanted="all parts of a model of this version",
            ) from error

    def _ranker(self, k: int, *, exclude_seen: bool, memory_mb: float) -> Exact:
        rank = Exact(k, exclude_seen, memory_mb)
        return replace(rank, k=min(k, max(len(self.items), 1)))

    def _with_strangers(self, users: Indices) -> tuple[Scorer, Indices, SeenItems]:
        """What ranks these users, where -1 becomes a stranger, to whom the popular is best."""
        if (users >= 0).all():
            return self.scorer, users, self.seen
        counts = np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)
        return (
            WithStranger(self.scorer, counts),
            np.where(users >= 0, users, len(self.users)),
            SeenItems(np.append(self.seen.indptr, self.seen.indptr[-1]), self.seen.indices),
        )

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


def _same_ids(a: Vocabulary, b: Vocabulary) -> bool:
    return a.ids is b.ids or (a.ids.dtype == b.ids.dtype and np.array_equal(a.ids, b.ids))


def _part(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
