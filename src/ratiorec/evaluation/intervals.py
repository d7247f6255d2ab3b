"""Intervals over users: by bootstrap, or by the variance of what each user adds.

NaN is a user without the figure, who has no part in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.evaluation.metrics import is_accuracy

PerUser = NDArray[np.float64]

N_RESAMPLES = 1000
_DRAWS_AT_ONCE = 2**18  # so that they stay in the cache


class Interval(NamedTuple):
    """The ends of a 95 % interval."""

    low: float
    high: float


class Estimate(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, influence: PerUser) -> Estimate:
        """A smooth function of means, with what each user adds in first order (theory: M14)."""
        if not len(influence):
            return cls(value, math.nan, math.nan)
        half = 1.96 * float(influence.std()) / math.sqrt(len(influence))
        return cls(value, value - half, value + half)


def mean(values: PerUser) -> float:
    """The mean over the users who have the figure; NaN if nobody has it."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def intervals_of(values: Mapping[str, PerUser], seed: int) -> dict[str, Interval]:
    """The interval of each mean: of accuracy by bootstrap, of what lists are like by its variance.

    The former have few values, many of them 0, the latter do not, and drawing takes time.
    """
    drawn = {name: array for name, array in values.items() if is_accuracy(name)}
    found = dict(zip(drawn, bootstrap(drawn, seed), strict=True)) if drawn else {}
    for name, array in values.items():
        if name not in found:
            _, *ends = Estimate.of(mean(array), array[~np.isnan(array)])
            found[name] = Interval(*ends)
    return found


def bootstrap(values: Mapping[str, PerUser], seed: int) -> list[Interval]:
    """The interval of each mean when the users are drawn anew, the same draws for all of them."""
    matrix = np.stack(list(values.values()))
    n = matrix.shape[1]
    if not n:
        return [Interval(math.nan, math.nan)] * len(values)
    rng = np.random.default_rng(seed)
    means = []
    step = max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, N_RESAMPLES, step):
        n_rows = min(step, N_RESAMPLES - start)
        drawn = rng.integers(n, size=(n_rows, n)) + np.arange(n_rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n).reshape(n_rows, n)
        # einsum sums in one fixed order, where a matrix product depends on the threads
        means.append(np.einsum("rn,mn->rm", counts.astype(np.float64), matrix) / n)
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return [Interval(float(a), float(b)) for a, b in zip(low, high, strict=True)]
