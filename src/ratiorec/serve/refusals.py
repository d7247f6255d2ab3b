"""What the application answers to a request that ends in an error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ratiorec.errors import RatiorecError, UnknownIdError
from ratiorec.serve.errors import RefusedError, as_response, shortened
from ratiorec.serve.invalid import BODIES, refusal_of, unreadable

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
    what = {404: "there is nothing here", 405: "this method is not answered here"}
    refused = RefusedError(
        what.get(error.status_code, "the request cannot be answered"),
        status=error.status_code,
        where=f"{request.method} {shortened(request.url.path)}",
        found=str(error.detail),
        wanted="a path and method that GET /openapi.json lists",
        headers=error.headers,
    )
    return as_response(refused)


def _route_of(request: Request) -> str:
    """The address as the description of the API has it."""
    return str(getattr(request.scope.get("route"), "path_format", ""))
