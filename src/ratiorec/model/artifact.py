"""A trained model: everything that recommending needs, and nothing of training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.filters import Filters
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import OnUnknown, Vocabulary
from ratiorec.evaluation.evaluate import Report, evaluate
from ratiorec.evaluation.reach import Reach, require_held_out
from ratiorec.model.cold import check_cold, retaught, with_cold_items, without_cold_items
from ratiorec.model.foldin.intake import Addition, add_pairs, grown, propagated
from ratiorec.model.foldin.rules import AnyRule, FoldedUsers, Provenance, folded, rule_for
from ratiorec.model.lists import Lists, cap_of, similar_items
from ratiorec.model.profiles import (
    UsersAlike,
    users_with,
)
from ratiorec.model.query import (
    Ids,
    Query,
    QueryOptions,
    resolve_histories,
)
from ratiorec.model.saving import arrays_of, content_of, fields_in
from ratiorec.model.store import parts_are_whole, read_model, write_model
from ratiorec.plain import html_table
from ratiorec.reranking.reranker import Shelf
from ratiorec.scorers import Scorer, StoredScorer
from ratiorec.scorers.item_map import ItemMap
from ratiorec.scorers.scorer import UserItems, check_pairs, pairs_of, require_fit
from ratiorec.scorers.table import Recommendations
from ratiorec.scorers.topk import Exact, Progress, blocked_items

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Artifact:
    """A model ready to recommend; it needs numpy and no torch.

    `settings` is how it was trained and `card` what came of it (metrics, training curve, seconds,
    fingerprint of the data, versions); both hold plain JSON types. The tables are what is known of
    items and users beside their ids: there may be nothing. The last `n_cold` items are there by
    their content alone, and of `new_users` nothing but attributes is known.
    """

    scorer: StoredScorer
    users: Vocabulary
    items: Vocabulary
    seen: UserItems
    settings: Mapping[str, Any] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)
    item_table: Attributes = None  # type: ignore[assignment]  # none of them, once it is made
    user_table: Attributes = None  # type: ignore[assignment]
    n_cold: int = 0
    new_users: IdTable | None = None

    def __post_init__(self) -> None:
        for name, ids in (("item_table", self.items), ("user_table", self.users)):
            table = getattr(self, name) or Attributes.none(len(ids))
            object.__setattr__(self, name, table)
            require_fit(name, table.n_rows, len(ids), "one row for each id")
        require_fit("user ids", len(self.users), self.scorer.n_users, "one for each user scored")
        require_fit("item ids", len(self.items), self.scorer.n_items, "one for each item scored")
        if self.n_cold != 0:
            check_cold(self.n_cold, len(self.items))
        n_warm = len(self.items) - self.n_cold
        check_pairs(self.seen, n_warm, name="seen items", n_users=len(self.users))

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

    def _rows(self) -> list[tuple[str, str]]:
        """What it is and how it came about, for people."""
        card, preset = self.card, self.card.get("preset") or self.scorer.kind
        chosen = [one for one in card.get("members") or () if one["weight"]]
        blend = ", ".join(f"{one['name']} {one['weight']:.2f}" for one in chosen)
        figures = {"validation": card.get("validation"), "test": card.get("test")}
        rows = [("model", f"{preset} ({blend})" if blend else str(preset))]
        cold = f", {self.n_cold:,} of them by content" if self.n_cold else ""
        rows += [("users", f"{len(self.users):,}"), ("items", f"{len(self.items):,}{cold}")]
        rows += [("pairs", f"{len(self.seen.indices):,}")]
        for part, metrics in figures.items():
            rows += [(f"{part} {name}", f"{value:.4f}") for name, value in (metrics or {}).items()]
        for name, kinds in (("item", self.item_table.kinds), ("user", self.user_table.kinds)):
            if kinds:
                told = ", ".join(f"{column} ({kind})" for column, kind in kinds.items())
                rows.append((f"{name} attributes", told))
        if "seconds" in card:
            made = f"seed {card['seed']}, {card['device']}, {card['seconds']['total']:.1f} s"
            rows.append(("fitted", made))
        return rows

    def __repr__(self) -> str:
        return f"Artifact({', '.join(f'{name}: {value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        return html_table([("ratiorec", ""), *self._rows()])

    def plot(self) -> Axes:
        """The validation curve of its training (extra `plots`)."""
        from ratiorec.plots import plot_curve

        return plot_curve(self.card)

    def with_items(self, table: Attributes, names: Sequence[str] | None = None) -> Artifact:
        """The same model with other attributes of its items, and other names where given."""
        items = self.items if names is None else self.items.with_names(names)
        return self._beside_scorer(items=items, item_table=table)

    def with_cold_items(self, table: IdTable) -> Artifact:
        """The model with the items of a table that nobody has had, by their content (theory: K2).

        They stand behind the other items, in place of those that came so before. Attributes of the
        items that the model knows are not taken from this table: `with_items` gives them first, as
        it is by these that the model learns what content means.
        """
        return with_cold_items(self, table)

    def without_cold_items(self) -> Artifact:
        """The model without the items that are there by their content alone."""
        return without_cold_items(self)

    def with_map_of(self, other: Artifact) -> Artifact:
        """This model, with the map of another of these items, fewer or more, if that has been made.

        Items that are in one of them alone lie between those that they are most like.
        """
        if "item_map" in vars(other):
            resized = other.item_map and other.item_map.resized(self.scorer)
            object.__setattr__(self, "item_map", resized)
        return self

    def with_users(self, table: Attributes) -> Artifact:
        """The same model with other attributes of its users."""
        return self._beside_scorer(user_table=table)

    def _beside_scorer(self, **changes: Any) -> Artifact:
        """The same scorer with other parts beside it; its map, where there is one, stays."""
        other = replace(self, **changes)
        if "item_map" in vars(self):
            object.__setattr__(other, "item_map", self.item_map)
        return other

    def with_new_users(self, table: IdTable) -> Artifact:
        """The model with the users of a table that it does not know, for lists by attributes.

        They replace those that came so before; users whom the model knows are left out.
        """
        found = self.users.indices(table.ids, on_unknown="skip")
        new = table.take(np.flatnonzero(found < 0))
        return self._beside_scorer(new_users=new if len(new) else None)

    def with_filters(self, named: Mapping[str, str]) -> Artifact:
        """The same model with names for filters, used as `@name`; they are not saved with it.

        Raises:
            ConfigError: One of them cannot be read, asks what the items cannot answer, or needs
                itself.
        """
        other = copy(self)  # with all that has been made of it
        filters = Filters.of(self.items, self.item_table, named)
        object.__setattr__(other, "filters", filters)
        vars(other).pop("shelf", None)  # which asks the filters
        return other

    def with_card(self, card: Mapping[str, Any]) -> Artifact:
        """The same model with another card."""
        return self._beside_scorer(card=card)

    def recommend(
        self, user_ids: Ids, query: Query | int | None = None, **options: Unpack[QueryOptions]
    ) -> Recommendations:
        """The k best items of each user, fewer where there are fewer.

        Args:
            user_ids: Users, in the order in which they will be listed; one alone will do.
            query: The options of the request, or k alone.
            **options: Fields of `Query` (k, exclude_seen, allow, deny, …), which come first.
        """
        return Lists.of_users(self, Query.of(query, **options), user_ids).table()

    def recommend_for(
        self,
        profiles: Sequence[Mapping[str, Any]],
        query: Query | int | None = None,
        **options: Unpack[QueryOptions],
    ) -> Recommendations:
        """The k best items of users of whom attributes alone are known (theory: K4).

        In the table a user is the place in `profiles`, each of which has values of columns of the
        users' table. All rows are of the kind "fallback".

        Raises:
            ConfigError: A profile names no attribute of users, or has a value of another kind.
        """
        return Lists.of_profiles(self, Query.of(query, **options), profiles).table()

    def recommend_blocks(
        self,
        user_ids: Ids,
        query: Query | int | None = None,
        *,
        progress: Progress | None = None,
        n_threads: int | None = None,
        **options: Unpack[QueryOptions],
    ) -> Iterator[Recommendations]:
        """What `recommend` gives, in blocks of users that fit the memory; on all cores if left."""
        asked = Lists.of_users(self, Query.of(query, **options), user_ids)
        return asked.tables(progress, n_threads)

    def recommend_all(
        self,
        query: Query | int | None = None,
        *,
        progress: Progress | None = None,
        **options: Unpack[QueryOptions],
    ) -> Iterator[Recommendations]:
        """The k best items of every user, in blocks of users that fit the memory."""
        return self.recommend_blocks(self.users.ids, query, progress=progress, **options)

    def recommend_to(
        self,
        histories: Sequence[Sequence[Any]],
        query: Query | int | None = None,
        **options: Unpack[QueryOptions],
    ) -> Recommendations:
        """The k best items of users who are known by their histories alone (cold start).

        In the table a user is the place in `histories`. An item of the history is listed unless
        `exclude_seen`; an unknown one is refused, or left out. A history without any item is
        refused, has no list ("skip"), or gets the items with most users ("fallback").
        """
        asked = Query.of(query, **options)
        known = self.fold_in(histories, on_unknown=asked.on_unknown)
        return Lists.of_folded(self, asked, known).table()

    def n_listable(self, user_ids: Ids, query: Query) -> NDArray[np.int64]:
        """How many items could be listed for each user, however small k; nothing is ranked."""
        found = query.resolve(user_ids, users=self.users, filters=self.filters)
        blocked = blocked_items(len(self.items), found.allow, found.deny)
        is_open = np.ones(len(self.items), bool) if blocked is None else ~blocked
        known = np.flatnonzero((found.users >= 0) & query.exclude_seen)
        rows, items = pairs_of(self.seen, found.users[known])
        n_seen = np.bincount(known[rows[is_open[items]]], minlength=len(found.users))
        n_warm = len(self.items) - self.n_cold
        cap, n_cold = cap_of(self, query), is_open[n_warm:].sum()
        n_open = is_open[:n_warm].sum() + (min(n_cold, cap.most) if cap else 0)
        n_listable: NDArray[np.int64] = n_open - n_seen
        return n_listable

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
        if self.n_cold:
            return retaught(self, self.without_cold_items().partial_fit(pairs, progress=progress))
        more = self._joined_by(pairs)
        return self._with(more, grown(self.scorer, self.rule, self.settings, more, progress))

    def update(self, pairs: Interactions, *, progress: Progress | None = None) -> Artifact:
        """The model with more pairs, its other users and items moved by them (theory: F8).

        As `partial_fit`, and nearer to another fit, for models of a density-ratio risk on a graph;
        for all others the same as `partial_fit`.

        Raises:
            ConfigError: There are new items, and nothing says how to take them in.
        """
        if self.n_cold:
            return retaught(self, self.without_cold_items().update(pairs, progress=progress))
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
        places = np.arange(len(more.items))
        model = Artifact(
            scorer,
            more.users,
            more.items,
            more.pairs,
            self.settings,
            card,
            self.item_table.take(np.where(places < len(self.items), places, -1)),
            users_with(self.new_users, self.user_table, self.users, more.users),
        ).with_map_of(self)
        return model if self.new_users is None else model.with_new_users(self.new_users)

    def similar(
        self, item_ids: Ids, query: Query | int | None = None, **options: Unpack[QueryOptions]
    ) -> Recommendations:
        """The k items most similar to each given one, without the item itself.

        The columns are item_id, similar_id, score and rank, and similar_name where there are
        names. The query is about what is listed, not about what is asked about: `exclude_seen`
        leaves out the item itself, which stands for a history where rules ask for one. An unknown
        item has nothing to fall back on: it is left out, or refused.
        """
        return similar_items(self, Query.of(query, **options), item_ids)

    def evaluate(
        self,
        test: Interactions,
        ks: Sequence[int] = (20,),
        *,
        on_unknown: Literal["raise", "skip"] = "raise",
        allow_seen: bool = False,
        memory_mb: float = 512,
        progress: Progress | None = None,
        seed: int = 0,
    ) -> Report:
        """Judge the lists on test pairs; unknown ids are refused, or their pairs left out.

        A test part of which most pairs are training pairs is refused too, unless `allow_seen`.
        """
        counts = Reach.of(test, self.users, self.items, self.seen).counts
        if not allow_seen:
            require_held_out(counts, where="test", override="allow_seen=True")
        same = test.users.same_as(self.users) and test.items.same_as(self.items)
        report = evaluate(
            self.scorer,
            self.seen,
            test if same else test.aligned_to(self.users, self.items, on_unknown=on_unknown),
            ks=ks,
            progress=progress,
            seed=seed,
            background=self.seen,
            ranker=lambda k: Exact(k, memory_mb=memory_mb, cap=cap_of(self, Query(k))),
        )
        return replace(report, user_ids=self.users.ids[report.users], pairs=counts)

    def save(self, folder: str | Path) -> None:
        """Write the model into a folder, new or in place of a model, in one step."""
        write_model(folder, content_of(self), arrays_of(self))

    @classmethod
    def load(cls, folder: str | Path) -> Artifact:
        """Read a model; one that is missing, cut short, altered or foreign is refused.

        Raises:
            ModelError: The folder holds no whole model of this format.
        """
        with parts_are_whole(folder):
            content, arrays = read_model(folder)
            model = cls(**fields_in(content, arrays))
            # a folder from before there were maps has the plane: a server has no time for more
            stored = ItemMap.stored(arrays, len(model.items)) or ItemMap.plane_of(model.scorer)
            object.__setattr__(model, "item_map", stored)
        return model

    @cached_property
    def new_user_ids(self) -> Vocabulary:
        """The users of whom nothing but attributes is known, to be searched."""
        ids = np.zeros(0, object) if self.new_users is None else self.new_users.ids
        return Vocabulary(ids, "user")

    @cached_property
    def rule(self) -> AnyRule:
        """How histories become vectors of users, where users are vectors."""
        ridge = self.card.get("fold_in")
        return rule_for(self.scorer, self.settings, self.seen, ridge, n_cold=self.n_cold)

    @cached_property
    def users_alike(self) -> UsersAlike:
        """By whom users of whom attributes alone are known are told."""
        return UsersAlike.of(self.user_table, self.seen, len(self.items))

    @cached_property
    def filters(self) -> Filters:
        """What filters mean: the columns that they may ask, and those that have a name."""
        return Filters(self.items, self.item_table)

    @cached_property
    def item_map(self) -> ItemMap | None:
        """The items on a plane, where they are vectors: as saved, or made when first asked for."""
        return ItemMap.of(self.scorer)

    @cached_property
    def shelf(self) -> Shelf:
        """What rules for lists ask about the items."""
        return Shelf(self.scorer, self.filters, self.seen)

    @cached_property
    def popularity(self) -> NDArray[np.float32]:
        """How many users each item has."""
        return np.bincount(self.seen.indices, minlength=len(self.items)).astype(np.float32)

    @cached_property
    def cold_items(self) -> NDArray[np.bool_]:
        """Which items have no pairs."""
        is_cold: NDArray[np.bool_] = np.bincount(self.seen.indices, minlength=len(self.items)) == 0
        return is_cold

    @cached_property
    def similarity(self) -> Scorer:
        """Scores items against one another."""
        return self.scorer.similarity()
