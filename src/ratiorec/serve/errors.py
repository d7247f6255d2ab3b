"""Errors as answers: a status and the same four parts as on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ratiorec.errors import ConfigError, DataError, ModelError, RatiorecError, UnknownIdError

_STATUS: tuple[tuple[type[RatiorecError], int], ...] = (
    (UnknownIdError, 404),
    (ModelError, 409),
    (ConfigError, 422),
    (DataError, 422),
)
_LONGEST_FOUND = 200


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
        "where": error.where,
        "found": error.found,
        "wanted": error.wanted,
    }


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


def answer_errors(app: FastAPI) -> None:
    """Let every refusal of the application be JSON in four parts."""
    app.add_exception_handler(RatiorecError, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_route)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RatiorecError)
    return as_response(error)


async def _invalid(request: Request, error: Exception) -> Response:
    """The first thing that does not fit the schema."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    refused = RefusedError(
        "the request is not valid",
        status=422,
        where=" ".join(str(part) for part in first["loc"]),
        found=_shortened(first.get("input")),
        wanted=str(first["msg"]),
    )
    return as_response(refused)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = {404: "there is nothing here", 405: "this method is not answered here"}
    refused = RefusedError(
        what.get(error.status_code, "the request cannot be answered"),
        status=error.status_code,
        where=f"{request.method} {_shortened(request.url.path)}",
        found=str(error.detail),
        wanted="a path and method that GET /openapi.json lists",
        headers=error.headers,
    )
    return as_response(refused)


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_FOUND else text[:_LONGEST_FOUND] + "…"
