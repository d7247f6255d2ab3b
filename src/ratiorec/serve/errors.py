"""Errors as answers: a status and the same four parts as on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ratiorec.errors import ConfigError, DataError, ModelError, RatiorecError, UnknownIdError
from ratiorec.serve.requests import (
    HistoryQuery,
    ItemSearchQuery,
    MapQuery,
    NoQuery,
    RecommendRequest,
    SearchQuery,
    SimilarQuery,
    UserQuery,
    VariantQuery,
    WhyRequest,
)

_STATUS: tuple[tuple[type[RatiorecError], int], ...] = (
    (UnknownIdError, 404),
    (ModelError, 409),
    (ConfigError, 422),
    (DataError, 422),
)
_LONGEST_FOUND = 200
_LONGEST_PART = 1000


class RefusedError(RatiorecError, RuntimeError):
    """A request that is turned away, with the status that says so."""

    def __init__(
        self,
        what: str,
        *,
        status: int,
        where: str,
        found: str,
        wanted: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(what, where=where, found=found, wanted=wanted)
        self.status = status
        self.headers = dict(headers or {})


class PlainJSON(Response):
    """JSON in ASCII, so that any text that an id may hold can be sent back."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


def encoded(content: Any) -> bytes:
    """The bytes of a JSON value; NaN and infinity have none."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def four_parts(error: RatiorecError) -> dict[str, str]:
    """The body of an answer that is a refusal."""
    return {
        "what": error.what,
        "where": _cut(error.where),
        "found": _cut(error.found),
        "wanted": error.wanted,
    }


def _cut(text: str) -> str:
    """What may repeat a part of a request, of whatever length that is."""
    return text if len(text) <= _LONGEST_PART else text[:_LONGEST_PART] + "…"


def status_of(error: RatiorecError) -> int:
    """The HTTP status that fits an error; 500 where it is no mistake of the client's."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def as_response(error: RatiorecError) -> Response:
    """The answer to a request that ended in this error."""
    headers = error.headers if isinstance(error, RefusedError) else None
    return PlainJSON(four_parts(error), status_of(error), headers)


def fault() -> RefusedError:
    """What a client is told of a bug: nothing of its inside."""
    return RefusedError(
        "the server has a fault",
        status=500,
        where="this request",
        found="an unexpected error; the log has it under the id in X-Request-ID",
        wanted="a report with that id",
    )


def shortened(value: Any) -> str:
    """A value as a refusal shows it, of whatever length it is."""
    text = repr(value)
    return text if len(text) <= _LONGEST_FOUND else text[:_LONGEST_FOUND] + "…"


BODIES: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"/v1/recommend": RecommendRequest, "/v1/why": WhyRequest}
)
"""What is sent to the addresses that take a body."""
QUERIES: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "/v1/recommend/{user}": UserQuery,
        "/v1/recommend": NoQuery,
        "/v1/similar/{item}": SimilarQuery,
        "/v1/users/{user}/history": HistoryQuery,
        "/v1/map": MapQuery,
        "/v1/items": ItemSearchQuery,
        "/v1/users": SearchQuery,
        "/v1/why": NoQuery,
        "/v1/model": VariantQuery,
        "/v1/reload": VariantQuery,
    }
)
"""What may stand behind the question mark."""
_AROUND = 20  # characters of a body shown on either side of where it stops to be JSON

# by the checker's name of the fault, given its particulars
_WANTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "bool_parsing": lambda _: "true or false",
        "bool_type": lambda _: "true or false",
        "float_parsing": lambda _: "a number",
        "float_type": lambda _: "a number",
        "greater_than_equal": lambda told: f"{told['ge']:g} or more",
        "int_from_float": lambda _: "a whole number",
        "int_parsing": lambda _: "a whole number",
        "int_parsing_size": lambda _: "a whole number of fewer digits",
        "int_type": lambda _: "a whole number",
        "less_than_equal": lambda told: f"{told['le']:g} or less",
        "list_type": lambda _: "a list",
        "literal_error": lambda told: str(told["expected"]),
        "string_type": lambda _: "text",
        "string_too_long": lambda told: f"at most {told['max_length']:,} characters",
        "too_long": lambda told: f"a list of at most {told['max_length']:,}",
        "too_short": lambda told: f"a list of {told['min_length']:,} or more",
        "value_error": lambda told: str(told["error"]),
    }
)
_EITHER = MappingProxyType(
    {("int_type", "int"): "a whole number or text", ("string_type", "str"): "text or a table"}
)


