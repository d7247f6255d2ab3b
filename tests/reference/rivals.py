"""The rivals as loops over plain lists: their networks, their losses, and steps of Adam.

A network is given its parameters as nested lists of numbers that carry derivatives; `noise` is
what it multiplies or adds in training, so that the same noise can be given to both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from reference.dual import Dual, exp, log, log1p, reciprocal, total, variable

Vector = list[Dual]
Matrix = list[Vector]
Numbers = Sequence[Sequence[float]]
Pair = tuple[int, int]


def free(name: str, values: Any, place: tuple[int, ...] = ()) -> Any:
    """Nested lists of numbers as variables, each named by the parameter and its place in it."""
    if isinstance(values, float):
        return variable((name, *place), values)
    return [free(name, value, (*place, k)) for k, value in enumerate(values)]


def constants(values: Numbers) -> Matrix:
    return [[Dual(x) for x in row] for row in values]


# networks


def graph_of_means(pairs: Iterable[Pair], n_users: int, n_items: int) -> list[list[float]]:
    """D⁻¹(A + I) over users and items, users first."""
    n = n_users + n_items
    adjacency = [[float(j == k) for k in range(n)] for j in range(n)]
    for user, item in pairs:
        adjacency[user][n_users + item] = adjacency[n_users + item][user] = 1.0
    return [[entry / sum(row) for entry in row] for row in adjacency]


def ngcf(
    table: Matrix,
    weights: list[list[Matrix]],
    biases: list[Matrix],
    graph: Numbers,
    *,
    slope: float,
    noise: Sequence[Numbers] | None = None,
) -> Matrix:
    """E^(0) beside each layer's rows of length 1; a layer multiplied by its noise goes on."""
    layer, beside = table, [list(row) for row in table]
    for k, ((mix, multiply), (b_mix, b_multiply)) in enumerate(zip(weights, biases, strict=True)):
        means = [
            [
                total(Dual(a) * row[d] for a, row in zip(entries, layer, strict=True))
                for d in _in(mix)
            ]
            for entries in graph
        ]
        products = [
            [m * e for m, e in zip(ms, es, strict=True)]
            for ms, es in zip(means, layer, strict=True)
        ]
        layer = [
            [
                _leaky(total(m * mix[j][d] for j, m in enumerate(ms)) + b_mix[d], slope)
                + _leaky(total(p * multiply[j][d] for j, p in enumerate(ps)) + b_multiply[d], slope)
                for d in _in(mix)
            ]
            for ms, ps in zip(means, products, strict=True)
        ]
        if noise is not None:
            layer = _times(layer, noise[k])
        beside = [[*done, *_direction(row)] for done, row in zip(beside, layer, strict=True)]
    return beside


class Code(NamedTuple):
    """The distribution of a user's code."""

    mean: Vector
    log_variance: Vector


def code(positives: Sequence[int], entries: Sequence[float], p: Mapping[str, Any]) -> Code:
    """μ and log σ² of a user whose input has these entries at his positives."""
    hidden = [
        _tanh(total(p["item_in"][i][d] * x for i, x in zip(positives, entries, strict=True)) + bias)
        for d, bias in enumerate(p["bias_in"])
    ]
    both = _affine(hidden, p["to_latent"], p["bias_latent"])
    half = len(both) // 2
    return Code(both[:half], both[half:])


def unit_length(n: int) -> list[float]:
    """The entries of n ones as a vector of length 1."""
    return [1 / math.sqrt(n)] * n


def decoded(latent: Vector, p: Mapping[str, Any]) -> Vector:
    """tanh(z·from_latent + bias_hidden), and a 1 for the bias of an item."""
    return [*map(_tanh, _affine(latent, p["from_latent"], p["bias_hidden"])), Dual(1.0)]


def sampled(code: Code, normal: Sequence[float]) -> Vector:
    """z = μ + σε."""
    return [
        mean + exp(log_variance / 2) * e
        for mean, log_variance, e in zip(code.mean, code.log_variance, normal, strict=True)
    ]


def divergence(codes: Sequence[Code]) -> Dual:
    """½ Σ_k (μ² + σ² − log σ² − 1), mean over users."""
    terms = [
        m * m + exp(v) - v - Dual(1.0)
        for code in codes
        for m, v in zip(code.mean, code.log_variance, strict=True)
    ]
    return total(terms) / (2 * len(codes))


# losses, of the users of a batch row by row and of all items


def bpr(users: Matrix, items: Matrix, liked: Sequence[int], others: Sequence[int]) -> Dual:
    """−log σ(s_ui − s_uj), mean over rows."""
    losses = [
        log1p(exp(_dot(user, items[j]) - _dot(user, items[i])))
        for user, i, j in zip(users, liked, others, strict=True)
    ]
    return total(losses) / len(losses)


