"""The run-time check of signatures that tests turn on (see conftest.py)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep3119Exception

Anything = Callable[..., Any]

# an int is welcome where a float is asked for
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))
_jaxtyped = jaxtyping.jaxtyped


def check_signatures(modules: list[str]) -> None:
    """From here on these modules check the types and the axes in their signatures, at every call.

    jaxtyping's own decorator makes every function tens of microseconds slower, also one inside
    another, which is made anew at every call; half the time of a small fit went there.
    """
    jaxtyping.jaxtyped = _decorator  # what the hook writes above every function and class
    jaxtyping.install_import_hook(modules, f"{__name__}.checked")


def checked(function: Anything) -> Anything:
    """The function with the types of its signature checked at every call.

    A protocol that is not `runtime_checkable` is mypy's to check: beartype refuses it.
    """
    try:
        return _check(function)
    except BeartypeDecorHintPep3119Exception:
        return function


def _decorator(*, typechecker: Anything) -> Anything:
    def decorate(decorated: Any) -> Any:
        if not isinstance(decorated, FunctionType):
            return _jaxtyped(decorated, typechecker=typechecker)
        if "<locals>" in decorated.__qualname__:
            return decorated
        has_axes = _has_axes(decorated.__annotations__)  # which beartype replaces
        function = checked(decorated)
        return _with_axes(function) if has_axes else function

    return decorate


def _has_axes(annotations: Mapping[str, object]) -> bool:
    from ratiorec import shapes

    words = re.findall(r"\w+", " ".join(map(str, annotations.values())))
    named = (vars(shapes).get(word) for word in words)
    return any(isinstance(one, type) and issubclass(one, jaxtyping.AbstractArray) for one in named)


def _with_axes(function: Anything) -> Anything:
    """The function with a memory of its own for what size each axis has."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with _jaxtyped("context"):
            return function(*args, **kwargs)

    return wrapped
