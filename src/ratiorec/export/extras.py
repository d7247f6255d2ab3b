"""Libraries that only one form needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ratiorec.errors import MissingExtraError


def optional(module: str, *, extra: str, form: str) -> Any:
    """A library of an extra.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is not installed",
            where=f"--to {form}",
            found=f"no module {error.name or module}",
            wanted=f"pip install 'ratiorec[{extra}]', or --to parquet",
        ) from error
