"""The addresses of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor

from ratiorec import __version__
from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules, named_rules
from ratiorec.serve.answers import (
    as_json,
    contributions,
    found_items,
    found_users,
    history_of,
    lists_by_variant,
    lists_of_histories,
    lists_of_profiles,
    lists_of_users,
    placed_items,
    similar_items,
)
from ratiorec.serve.conditions import settle
from ratiorec.serve.errors import PlainJSON, RefusedError
from ratiorec.serve.models import Served
from ratiorec.serve.ranking import Id, ServedQuery
from ratiorec.serve.requests import (
    HistoryQuery,
    ItemSearchQuery,
    LengthQuery,
    MapQuery,
    NoQuery,
    QueryFields,
    RecommendRequest,
    SearchQuery,
    SimilarQuery,
    UserQuery,
    VariantQuery,
    WhyRequest,
)
from ratiorec.serve.schemas import (
    Card,
    Health,
    HistoryOfUser,
    Items,
    ManyLists,
    Map,
    OneList,
    Problem,
    Reloaded,
    SimilarItems,
    Users,
    Why,
)
from ratiorec.serve.security import RELOAD, require_admin, require_user_search
from ratiorec.serve.service import ANSWERED_BY, CONTENT_TYPE, Service


class _AnyText(PathConvertor):
    """An id in an address: all that is there, line ends too, where Starlette's path has none."""

    regex = r"[\s\S]*"


register_url_convertor("id", _AnyText())  # Starlette keeps them all in one place


