"""The run-time check of signatures that tests turn on (see conftest.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep3119Exception

Checked = TypeVar("Checked", bound=Callable[..., Any])

# an int is welcome where a float is asked for
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Checked) -> Checked:
    """The function with its signature checked at every call.

    A protocol that is not `runtime_checkable` is mypy's to check: beartype refuses it. A
    function inside another is made anew at every call, and the check with it: too slow.
    """
    if "<locals>" in function.__qualname__:
        return function
    try:
        return _check(function)
    except BeartypeDecorHintPep3119Exception:
        return function
