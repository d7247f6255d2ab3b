"""Scores of one user by their definition, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt, tanh

from ratiorec.scorers import Autoencoder, ItemWeights, Neighbours


def item_weights_scores(model: ItemWeights, history: Sequence[int]) -> list[float]:
    weights = model.weights.tolist()
    return [sum(weights[j][i] for j in history) for i in range(model.n_items)]


def neighbours_scores(model: Neighbours, history: Sequence[int]) -> list[float]:
    scores = [0.0] * model.n_items
    for j in history:
        for place in range(model.indptr[j], model.indptr[j + 1]):
            scores[model.indices[place]] += float(model.values[place])
    return scores


def autoencoder_scores(model: Autoencoder, history: Sequence[int]) -> list[float]:
    x = [1 / sqrt(len(history)) if i in history else 0.0 for i in range(model.n_items)]
    hidden = [tanh(value) for value in layer(x, model.item_in.tolist(), model.bias_in.tolist())]
    latent = layer(hidden, model.to_latent.tolist(), model.bias_latent.tolist())
    back = layer(latent, model.from_latent.tolist(), model.bias_hidden.tolist())
    out = [tanh(value) for value in back]
    return layer(out, model.item_out.T.tolist(), model.bias_out.tolist())


def layer(
    x: Sequence[float], weights: Sequence[Sequence[float]], bias: Sequence[float]
) -> list[float]:
    """x·W + b."""
    return [
        sum(value * row[column] for value, row in zip(x, weights, strict=True)) + offset
        for column, offset in enumerate(bias)
    ]
