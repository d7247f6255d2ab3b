"""Answers: from ids in a request to lists, and to why an item is recommended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.rules import folded
from ratiorec.model.query import Query
from ratiorec.scorers.blend import Blend, standardise
from ratiorec.scorers.factors import InnerProduct
from ratiorec.scorers.scorer import Indices, UserItems
from ratiorec.serve.conditions import settle
from ratiorec.serve.errors import PlainJSON, RefusedError, encoded
from ratiorec.serve.models import Served
from ratiorec.serve.ranking import Id, ServedQuery, rows_by_query
from ratiorec.serve.service import Service

POINTS = 2000  # more would hide one another on a map
Told = Sequence[str] | None
"""The attributes that are told of each item."""
_MANY_ROWS = 1000  # writing so many as JSON would keep other requests waiting


async def lists_of_users(
    service: Service, asked: ServedQuery, user_ids: Sequence[Id]
) -> list[dict[str, Any] | None]:
    """The list of each user; of unknown ones as the query says, None where they are left out."""
    artifact, on_unknown = asked.model.artifact, asked.query.on_unknown
    users = artifact.users
    found = users.indices(user_ids, on_unknown=on_unknown)
    known = dict(zip(user_ids, found.tolist(), strict=True))
    native = {
        user: native_id(users, index) if index >= 0 else _as_asked(users, user)
        for user, index in known.items()
    }
    unknown = [native[user] for user, index in known.items() if index < 0]
    await settle(service.queue, asked.model, asked.query)
    lists = await service.queue.lists(asked, [native[u] for u, i in known.items() if i >= 0])
    if on_unknown != "skip":
        places = artifact.new_user_ids.indices(unknown, on_unknown="skip").tolist()
        told = [user for user, place in zip(unknown, places, strict=True) if place >= 0]
        lists |= await service.queue.lists(asked, told)  # by their attributes
        others = [user for user, place in zip(unknown, places, strict=True) if place < 0]
        lists |= await service.queue.lists(replace(asked, of_unknown_users=True), others)
    return [
        None
        if known[user] < 0 and on_unknown == "skip"
        else {
            "user_id": native[user],
            **_marked(known[user] < 0),
            "items": lists.get(native[user], []),
        }
        for user in user_ids
    ]


async def lists_by_variant(
    service: Service, query: Query, user_ids: Sequence[Id], models: Sequence[Served]
) -> dict[str, Any]:
    """The answer about several users, each of whom has a model; lists in the order asked for."""
    lists: list[dict[str, Any] | None] = [None] * len(user_ids)
    for model in (once := dict.fromkeys(models)):
        places = [place for place, one in enumerate(models) if one is model]
        asked = ServedQuery(model, query)
        found = await lists_of_users(service, asked, [user_ids[place] for place in places])
        for place, row in zip(places, found, strict=True):
            lists[place] = row if row is None or len(once) == 1 else model.name | row
    name = models[0].name if len(once) == 1 else dict.fromkeys(models[0].name)
    return name | {"lists": [row for row in lists if row is not None]}


def _as_asked(users: Vocabulary, user: Id) -> Id:
    """An unknown id as it was given; an address has whole numbers as text, and a model may not."""
    native: Id = users.native(user) if isinstance(user, str) else user
    return native


def _marked(is_fallback: bool) -> dict[str, bool]:
    """The mark of a list that is not personal; the others have none."""
    return {"fallback": True} if is_fallback else {}


async def lists_of_histories(
    service: Service, asked: ServedQuery, histories: Sequence[Sequence[Id]]
) -> list[dict[str, Any]]:
    """The list of each history."""
    numbered = list(enumerate(histories))
    await settle(service.queue, asked.model, asked.query)
    return await service.queue.fold_ins(partial(_lists_by_fold_in, asked), numbered)


def _lists_by_fold_in(
    asked: ServedQuery, numbered: Sequence[tuple[int, Sequence[Id]]]
) -> list[dict[str, Any]]:
    histories = [history for _, history in numbered]
    rows = rows_by_query(asked.model.artifact.recommend_to(histories, asked.query))
    return [
        {
            "history": place,
            **_marked(_is_nobodys(asked, history)),
            "items": rows.get(row, []),
        }
        for row, (place, history) in enumerate(numbered)
    ]


async def lists_of_profiles(
    service: Service, asked: ServedQuery, profiles: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The list of each user of whom attributes alone are known."""
    numbered = list(enumerate(profiles))
    await settle(service.queue, asked.model, asked.query)
    return await service.queue.fold_ins(partial(_lists_by_profile, asked), numbered)