def refusal_of(error: RequestValidationError, route: str) -> RefusedError:
    """The first thing that does not fit, as a refusal; `route` is the address asked for."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _no_json(str(error.body), first["loc"][1], first["ctx"]["error"], route)
    place = list(first["loc"])
    # where a value may be of two types the checker tells first why it is not of the one
    either = _EITHER.get((first["type"], place[-1]))
    return RefusedError(
        "the request is not valid",
        status=422,
        where=" ".join(map(str, place[:-1] if either else place)),
        found="nothing" if first["input"] is None else shortened(first["input"]),
        wanted=either or _wanted(first, route),
    )


def unreadable(found: str, route: str) -> RefusedError:
    """The refusal of a body that cannot even be looked at as JSON."""
    return RefusedError(
        "the body cannot be read",
        status=400,
        where="body",
        found=found,
        wanted=f"{_object_like(route)}, in UTF-8 and not deeply nested",
    )


def _wanted(first: Mapping[str, Any], route: str) -> str:
    kind, place = first["type"], first["loc"]
    if place == ("body",) and kind != "value_error":
        return f"{_object_like(route)}, with Content-Type: application/json"
    if kind == "extra_forbidden":
        if place[0] == "query":
            known = ", ".join(QUERIES[route].model_fields)
            return f"only the parameters {known}" if known else "no parameter, but fields in JSON"
        return f"only the fields {', '.join(BODIES[route].model_fields)}"
    if kind == "missing":
        return f"the field {place[-1]}" + (f", as in {_examples(route)}" if route in BODIES else "")
    words = _WANTED.get(kind)
    return words(first.get("ctx", {})) if words else str(first["msg"])


def _no_json(body: str, position: int, reason: str, route: str) -> RefusedError:
    part = body[max(0, position - _AROUND) : position + _AROUND]
    return RefusedError(
        "the body is no JSON",
        status=422,
        where=f"body, character {position + 1}",
        found=f"{part!r} ({reason})",
        wanted=_object_like(route),
    )


def _object_like(route: str) -> str:
    return f"a JSON object such as {_examples(route)}"


def _examples(route: str) -> str:
    """Bodies that are right, as the description of the API shows them."""
    described = BODIES[route].model_config["json_schema_extra"]
    assert isinstance(described, dict)
    examples = described["examples"]
    assert isinstance(examples, list)
    return " or ".join(map(json.dumps, examples))


# what a client can do about an unknown id; elsewhere there is nothing but another id
_ABOUT_UNKNOWN: Mapping[str, str] = MappingProxyType(
    {
        "/v1/recommend/{user}": ", or on_unknown=fallback",
        "/v1/recommend": ', or on_unknown="skip"',
    }
)


def answer_errors(app: FastAPI) -> None:
    """Let every refusal of the application be JSON in four parts."""
    app.add_exception_handler(UnknownIdError, _unknown)
    app.add_exception_handler(RatiorecError, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_answered)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RatiorecError)
    return as_response(error)


async def _unknown(request: Request, error: Exception) -> Response:
    """The library advises a way out that not every address has."""
    assert isinstance(error, UnknownIdError)
    known, _, _ = error.wanted.partition(", or on_unknown")
    advice = _ABOUT_UNKNOWN.get(_route_of(request), "")
    return as_response(
        UnknownIdError(error.what, where=error.where, found=error.found, wanted=known + advice)
    )


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return as_response(refusal_of(error, _route_of(request)))


async def _not_answered(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    route = _route_of(request)
    if error.status_code == 400 and route in BODIES:
        return as_response(unreadable(str(error.__cause__ or error.detail), route))
    return as_response(no_such_address(request.method, request.url.path, error))


def no_such_address(method: str, path: str, error: HTTPException) -> RefusedError:
    """The refusal of an address, or of a method at it, that no route is for."""
    what = {404: "there is nothing here", 405: "this method is not answered here"}
    return RefusedError(
        what.get(error.status_code, "the request cannot be answered"),
        status=error.status_code,
        where=f"{method} {shortened(path)}",
        found=str(error.detail),
        wanted="a path and method that GET /openapi.json lists",
        headers=error.headers,
    )


def _route_of(request: Request) -> str:
    """The address as the description of the API has it."""
    return str(getattr(request.scope.get("route"), "path_format", ""))
