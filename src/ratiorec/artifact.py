"""A trained model: everything that recommending needs, and nothing of training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import OnUnknown, Vocabulary
from ratiorec.errors import ConfigError, ModelError
from ratiorec.evaluate import Report, evaluate
from ratiorec.folder import read_model, write_model
from ratiorec.packing import Arrays, describe, pack, unpack
from ratiorec.recommend import Exact, Progress, Ranking, SeenItems, by_cosine, itself
from ratiorec.scorers import Indices, InnerProduct, Scorer, StoredScorer, WithStranger
from ratiorec.tables import Recommendations

SCORERS: Mapping[str, type[StoredScorer]] = MappingProxyType({InnerProduct.kind: InnerProduct})
"""The kinds of scorer a model folder may hold."""

Ids = Iterable[Any] | str | int


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
        _require("user ids", len(self.users), self.scorer.n_users, "one for each user scored")
        _require("item ids", len(self.items), self.scorer.n_items, "one for each item scored")
        _check_seen(self.seen, self.scorer.n_users, self.scorer.n_items)

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
        request = self._request(user_ids, allow, deny, on_unknown)
        ranking = rank(
            request.scorer,
            request.users,
            seen=request.seen,
            allow=request.allow,
            deny=request.deny,
        )
        return Recommendations.of(ranking, request.user_ids, self.items)

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
        request = self._request(user_ids, allow, deny, on_unknown)
        blocks = rank.stream(
            request.scorer,
            request.users,
            seen=request.seen,
            allow=request.allow,
            deny=request.deny,
            progress=progress,
        )
        return self._tables(blocks, request.user_ids)

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
        """The k items nearest to each given one by cosine, without the item itself.

        The columns are item_id, similar_id, score and rank, and similar_name where there are
        names. An unknown item has nothing to fall back on: it is left out, or refused.
        """
        rank = self._ranker(k, exclude_seen=True, memory_mb=512)
        items = self._known_items(item_ids, on_unknown)
        ranking = rank(self.cosine, items, seen=itself(len(self.items)))
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
            scorer = SCORERS[content["scorer"]].from_arrays(_part(arrays, "scorer."))
            return cls(
                scorer,
                unpack("user", content["users"], arrays),
                unpack("item", content["items"], arrays),
                SeenItems(arrays["seen.indptr"], arrays["seen.indices"]),
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

    def _request(
        self, user_ids: Ids, allow: Ids | None, deny: Ids | None, on_unknown: OnUnknown
    ) -> _Request:
        """The outside world's ids as indices; whoever is unknown becomes the stranger."""
        _check_policy(on_unknown)
        wanted = _listed(user_ids)
        users = self.users.indices(wanted, on_unknown=on_unknown)
        if on_unknown == "skip":
            users = users[users >= 0]
        allowed = None if allow is None else self._known_items(allow, on_unknown)
        denied = None if deny is None else self._known_items(deny, on_unknown)
        if (users >= 0).all():
            shown = self.users.ids[users]
            return _Request(users, shown, self.scorer, self.seen, allowed, denied)
        stranger = len(self.users)
        counts = np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)
        return _Request(
            np.where(users >= 0, users, stranger),
            _as_ids(wanted, self.users),
            WithStranger(self.scorer, counts),
            SeenItems(np.append(self.seen.indptr, self.seen.indptr[-1]), self.seen.indices),
            allowed,
            denied,
        )

    def _tables(
        self, blocks: Iterable[Ranking], user_ids: NDArray[Any]
    ) -> Iterator[Recommendations]:
        done = 0
        for block in blocks:
            ids = user_ids[done : done + len(block.users)]
            done += len(ids)
            yield Recommendations.of(block, ids, self.items)

    def _known_items(self, item_ids: Ids, on_unknown: OnUnknown) -> Indices:
        _check_policy(on_unknown)
        items = self.items.indices(_listed(item_ids), on_unknown=on_unknown)
        return items[items >= 0]

    @cached_property
    def cosine(self) -> InnerProduct:
        """Scores items against one another by the cosine of their factors."""
        if isinstance(self.scorer, InnerProduct):
            return by_cosine(self.scorer.items)
        raise ConfigError(
            "this kind of model has no item factors to compare",
            where="similar",
            found=self.scorer.kind,
            wanted=InnerProduct.kind,
        )


class _Request(NamedTuple):
    users: Indices
    user_ids: NDArray[Any]
    scorer: Scorer
    seen: SeenItems
    allow: Indices | None
    deny: Indices | None


def _listed(ids: Ids) -> Any:
    """The ids as a list or an array; a lone one is a list of one and text is not taken apart."""
    if isinstance(ids, str | int | np.integer):
        return [ids]
    return ids if isinstance(ids, np.ndarray) else list(ids)


def _as_ids(wanted: Sequence[Any], users: Vocabulary) -> NDArray[Any]:
    """Ids that may be unknown, as an array like that of the known ones where that is possible."""
    if users.ids.dtype == np.int64:
        try:
            return np.array([int(identifier) for identifier in wanted], np.int64)
        except (ValueError, TypeError, OverflowError):
            pass
    return np.array([str(identifier) for identifier in wanted], object)


def _same_ids(a: Vocabulary, b: Vocabulary) -> bool:
    return a.ids is b.ids or (a.ids.dtype == b.ids.dtype and np.array_equal(a.ids, b.ids))


def _check_policy(on_unknown: str) -> None:
    if on_unknown not in get_args(OnUnknown):
        raise ConfigError(
            "no such policy for unknown ids",
            where="on_unknown",
            found=repr(on_unknown),
            wanted="one of " + ", ".join(map(repr, get_args(OnUnknown))),
        )


def _part(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _check_seen(seen: SeenItems, n_users: int, n_items: int) -> None:
    indptr, indices = seen.indptr, seen.indices
    _require("axes of seen items", (indptr.ndim, indices.ndim), (1, 1), "two lists")
    types = (str(indptr.dtype), str(indices.dtype))
    _require("types of seen items", types, ("int64", "int32"), "indptr and indices")
    _require("rows of seen items", len(indptr), n_users + 1, "one for each user, and the end")
    ends = (int(indptr[0]), int(indptr[-1]))
    _require("ends of seen items", ends, (0, len(indices)), "from first to last")
    in_order = bool((np.diff(indptr) >= 0).all())
    _require("rows of seen items in order", in_order, True, "rows that do not overlap")
    in_range = not len(indices) or (indices.min() >= 0 and indices.max() < n_items)
    _require("seen items in range", bool(in_range), True, f"0 to {n_items - 1}")


def _require(where: str, found: object, wanted: object, why: str) -> None:
    if found != wanted:
        raise ModelError(
            "the parts of the model do not fit each other",
            where=where,
            found=str(found),
            wanted=f"{wanted} ({why})",
        )
