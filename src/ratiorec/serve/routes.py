"""The addresses of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as InPath
from fastapi import Query as InQuery
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor

from ratiorec import __version__
from ratiorec.serve.answers import (
    as_json,
    contributions,
    found_items,
    found_users,
    history_of,
    lists_of_histories,
    lists_of_users,
    placed_items,
    similar_items,
)
from ratiorec.serve.errors import PlainJSON, RefusedError
from ratiorec.serve.ranking import ServedQuery
from ratiorec.serve.schemas import (
    Card,
    Health,
    HistoryOfUser,
    HistoryQuery,
    Items,
    LengthQuery,
    ManyLists,
    Map,
    MapQuery,
    OneList,
    Problem,
    QueryFields,
    RecommendRequest,
    Reloaded,
    SearchQuery,
    SimilarItems,
    UserQuery,
    Users,
    Why,
    WhyRequest,
)
from ratiorec.serve.security import RELOAD, require_admin, require_user_search
from ratiorec.serve.service import CONTENT_TYPE, Service


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


Uses = Annotated[Service, Depends(_service)]
User = Annotated[str, InPath(description="User id.", examples=["ada"])]
Item = Annotated[str, InPath(description="Item id.", examples=["tea"])]


def _described(answer: type, *refusals: int) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": answer}, **{status: {"model": Problem} for status in (401, *refusals)}}


@router.get("/v1/recommend/{user:id}", responses=_described(OneList, 404, 422, 429, 503))
async def recommend(service: Uses, user: User, fields: Annotated[UserQuery, InQuery()]) -> Response:
    """The best items for one user."""
    asked = _asked(service, fields, 1)
    (row,) = await lists_of_users(service, asked, [user])
    return await as_json(asked.model, row, n_rows=fields.k)


@router.post("/v1/recommend", responses=_described(ManyLists, 404, 408, 413, 422, 429, 503))
async def recommend_many(service: Uses, fields: RecommendRequest) -> Response:
    """The best items for several users, or for histories that the model has never seen."""
    n_lists = len(fields.users or fields.histories or [])
    service.limits.check_histories(fields.histories or [])
    asked = _asked(service, fields, n_lists)
    if fields.users is not None:
        lists = await lists_of_users(service, asked, fields.users)
    else:
        lists = await lists_of_histories(service, asked, fields.histories or [])
    return await as_json(asked.model, {"lists": lists}, n_rows=fields.k * n_lists)


@router.get("/v1/similar/{item:id}", responses=_described(SimilarItems, 404, 422, 429, 503))
async def similar(service: Uses, item: Item, fields: Annotated[LengthQuery, InQuery()]) -> Response:
    """The items nearest to one item."""
    model = service.models.current
    service.limits.check_length(fields.k)
    found = await service.queue.call(partial(similar_items, model, item, fields.k))
    return await as_json(model, found, n_rows=fields.k)


@router.get("/v1/users/{user:id}/history", responses=_described(HistoryOfUser, 404, 422, 503))
async def history(
    service: Uses, user: User, fields: Annotated[HistoryQuery, InQuery()]
) -> Response:
    """The items that a user had in training."""
    model = service.models.current
    service.limits.check_length(fields.k)
    return await as_json(model, history_of(model, user, fields.k), n_rows=fields.k)


@router.post("/v1/why", responses=_described(Why, 404, 408, 413, 422, 429, 503))
async def why(service: Uses, asked: WhyRequest) -> Response:
    """What each item of a history adds to the score of an item, by leaving it out."""
    model = service.models.current
    service.limits.check_why(asked.history)
    found = await contributions(service, model, asked.history, asked.item)
    return await as_json(model, found, n_rows=len(asked.history))


@router.get("/v1/map", responses=_described(Map, 404, 422, 429, 503))
async def item_map(service: Uses, fields: Annotated[MapQuery, InQuery()]) -> Response:
    """Where items lie on a plane: those with most users, or those asked for."""
    model = service.models.current
    service.limits.check_listed(fields.item, "item")
    found = await service.queue.call(partial(placed_items, model, fields.item))
    return await as_json(model, found, n_rows=len(found["items"]))


@router.get("/v1/items", responses=_described(Items, 422, 429, 503))
async def items(service: Uses, fields: Annotated[SearchQuery, InQuery()]) -> Response:
    """Items by a part of their id or name, those with most users first."""
    model = service.models.current
    service.limits.check_length(fields.k)
    found = await service.queue.call(partial(found_items, model, fields.query, fields.k))
    return await as_json(model, {"items": found}, n_rows=fields.k)


@router.get("/v1/users", responses=_described(Users, 403, 422, 429, 503))
async def users(service: Uses, fields: Annotated[SearchQuery, InQuery()]) -> Response:
    """Users by a part of their id, where the server was started with --user-search."""
    model = service.models.current
    require_user_search(is_on=service.user_search)
    service.limits.check_length(fields.k)
    found = await service.queue.call(partial(found_users, model, fields.query, fields.k))
    return await as_json(model, {"users": found}, n_rows=fields.k)


@router.get("/v1/model", responses=_described(Card))
async def model_card(service: Uses) -> Response:
    """The model card of the model in use, and the limits of this server."""
    model = service.models.current
    return PlainJSON(
        {
            "model": model.version,
            "kind": model.artifact.scorer.kind,
            "n_users": len(model.artifact.users),
            "n_items": len(model.artifact.items),
            "loaded_at": model.loaded_at,
            "ratiorec": __version__,
            "settings": dict(model.artifact.settings),
            "card": dict(model.artifact.card),
            "limits": asdict(service.limits),
            "user_search": service.user_search,
        }
    )


@operations.post(RELOAD, responses=_described(Reloaded, 403, 409))
async def reload(service: Uses, request: Request) -> Response:
    """Take the model that the folder holds now; one that is broken is refused."""
    require_admin(service.admin, request.headers)
    is_new = await service.reload()
    return PlainJSON({"model": service.models.current.version, "swapped": is_new})


@operations.get("/health/live", responses={200: {"model": Health}})
async def live() -> Response:
    """The process answers."""
    return PlainJSON({"status": "alive"})


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


def _asked(service: Service, fields: QueryFields, n_lists: int) -> ServedQuery:
    """The query for the model in use, within the limits of this server."""
    query = fields.query()
    service.limits.check_query(query, n_lists)
    return ServedQuery(service.models.current, query)
