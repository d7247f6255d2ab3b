"""The risk of one user and its gradient in plain Python, one score after another."""

from __future__ import annotations

from math import exp, log1p
from typing import Any


def softplus(score: float) -> float:
    return max(score, 0.0) + log1p(exp(-abs(score)))


def sigmoid(score: float) -> float:
    return 1 / (1 + exp(-score))


def dot(a: Any, b: Any) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def hard_sample_gradient(
    vector: Any, items: Any, history: list[int], candidates: list[int]
) -> list[float]:
    """∇R_u of the least-squares risk with softplus and hard-sample weights held constant."""
    gradients = dict.fromkeys(range(len(items)), 0.0)
    ratio = {i: softplus(dot(vector, items[i])) for i in gradients}
    slope = {i: sigmoid(dot(vector, items[i])) for i in gradients}
    prior = len(history) / len(items)
    of_positive = sum(1 / ratio[i] for i in history)
    of_unlabelled = sum(ratio[i] for i in history)
    for i in history:
        weight = 1 / ratio[i] / of_positive
        gradients[i] += weight * (prior * ratio[i] - 1) * slope[i]
        gradients[i] -= prior * ratio[i] / of_unlabelled * ratio[i] * slope[i]
    total = sum(ratio[i] for i in candidates)
    for i in candidates:
        gradients[i] += ratio[i] / total * ratio[i] * slope[i]
    return [
        sum(pull * float(items[i][place]) for i, pull in gradients.items())
        for place in range(len(vector))
    ]


def weighted_ridge_loss(
    vector: Any,
    items: Any,
    history: list[int],
    *,
    everywhere: float,
    labelled: float,
    gain: float,
    l2: float,
) -> float:
    """Σ over the history of (b s² − 2g s), c Σ over all items of s², and λ‖e‖²."""
    scores = [dot(vector, item) for item in items]
    own = sum(labelled * scores[i] ** 2 - 2 * gain * scores[i] for i in history)
    return own + everywhere * sum(s * s for s in scores) + l2 * dot(vector, vector)


def learned_step(near: Any, own_length: int, their_lengths: list[int], matrix: Any) -> list[float]:
    """Mᵀx, x the sum over neighbours of their vectors by the roots of both lengths."""
    dimension = len(matrix)
    x = [0.0] * dimension
    for vector, length in zip(near, their_lengths, strict=True):
        for place in range(dimension):
            x[place] += float(vector[place]) / (own_length * length) ** 0.5
    return [
        sum(x[row] * float(matrix[row][column]) for row in range(dimension))
        for column in range(dimension)
    ]
