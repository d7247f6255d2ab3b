"""Evaluation of cold items: some are held out entirely and told by their content alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError, require_range
from ratiorec.evaluation.compare import Comparison, compare
from ratiorec.evaluation.evaluate import Report, evaluate
from ratiorec.model.artifact import Artifact
from ratiorec.model.cold import are_told
from ratiorec.scorers import FloatMatrix, Indices, PopularityScorer, Scorer
from ratiorec.training.experiment import fit

CONTENT, POPULARITY, RANDOM = "content", "popularity", "random"


@dataclass(frozen=True, eq=False)
class HeldOutItems:
    """Pairs without some items, and the pairs of these alone, over vocabularies of their own."""

    train: Interactions
    held: Interactions
    table: Attributes  # of the items of `train`
    cold: IdTable  # of the items of `held`
    n_untold: int = 0  # items that could not be held out

    @classmethod
    def drawn(
        cls, data: Interactions, table: Attributes, *, share: float, rng: np.random.Generator
    ) -> HeldOutItems:
        """A random share of the items that have pairs and content, held out with all of them.

        Content is a title or an attribute: without either no model could place an item.

        Raises:
            ConfigError: The share leaves no item on either side, or nothing is known of any.
        """
        require_range("--cold-items", share, above=0, below=1, what="no such share of the items")
        is_told = are_told(IdTable(data.items.ids, data.items.names, table))
        if not is_told.any():
            raise ConfigError(
                "nothing is known of the items",
                where="--cold-items",
                found="a model without titles and attributes of its items",
                wanted="a table of items: their content tells what is cold",
            )
        has_pairs = data.item_degrees > 0
        drawable = np.flatnonzero(has_pairs & is_told)
        n_held = round(share * len(drawable))
        if not 0 < n_held < len(drawable) - 1:
            raise ConfigError(
                "too few items are left on one side",
                where="--cold-items",
                found=f"{n_held:,} of {len(drawable):,} items held out",
                wanted="a share that holds out one at least and leaves two",
            )
        is_held = np.zeros(data.n_items, bool)
        is_held[rng.choice(drawable, n_held, replace=False)] = True
        sides = [np.flatnonzero(is_held == side) for side in (False, True)]
        train, held = (
            data.aligned_to(data.users, _some(data.items, side), on_unknown="skip")
            for side in sides
        )
        cold = IdTable(held.items.ids, held.items.names, table.take(sides[1]))
        n_untold = int((has_pairs & ~is_told).sum())
        return cls(train, held, table.take(sides[0]), cold, n_untold)


@dataclass(frozen=True, eq=False)
class ColdItemsReport:
    """How well held-out items are told by content, and by what knows no user.

    `popularity` ranks them by the number of users that their content makes probable, the same for
    everybody; `random` by chance.
    """

    reports: Mapping[str, Report]
    model: Artifact
    counts: Mapping[str, Any]

    def against(self, name: str) -> Comparison:
        """Content minus another, user by user."""
        return compare(self.reports[CONTENT], self.reports[name])

    def to_json(self) -> dict[str, Any]:
        """The report in plain types; the figures of content stand where those of a model do."""
        others = (POPULARITY, RANDOM)
        figures = {name: self.reports[name].to_json() for name in (CONTENT, *others)}
        return {
            **figures[CONTENT],
            "cold_items": {**self.counts, **self.model.card["cold_items"]},
            "baselines": {name: {"metrics": figures[name]["metrics"]} for name in others},
            "against": {name: self.against(name).to_json() for name in others},
        }


def evaluate_cold_items(
    data: Interactions,
    table: Attributes,
    *,
    share: float = 0.2,
    ks: Sequence[int] = (20,),
    seed: int = 0,
    **how: Any,
) -> ColdItemsReport:
    """Judge what content tells of items: a model trained without some lists these alone.

    Args:
        data: Pairs.
        table: Attributes, one row for each item of `data`, whose names are content as well.
        share: How many of the items of which something is known are held out, with all their pairs.
        ks: The lengths of lists, of held-out items alone.
        seed: Of what is held out, of the fit and of the intervals.
        **how: How to train: arguments of `fit`, such as preset, settings, device, options.

    Raises:
        ConfigError: There is nothing to tell items by, or the share is out of range.
        DataError: Nobody has both a held-out item and another.
    """
    drawn = HeldOutItems.drawn(data, table, share=share, rng=np.random.default_rng(seed))
    model = fit(Dataset("held-out items", drawn.train), seed=seed, **how)
    model = model.with_items(drawn.table).with_cold_items(drawn.cold)
    n_known = len(drawn.train.items)
    judged = drawn.held.select(drawn.train.user_degrees[drawn.held.pair_users] > 0)
    if not judged.n_pairs:
        raise DataError(
            "there is nothing to judge by",
            where="--cold-items",
            found="no user with both a held-out item and another",
            wanted="pairs of users who have several items",
        )
    counts = PopularityScorer(drawn.train.item_degrees.astype(np.float32), data.n_users)
    popular = replace(model.without_cold_items(), scorer=counts).with_cold_items(drawn.cold)
    scorers: dict[str, Scorer] = {
        CONTENT: LastItems(model.scorer, n_known),
        POPULARITY: LastItems(popular.scorer, n_known),
        RANDOM: RandomScores(data.n_users, len(drawn.cold), seed),
    }
    reports = {
        name: evaluate(scorer, None, judged, ks=ks, seed=seed) for name, scorer in scorers.items()
    }
    told = {
        "held_out": len(drawn.cold),
        "trained": n_known,
        "untold": drawn.n_untold,
        "pairs": judged.n_pairs,
    }
    return ColdItemsReport(reports, model, {**told, "share": share, "seed": seed})


@dataclass(frozen=True, eq=False)
class LastItems:
    """The scores of the items from `first` on alone."""

    of_all: Scorer
    first: int

    @property
    def n_users(self) -> int:
        return self.of_all.n_users

    @property
    def n_items(self) -> int:
        return self.of_all.n_items - self.first

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """Some columns of the scores of all."""
        found = np.ascontiguousarray(self.of_all.scores(users)[:, self.first :])
        if out is None:
            return found
        out[...] = found
        return out


@dataclass(frozen=True)
class RandomScores:
    """Scores by chance, the same for a user whoever else is asked about."""

    n_users: int
    n_items: int
    seed: int

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """Uniform numbers."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        for row, user in enumerate(users.tolist()):
            out[row] = np.random.default_rng([self.seed, user]).random(self.n_items)
        return out


def _some(items: Vocabulary, rows: NDArray[np.int64]) -> Vocabulary:
    names = None if items.names is None else items.names[rows]
    return Vocabulary(items.ids[rows], items.kind, names)