def _lists_by_profile(
    asked: ServedQuery, numbered: Sequence[tuple[int, Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    profiles = [profile for _, profile in numbered]
    rows = rows_by_query(asked.model.artifact.recommend_for(profiles, asked.query))
    return [
        {"profile": place, **_marked(True), "items": rows.get(row, [])}
        for row, (place, _) in enumerate(numbered)
    ]


def _is_nobodys(asked: ServedQuery, history: Sequence[Id]) -> bool:
    """Whether a history holds no known item and gets what is popular."""
    items, on_unknown = asked.model.artifact.items, asked.query.on_unknown
    return on_unknown == "fallback" and not (items.indices(history, on_unknown="skip") >= 0).any()


def similar_items(model: Served, item_id: Id, query: Query) -> dict[str, Any]:
    """The items most like one, under the id that the model has for it."""
    index = int(model.artifact.items.indices([item_id])[0])
    native = native_id(model.artifact.items, index)
    rows = rows_by_query(model.artifact.similar([native], query))
    return {"item_id": native, "items": rows.get(native, [])}


def native_id(vocabulary: Vocabulary, index: int) -> Id:
    """The id at an index, as JSON has it."""
    (identifier,) = vocabulary.ids[index : index + 1].tolist()
    native: Id = identifier
    return native


def found_items(model: Served, query: str, k: int, told: Told = None) -> list[dict[str, Any]]:
    """The items that a search finds."""
    return named_items(model.artifact, model.catalogue.find(query, k), told)


def found_users(model: Served, query: str, k: int) -> list[dict[str, Any]]:
    """The users that a search finds, and how many items each had in training."""
    found = np.array(model.directory.find(query, k), np.int64)
    indptr = model.artifact.seen.indptr
    n_items = (indptr[found + 1] - indptr[found]).tolist()
    user_ids = model.artifact.users.ids[found].tolist()
    return [{"user_id": u, "n_items": n} for u, n in zip(user_ids, n_items, strict=True)]


def history_of(model: Served, user_id: Id, k: int, told: Told = None) -> dict[str, Any]:
    """The items that a user had in training, how many they are, and the first k of them."""
    artifact = model.artifact
    user = int(artifact.users.indices([user_id])[0])
    start, end = artifact.seen.indptr[user : user + 2].tolist()
    rows = named_items(artifact, artifact.seen.indices[start : min(end, start + k)].tolist(), told)
    return {"user_id": native_id(artifact.users, user), "n_items": end - start, "items": rows}


def placed_items(model: Served, item_ids: Sequence[Id] | None, told: Told = None) -> dict[str, Any]:
    """The places of these items on the map, or of those with most users."""
    items, item_map = model.artifact.items, model.artifact.item_map
    if item_map is None:
        raise RefusedError(
            "this kind of model has no map",
            status=404,
            where="/v1/map",
            found=model.artifact.scorer.kind,
            wanted="a model whose items are vectors",
        )
    listed = (
        model.catalogue.by_users[:POINTS].tolist()
        if item_ids is None
        else items.indices(item_ids).tolist()
    )
    rows = named_items(model.artifact, listed, told)
    places = item_map.places[listed].astype(np.float64).round(4)  # without a float32's tail
    for row, (x, y) in zip(rows, places.tolist(), strict=True):
        row |= {"x": x, "y": y}
    figures = {"neighbours_kept": item_map.kept, "kept_by_plane": item_map.kept_by_plane}
    return {"n_items": len(items), "shown": item_map.shown, **figures, "items": rows}


def named_items(
    artifact: Artifact, found: Sequence[int], told: Told = None
) -> list[dict[str, Any]]:
    """Items by their indices, with names where there are any, and the attributes asked for."""
    items = artifact.items
    rows: list[dict[str, Any]] = [{"item_id": item_id} for item_id in items.ids[found].tolist()]
    if items.names is not None:
        for row, name in zip(rows, items.names[found].tolist(), strict=True):
            row["item_name"] = name
    if told:
        table = artifact.item_table.asked_for(told, where="attributes")
        for row, attributes in zip(rows, table.rows(found), strict=True):
            row["attributes"] = attributes
    return rows


async def as_json(content: dict[str, Any], *, n_rows: int) -> PlainJSON:
    """An answer; a long one is written in a thread."""
    if n_rows <= _MANY_ROWS:
        return PlainJSON(content)
    answer = PlainJSON({})
    answer.body = await asyncio.to_thread(encoded_in_pieces, content)
    answer.init_headers()
    return answer


def encoded_in_pieces(content: dict[str, Any]) -> bytes:
    """As `encoded`, one entry of a list after the other: each holds the interpreter for itself."""
    fields = [
        encoded(name) + b":" + b"[" * is_list + b",".join(map(encoded, parts)) + b"]" * is_list
        for name, value in content.items()
        for is_list in [isinstance(value, list)]
        for parts in [value if is_list else [value]]
    ]
    return b"{" + b",".join(fields) + b"}"


async def contributions(
    service: Service, model: Served, history: Sequence[Id], item_id: Id
) -> dict[str, Any]:
    """What each item of a history adds to the score of an item, the largest first.

    The contribution of j is s(H, i) − s(H ∖ {j}, i), both users being folded in.
    """
    items = model.artifact.items
    wanted = int(items.indices([item_id])[0])
    found = np.unique(items.indices(history)).tolist()  # in the order that fold-in has them
    if not found:
        raise ConfigError(
            "the history is empty", where="history", found="[]", wanted="one item or more"
        )
    scores = partial(_scores_without, model.artifact, np.array(found), wanted)
    score, *without = await service.queue.fold_ins(scores, [-1, *range(len(found))])
    parts = [
        {**row, "contribution": score - rest}
        for row, rest in zip(named_items(model.artifact, found), without, strict=True)
    ]
    parts.sort(key=lambda part: -part["contribution"])
    answer = {**named_items(model.artifact, [wanted])[0], "score": score, "history": parts}
    if isinstance(model.artifact.scorer, Blend):
        of = partial(_shares, model.artifact, np.array(found), wanted)
        answer["members"] = await service.queue.call(of)
    return answer


def _scores_without(
    artifact: Artifact, history: Indices, item: int, left_out: Sequence[int]
) -> list[float]:
    """The score of one item for a history without the item at each place; −1 leaves out none."""
    histories = _rows_of([np.delete(history, [p] if p >= 0 else []) for p in left_out])
    scorer = folded(artifact.scorer, artifact.rule, histories).scorer
    if isinstance(scorer, InnerProduct):  # the other items' scores are nobody's business
        scores = scorer.users.astype(np.float64) @ scorer.items[item]
    else:
        scores = scorer.scores(np.arange(len(left_out)))[:, item].astype(np.float64)
    found: list[float] = scores.tolist()
    return found


def _rows_of(histories: Sequence[Indices]) -> UserItems:
    ends = np.cumsum([0, *map(len, histories)])
    return UserItems(ends, np.concatenate(histories).astype(np.int32))


def _shares(artifact: Artifact, history: Indices, item: int) -> list[dict[str, Any]]:
    """What each member of a blend gives to the score of one item (theory: G1)."""
    blend = folded(artifact.scorer, artifact.rule, _rows_of([history])).scorer
    assert isinstance(blend, Blend)
    tables = artifact.settings.get("members", [{}] * blend.n_members)
    shares = []
    for member, weight, table in zip(blend.members, blend.weights.tolist(), tables, strict=True):
        given = standardise(member.scores(np.zeros(1, np.int64)), weight)[0, item]
        name = table.get("name", member.kind)
        shares.append({"member": name, "weight": weight, "contribution": float(given)})
    return shares