def whole_data(
    users: Matrix, items: Matrix, positives: Sequence[Sequence[int]], *, unlabelled_weight: float
) -> Dual:
    """Σ over all items of w (y − s)² without its constant: w = 1 and y = 1, or w = c and y = 0."""
    terms = []
    for user, liked in zip(users, positives, strict=True):
        for i, item in enumerate(items):
            s = _dot(user, item)
            terms.append(s * s - s * 2.0 if i in liked else s * s * unlabelled_weight)
    return total(terms) / len(users)


def multinomial(users: Matrix, items: Matrix, positives: Sequence[Sequence[int]]) -> Dual:
    """−Σ_{i ∈ I_u⁺} log softmax_i(s_u), mean over users."""
    terms = []
    for user, liked in zip(users, positives, strict=True):
        scores = [_dot(user, item) for item in items]
        largest = max(score.value for score in scores)
        log_total = log(total(exp(score - Dual(largest)) for score in scores)) + Dual(largest)
        terms += [log_total - scores[i] for i in liked]
    return total(terms) / len(users)


def softmax(
    users: Matrix,
    items: Matrix,
    positives: Sequence[Sequence[int]],
    weights: Sequence[Sequence[float]],
    *,
    temperature: float,
    positive_temperature: float,
    equal_users: bool,
) -> Dual:
    """log Σ_i exp(s/τ) − τ⁺/τ·log Ê₊[exp(s/τ⁺)] by users, each with a share; τ⁺ may be infinite."""
    terms, shares = [], []
    for user, liked, counts in zip(users, positives, weights, strict=True):
        scores = [_dot(user, item) / temperature for item in items]
        ratio = temperature / positive_temperature
        if ratio == 0:
            gain = total(scores[i] * w for i, w in zip(liked, counts, strict=True)) / sum(counts)
        else:
            powers = (exp(scores[i] * ratio) * w for i, w in zip(liked, counts, strict=True))
            gain = log(total(powers) / sum(counts)) / ratio
        terms.append(log(total(exp(score) for score in scores)) - gain)
        shares.append(1.0 if equal_users else sum(counts))
    pairs = zip(terms, shares, strict=True)
    return total(term * share for term, share in pairs) / sum(shares)


def half_squared_norms(groups: Iterable[Matrix]) -> Dual:
    """½ mean of the squared lengths of each group's rows, added up."""
    return total(total(x * x for row in rows for x in row) / (2 * len(rows)) for rows in groups)


# descent


def adam_steps(
    parameters: Mapping[str, Any],
    risks: Sequence[Callable[[dict[str, Any]], Dual]],
    *,
    learning_rate: float,
) -> dict[str, Any]:
    """The parameters after one step of Adam on each of the risks."""
    current = dict(parameters)
    first: dict[Hashable, float] = {}
    second: dict[Hashable, float] = {}
    for t, risk in enumerate(risks, 1):
        slopes = risk({name: free(name, values) for name, values in current.items()}).slopes
        change: dict[Hashable, float] = {}
        for place in first.keys() | slopes.keys():  # what has no slope now may still be in motion
            slope = slopes.get(place, 0.0)
            first[place] = 0.9 * first.get(place, 0.0) + 0.1 * slope
            second[place] = 0.999 * second.get(place, 0.0) + 0.001 * slope**2
            size = math.sqrt(second[place] / (1 - 0.999**t)) + 1e-8
            change[place] = -learning_rate * first[place] / (1 - 0.9**t) / size
        current = {name: _moved(name, values, change) for name, values in current.items()}
    return current


def _moved(
    name: str, values: Any, change: Mapping[Hashable, float], place: tuple[int, ...] = ()
) -> Any:
    if isinstance(values, float):
        return values + change.get((name, *place), 0.0)
    return [_moved(name, value, change, (*place, k)) for k, value in enumerate(values)]


# arithmetic


def _in(matrix: Matrix) -> range:
    return range(len(matrix[0]))


def _dot(a: Vector, b: Vector) -> Dual:
    return total(x * y for x, y in zip(a, b, strict=True))


def _affine(vector: Vector, matrix: Matrix, bias: Vector) -> Vector:
    return [
        total(x * row[d] for x, row in zip(vector, matrix, strict=True)) + bias[d]
        for d in _in(matrix)
    ]


def _times(values: Matrix, factors: Numbers) -> Matrix:
    return [
        [x * factor for x, factor in zip(row, row_factors, strict=True)]
        for row, row_factors in zip(values, factors, strict=True)
    ]


def _leaky(x: Dual, slope: float) -> Dual:
    return x if x.value > 0 else x * slope


def _tanh(x: Dual) -> Dual:
    return Dual(1.0) - reciprocal(exp(x * 2.0) + Dual(1.0)) * 2.0


def _direction(row: Vector) -> Vector:
    """The row divided by its length; a row of zeros stays one."""
    squared = total(x * x for x in row)
    if squared.value == 0:
        return row
    length = exp(log(squared) / 2)
    return [x * reciprocal(length) for x in row]
