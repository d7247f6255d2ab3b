"""Errors as answers: a status and the same four parts as on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


def shortened(value: Any) -> str:
    """A value as a refusal shows it, of whatever length it is."""
    text = repr(value)
    return text if len(text) <= _LONGEST_FOUND else text[:_LONGEST_FOUND] + "…"
