"""Cold items of a model: taken in by their content, left out, and warm once they have pairs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Texts
from ratiorec.catalogue.conditions import missing
from ratiorec.catalogue.content import Content, Mask
from ratiorec.catalogue.ridge import Ridge
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ModelError
from ratiorec.machine import one_blas_thread
from ratiorec.model.foldin.intake import joined
from ratiorec.scorers import FloatMatrix, Scorer
from ratiorec.scorers import cold_items as scorers
from ratiorec.scorers.blend import standardise

if TYPE_CHECKING:
    from ratiorec.model.artifact import Artifact

_CARD = "cold_items"
_USERS_ASKED = 256
_SCORES_HELD = 2**25


def with_cold_items(model: Artifact, table: IdTable, ridge: Ridge | None = None) -> Artifact:
    """The model with the rows of a table that it does not know, as mixes of its items.

    Rows of which nothing is known are left out. The ridge is chosen anew unless it is given.
    """
    warm = without_cold_items(model)
    found = warm.items.indices(table.ids, on_unknown="skip")
    cold = table.take(np.flatnonzero((found < 0) & are_told(table)))
    if not len(cold):
        return warm
    n_known = len(warm.items)
    items, _ = joined(warm.items, _vocabulary(cold))
    item_table = warm.item_table.followed_by(cold.attributes)
    told = _with_titles(item_table, items.ids, items.names)
    teaches = _teaching(told, ~warm.cold_items)
    content = Content.of(told, teaches)
    with one_blas_thread():
        if ridge is None:
            ridge = Ridge.chosen(content, teaches, item_targets(warm.scorer))
        mix = ridge.mix(content, teaches, n_known)
        scorer = scorers.with_cold_items(warm.scorer, mix, warm.seen)
    return replace(
        warm,
        scorer=scorer,
        items=items,
        item_table=item_table,
        card={**warm.card, _CARD: asdict(ridge)},
        n_cold=len(cold),
    ).with_map_of(warm)


def without_cold_items(model: Artifact) -> Artifact:
    """The model without the items that are there by their content alone."""
    if not model.n_cold:
        return model
    n_known = len(model.items) - model.n_cold
    ids, names = model.items.ids, model.items.names
    return replace(
        model,
        scorer=scorers.without_cold_items(model.scorer, n_known, model.seen),
        items=Vocabulary(ids[:n_known], "item", None if names is None else names[:n_known]),
        item_table=model.item_table.take(np.arange(n_known)),
        card={name: value for name, value in model.card.items() if name != _CARD},
        n_cold=0,
    ).with_map_of(model)


def retaught(before: Artifact, warm: Artifact) -> Artifact:
    """A model with more pairs, its cold items by what it is now; those with pairs are warm.

    Args:
        before: The model with its cold items.
        warm: The same without them, and with the pairs.
    """
    places = before.items.indices(warm.items.ids, on_unknown="skip")
    names = warm.items.names
    if names is not None and before.items.names is not None:
        names = np.where(places >= 0, before.items.names[places], names)
    items = warm.items if names is None else warm.items.with_names(names.tolist())
    item_table = before.item_table.take(places)
    warm = replace(warm, items=items, item_table=item_table).with_map_of(warm)
    ridge = Ridge(**before.card[_CARD]) if _CARD in before.card else None
    return with_cold_items(warm, cold_table(before), ridge)


def cold_table(model: Artifact) -> IdTable:
    """The items that are there by their content alone, and what is known of them."""
    rows = np.arange(len(model.items) - model.n_cold, len(model.items))
    names = model.items.names
    titles = None if names is None else names[rows]
    return IdTable(model.items.ids[rows], titles, model.item_table.take(rows))


def check_cold(n_cold: Any, n_items: int) -> None:
    """Refuse a number of cold items that cannot be.

    Raises:
        ModelError: It is no number, or there are not so many items.
    """
    if type(n_cold) is not int or not 0 <= n_cold <= n_items:
        raise ModelError(
            "the model cannot have so many cold items",
            where="n_cold",
            found=repr(n_cold),
            wanted=f"a whole number from 0 to {n_items:,}",
        )


def are_told(table: IdTable) -> Mask:
    """The items of which something is known, be it the title alone."""
    return _is_told(_with_titles(table.attributes, table.ids, table.titles))


def item_targets(scorer: Scorer) -> NDArray[np.float32]:
    """What is to be told of each item: its standardised scores for some users [n_items, n]."""
    n_asked = max(1, min(_USERS_ASKED, _SCORES_HELD // max(1, scorer.n_items)))
    users = np.arange(0, scorer.n_users, max(1, -(-scorer.n_users // n_asked)))
    scores: FloatMatrix = standardise(scorer.scores(users))
    return scores.T


def _with_titles(table: Attributes, ids: NDArray[Any], titles: NDArray[Any] | None) -> Attributes:
    """The table with the titles as a text, where they are more than the ids."""
    if titles is None or "title" in table.columns:
        return table
    both = zip(titles.tolist(), ids.tolist(), strict=True)
    texts = [None if title is None or title == str(item) else title for title, item in both]
    column = Texts(np.array([*texts, None], object)[:-1])
    return Attributes(table.n_rows, {**table.columns, "title": column})


def _teaching(table: Attributes, has_pairs: Mask) -> Mask:
    """The rows by which content is learnt: items with pairs of which something is known."""
    teaches = np.zeros(table.n_rows, bool)
    teaches[: len(has_pairs)] = has_pairs
    is_told = teaches & _is_told(table)
    return is_told if is_told.any() else teaches


def _is_told(table: Attributes) -> Mask:
    """The rows of which something is known."""
    found = np.zeros(table.n_rows, bool)
    for name in table.columns:
        found |= ~missing(table, name)
    return found


def _vocabulary(table: IdTable) -> Vocabulary:
    """The ids of items, with the titles for names; an id where one is missing."""
    items = Vocabulary(table.ids, "item")
    if table.titles is None:
        return items
    titles = zip(table.titles.tolist(), table.ids.tolist(), strict=True)
    return items.with_names([str(one) if title is None else str(title) for title, one in titles])
