"""Requests that do not fit their schema, told in the words of this API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from ratiorec.serve.errors import RefusedError, shortened
from ratiorec.serve.schemas import RecommendRequest, WhyRequest

BODIES: Mapping[str, type[BaseModel]] = MappingProxyType(
    {"/v1/recommend": RecommendRequest, "/v1/why": WhyRequest}
)
"""What is sent to the addresses that take a body."""
_AROUND = 20  # characters of a body shown on either side of where it stops to be JSON

# by the checker's name of the fault, given its particulars
_WANTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {
        "bool_parsing": lambda _: "true or false",
        "bool_type": lambda _: "true or false",
        "greater_than_equal": lambda told: f"{told['ge']} or more",
        "int_from_float": lambda _: "a whole number",
        "int_parsing": lambda _: "a whole number",
        "int_parsing_size": lambda _: "a whole number of fewer digits",
        "int_type": lambda _: "a whole number",
        "list_type": lambda _: "a list",
        "literal_error": lambda told: str(told["expected"]),
        "string_too_long": lambda told: f"at most {told['max_length']:,} characters",
        "too_long": lambda told: f"a list of at most {told['max_length']:,}",
        "too_short": lambda told: f"a list of {told['min_length']:,} or more",
        "value_error": lambda told: str(told["error"]),
    }
)


def refusal_of(error: RequestValidationError, route: str) -> RefusedError:
    """The first thing that does not fit, as a refusal; `route` is the address asked for."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _no_json(str(error.body), first["loc"][1], first["ctx"]["error"], route)
    place = list(first["loc"])
    # an id may be either, and the checker tells first why it is not the one
    is_id = first["type"] == "int_type" and place[-1] == "int"
    return RefusedError(
        "the request is not valid",
        status=422,
        where=" ".join(map(str, place[:-1] if is_id else place)),
        found="nothing" if first["input"] is None else shortened(first["input"]),
        wanted="a whole number or text" if is_id else _wanted(first, route),
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