class _InTime(APIRoute):
    """An address that answers within a time or not at all."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """The deadline is that of the whole request, from when its body is there.

        Whatever it waits for then is given up, and no other block of it is ranked.
        """
        answer = super().get_route_handler()

        async def answer_in_time(request: Request) -> Response:
            seconds = (await _service(request)).limits.rank_seconds
            try:
                async with asyncio.timeout(seconds) as deadline:
                    return await answer(request)
            except TimeoutError:
                if not deadline.expired():
                    raise
                raise _late(seconds) from None

        return answer_in_time


def _late(seconds: float) -> RefusedError:
    return RefusedError(
        "the request took too long",
        status=503,
        where="this request",
        found=f"no answer after {seconds:g} s",
        wanted="a smaller request, or a server that is less busy; try again in a second",
        headers={"Retry-After": "1"},
    )


router = APIRouter(default_response_class=PlainJSON, route_class=_InTime)
operations = APIRouter(default_response_class=PlainJSON)


async def _service(request: Request) -> Service:  # not async, it would cost a thread each time
    service: Service = request.app.state.service
    return service


@dataclass(frozen=True)
class Exchange:
    """A request that is being answered: the service, and the model of each variant it has asked.

    These stay the same until its end, whatever is reloaded meanwhile.
    """

    service: Service
    models: dict[str, Served]

    def model(self, variant: str | None = None, identifier: Id | None = None) -> Served:
        """The model of a variant, or of the one that an id gets, or of the first."""
        chosen = self.service.models.chosen(variant, identifier)
        return self.models.setdefault(chosen.variant, chosen.current)

    def length(self, fields: QueryFields | LengthQuery) -> int:
        """The k of a request; one that is not given is no more than this server allows."""
        most = self.service.limits.max_k
        return fields.k if "k" in fields.model_fields_set else min(fields.k, most)

    def query(self, fields: UserQuery | RecommendRequest, n_lists: int) -> Query:
        """The query, within the limits of this server."""
        fields.k = self.length(fields)
        query = fields.query(self._rules(fields))
        self.service.limits.check_query(query, n_lists)
        if not isinstance(fields.rules, str):
            named = self.service.models.first.current.artifact.filters.named
            self.service.limits.check_together(query, named)
        return query

    def _rules(self, fields: UserQuery | RecommendRequest) -> Rules:
        """A set of rules of this server, or what the request brings, with its own diversity."""
        if isinstance(fields.rules, str):
            rules = named_rules(self.service.names.rules, fields.rules, where="rules")
        else:
            rules = Rules.from_table(fields.rules or {}, where="rules")
            self.service.limits.check_rules(rules)
        return rules if fields.diversity is None else replace(rules, diversity=fields.diversity)


async def _answering(request: Request) -> Exchange:
    return Exchange(await _service(request), request.scope.setdefault(ANSWERED_BY, {}))


Uses = Annotated[Service, Depends(_service)]
Asking = Annotated[Exchange, Depends(_answering)]
Nothing = Annotated[NoQuery, InQuery()]
User = Annotated[str, InPath(description="User id.", examples=["ada"])]
Item = Annotated[str, InPath(description="Item id.", examples=["tea"])]


def _described(answer: type, *refusals: int) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": answer}, **{status: {"model": Problem} for status in (401, *refusals)}}


@router.get("/v1/recommend/{user:id}", responses=_described(OneList, 404, 422, 429, 503))
async def recommend(
    asking: Asking, user: User, fields: Annotated[UserQuery, InQuery()]
) -> Response:
    """The best items for one user."""
    query = asking.query(fields, 1)
    model = asking.model(fields.variant, user)
    (row,) = await lists_of_users(asking.service, ServedQuery(model, query), [user])
    assert row is not None  # nobody is left out here
    return await as_json(model.name | row, n_rows=fields.k)


@router.post("/v1/recommend", responses=_described(ManyLists, 404, 408, 413, 422, 429, 503))
async def recommend_many(asking: Asking, fields: RecommendRequest, _: Nothing) -> Response:
    """The best items for several users, or for histories or attributes of others."""
    service, histories, profiles = asking.service, fields.histories or [], fields.profiles or []
    n_lists = len(fields.users or histories or profiles)
    service.limits.check_histories(histories)
    service.limits.check_histories(profiles, where="profiles")
    query = asking.query(fields, n_lists)
    if fields.users is not None:
        models = [asking.model(fields.variant, user) for user in fields.users]
        found = await lists_by_variant(service, query, fields.users, models)
        return await as_json(found, n_rows=fields.k * n_lists)
    model = asking.model(fields.variant, fields.visitor)
    asked = ServedQuery(model, query)
    lists = await lists_of_histories(service, asked, histories)
    lists += await lists_of_profiles(service, asked, profiles)
    found = model.name | {"lists": lists}
    return await as_json(found, n_rows=fields.k * n_lists)


@router.get("/v1/similar/{item:id}", responses=_described(SimilarItems, 404, 422, 429, 503))
async def similar(
    asking: Asking, item: Item, fields: Annotated[SimilarQuery, InQuery()]
) -> Response:
    """The items nearest to one item."""
    fields.k = asking.length(fields)
    query, model = fields.query(), asking.model(fields.variant)
    asking.service.limits.check_query(query)
    await settle(asking.service.queue, model, query)
    found = await asking.service.queue.call(partial(similar_items, model, item, query))
    return await as_json(model.name | found, n_rows=fields.k)


@router.get("/v1/users/{user:id}/history", responses=_described(HistoryOfUser, 404, 422, 503))
async def history(
    asking: Asking, user: User, fields: Annotated[HistoryQuery, InQuery()]
) -> Response:
    """The items that a user had in training."""
    model = asking.model(fields.variant, user)
    k = asking.length(fields)
    asking.service.limits.check_length(k)
    found = history_of(model, user, k, fields.attributes)
    return await as_json(model.name | found, n_rows=k)


@router.post("/v1/why", responses=_described(Why, 404, 408, 413, 422, 429, 503))
async def why(asking: Asking, asked: WhyRequest, _: Nothing) -> Response:
    """What each item of a history adds to the score of an item, by leaving it out."""
    model = asking.model(asked.variant)
    asking.service.limits.check_why(asked.history)
    found = await contributions(asking.service, model, asked.history, asked.item)
    return await as_json(model.name | found, n_rows=len(asked.history))


@router.get("/v1/map", responses=_described(Map, 404, 422, 429, 503))
async def item_map(asking: Asking, fields: Annotated[MapQuery, InQuery()]) -> Response:
    """Where items lie on a plane: those with most users, or those asked for."""
    model = asking.model(fields.variant)
    asking.service.limits.check_listed(fields.item, "item")
    work = partial(placed_items, model, fields.item, fields.attributes)
    found = await asking.service.queue.call(work)
    return await as_json(model.name | found, n_rows=len(found["items"]))


@router.get("/v1/items", responses=_described(Items, 422, 429, 503))
async def items(asking: Asking, fields: Annotated[ItemSearchQuery, InQuery()]) -> Response:
    """Items by a part of their id or name, those with most users first."""
    model = asking.model(fields.variant)
    k = asking.length(fields)
    asking.service.limits.check_length(k)
    work = partial(found_items, model, fields.query, k, fields.attributes)
    found = await asking.service.queue.call(work)
    return await as_json(model.name | {"items": found}, n_rows=k)


@router.get("/v1/users", responses=_described(Users, 403, 422, 429, 503))
async def users(asking: Asking, fields: Annotated[SearchQuery, InQuery()]) -> Response:
    """Users by a part of their id, where the server was started with --user-search."""
    require_user_search(is_on=asking.service.user_search)
    model = asking.model(fields.variant)
    k = asking.length(fields)
    asking.service.limits.check_length(k)
    found = await asking.service.queue.call(partial(found_users, model, fields.query, k))
    return await as_json(model.name | {"users": found}, n_rows=k)


@router.get("/v1/model", responses=_described(Card, 422))
async def model_card(asking: Asking, fields: Annotated[VariantQuery, InQuery()]) -> Response:
    """The model card of the model in use, and what this server allows."""
    service, model = asking.service, asking.model(fields.variant)
    artifact = model.artifact
    return PlainJSON(
        {
            "model": model.version,
            "variant": model.variant,
            "variants": service.models.describe(),
            "kind": artifact.scorer.kind,
            "n_users": len(artifact.users),
            "n_items": len(artifact.items),
            "n_cold_items": int(artifact.cold_items.sum()),
            "attributes": {"items": artifact.item_table.kinds, "users": artifact.user_table.kinds},
            "filters": dict(service.names.filters),
            "rules": list(service.names.rules),
            "loaded_at": model.loaded_at,
            "ratiorec": __version__,
            "settings": dict(artifact.settings),
            "card": dict(artifact.card),
            "members": list(artifact.card.get("members") or ()),
            "limits": service.limits.told(),
            "user_search": service.user_search,
        }
    )


@operations.post(RELOAD, responses=_described(Reloaded, 403, 409, 422))
async def reload(
    service: Uses, request: Request, fields: Annotated[VariantQuery, InQuery()]
) -> Response:
    """Take the models that the folders hold now; one that is broken is refused."""
    require_admin(service.admin, request.headers)
    name = fields.variant
    models = list(service.models) if name is None else [service.models.named(name)]
    outcomes = await service.reload_all(models)
    rows = [
        {"name": one.variant, "model": one.current.version, "swapped": is_new}
        for one, is_new in zip(models, outcomes, strict=True)
    ]
    first = rows[0]["model"]
    return PlainJSON({"model": first, "swapped": any(outcomes), "variants": rows})


@operations.head("/health/live", include_in_schema=False)
@operations.get("/health/live", responses={200: {"model": Health}})
async def live() -> Response:
    """The process answers."""
    return PlainJSON({"status": "alive"})


@operations.head("/health/ready", include_in_schema=False)
@operations.get("/health/ready", responses={200: {"model": Health}, 503: {"model": Problem}})
async def ready(service: Uses) -> Response:
    """A model is loaded and the server is not about to end."""
    if service.draining.is_set():
        raise RefusedError(
            "the server is about to end",
            status=503,
            where="/health/ready",
            found="a signal to end",
            wanted="another server",
        )
    return PlainJSON({"status": "ready"})


@operations.get("/metrics", response_class=Response, responses={401: {"model": Problem}})
async def metrics(service: Uses) -> Response:
    """Figures for Prometheus."""
    return Response(service.metrics.exposed(), media_type=CONTENT_TYPE)
