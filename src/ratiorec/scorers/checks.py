"""The arrays of a model are looked at once, so that scoring and ranking need not look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ModelError

Axes = Mapping[str, tuple[str, ...]]
"""The names of the axes of each array; axes of one name have one length."""

_LARGEST = float(np.finfo(np.float32).max) / 2  # the other half is for rounding


def largest_values(
    arrays: Mapping[str, NDArray[Any]], axes: Axes, **lengths: int
) -> dict[str, float]:
    """The largest absolute value in each array, once all are found to be finite float32.

    Args:
        arrays: Where to look.
        axes: What to look at.
        **lengths: Axes whose length is known; that of any other is what is found first.

    Raises:
        ModelError: An array has another type, another shape, or a value that is not finite.
    """
    for name, names in axes.items():
        _check_shape(name, arrays[name], names, lengths)
    largest = {name: _largest_value(arrays[name]) for name in axes}
    for name, value in largest.items():
        refuse_overflow(name, value)
    return largest


def refuse_overflow(name: str, bound: float) -> None:
    """Refuse an array that might lead to a score of up to `bound` where float32 ends before.

    Raises:
        ModelError: The bound is too large, or not a number.
    """
    if not bound < _LARGEST:
        raise ModelError(
            "an array of the model gives scores that are not finite",
            where=name,
            found=f"values up to {bound:g}",
            wanted="finite values whose sums stay below 1.7e38",
        )


def _check_shape(
    name: str, array: NDArray[Any], names: tuple[str, ...], lengths: dict[str, int]
) -> None:
    fits = array.dtype == np.float32 and array.ndim == len(names)
    if fits:
        found = zip(names, array.shape, strict=True)
        fits = all(lengths.setdefault(axis, length) == length for axis, length in found)
    if not fits:
        axes = [f"{axis} = {lengths[axis]}" if axis in lengths else axis for axis in names]
        raise ModelError(
            "an array of the model is malformed",
            where=name,
            found=f"{array.dtype} {list(array.shape)}",
            wanted=f"float32 [{', '.join(axes)}]",
        )


def _largest_value(array: NDArray[np.float32]) -> float:
    # the absolute values of a large array would be a second large array
    return float(np.maximum(array.max(initial=0), -array.min(initial=0)))
