from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import reference.rivals as slow
from ratiorec.batches.users import Batch
from ratiorec.errors import ConfigError
from ratiorec.losses.softmax import Softmax
from ratiorec.shapes import Embeddings
from reference.comparison import (
    as_sample,
    assert_equal_to_reference,
    of_batch,
    random_embeddings,
    value_and_gradient,
)
from support.small_data import handmade_batch, only_user, random_batch

N_USERS, N_ITEMS = 6, 9

seeds = st.integers(0, 2**32)
settings = st.builds(
    Softmax,
    temperature=st.sampled_from([0.1, 0.5, 2.0]),
    user_weighting=st.sampled_from(["pairs", "users"]),
    positive_temperature=st.sampled_from([0.3, 1.0, math.inf]),
    top_k=st.sampled_from([0, 1, 3, 20]),
    top_k_width=st.sampled_from([0.25, 0.75]),
    backend=st.sampled_from(["reference", "tiled"]),
)


def draw(seed: int) -> tuple[np.random.Generator, Embeddings, Batch]:
    rng = np.random.default_rng(seed)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=1)
    return rng, embeddings, random_batch(rng, n_users=N_USERS, n_items=N_ITEMS)


def assert_same(
    first: tuple[float, np.ndarray, np.ndarray],
    second: tuple[float, np.ndarray, np.ndarray],
    *,
    tolerance: float = 1e-11,
) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def in_list_weights(
    loss: Softmax, embeddings: Embeddings, users: list[int], liked: list[list[int]]
) -> list[list[float]]:
    """σ((s − β_u)/w) by sorting all scores of the user; 1 where the list does not count."""
    if not loss.top_k:
        return [[1.0] * len(items) for items in liked]
    weights = []
    for user, items in zip(users, liked, strict=True):
        scores = (embeddings.items @ embeddings.users[user]).tolist()
        bar = sorted(scores, reverse=True)[min(loss.top_k, len(scores)) - 1]
        weights.append([1 / (1 + math.exp((bar - scores[i]) / loss.top_k_width)) for i in items])
    return weights


@given(seed=seeds, loss=settings)
def test_value_and_gradient_equal_the_plain_loops(seed: int, loss: Softmax) -> None:
    """Weights that carried a gradient would show: those of the loops are plain numbers."""
    _, embeddings, batch = draw(seed)
    sample = as_sample(batch)
    liked = [[sample.candidates[place] for place in places] for places in sample.positives]
    users = slow.free("user", embeddings.users.tolist())
    expected = slow.softmax(
        [users[u] for u in sample.users],
        slow.free("item", embeddings.items.tolist()),
        liked,
        in_list_weights(loss, embeddings, sample.users, liked),
        temperature=loss.temperature,
        positive_temperature=loss.positive_temperature,
        equal_users=loss.user_weighting == "users",
    )
    assert_equal_to_reference(loss, expected, embeddings, batch)


@given(seed=seeds, loss=settings)
def test_a_number_added_to_all_scores_of_a_user_changes_nothing(seed: int, loss: Softmax) -> None:
    rng, embeddings, batch = draw(seed)
    users, items = of_batch(embeddings, batch)
    shifts = torch.from_numpy(rng.normal(size=(len(users), 1)))
    shifted = Embeddings(
        torch.cat([users, shifts], 1), torch.cat([items, items.new_ones(N_ITEMS, 1)], 1)
    )
    torch.testing.assert_close(loss(shifted, batch), loss(Embeddings(users, items), batch))


@given(seed=seeds, loss=settings)
def test_permuting_users_and_items_changes_nothing(seed: int, loss: Softmax) -> None:
    rng, embeddings, batch = draw(seed)
    value, to_users, to_items = value_and_gradient(loss, embeddings, batch)
    order = torch.from_numpy(rng.permutation(N_ITEMS))  # item i becomes order[i]
    rows = rng.permutation(len(batch.users))  # row r becomes rows[r]
    by_row = np.argsort(rows[batch.rows], kind="stable")
    moved = dataclasses.replace(
        batch,
        users=batch.users[np.argsort(rows)],
        candidates=order[batch.candidates],
        rows=torch.from_numpy(rows[batch.rows][by_row]),
        columns=batch.columns[by_row],
    )
    items = torch.empty_like(embeddings.items)
    items[order] = embeddings.items
    other = value_and_gradient(loss, Embeddings(embeddings.users, items), moved)
    assert_same((other[0], other[1], other[2][order]), (value, to_users, to_items))


@given(seed=seeds, loss=settings)
def test_a_batch_is_the_mean_of_its_users_or_of_their_pairs(seed: int, loss: Softmax) -> None:
    _, embeddings, batch = draw(seed)
    sample = as_sample(batch)
    liked = [[sample.candidates[place] for place in places] for places in sample.positives]
    alone = [only_user(batch, row) for row in range(len(batch.users))]
    values = [float(loss(of_batch(embeddings, one), one)) for one in alone]
    counts = [sum(w) for w in in_list_weights(loss, embeddings, sample.users, liked)]
    weights = counts if loss.user_weighting == "pairs" else None
    expected = np.average(values, weights=weights)
    assert float(loss(of_batch(embeddings, batch), batch)) == pytest.approx(expected, rel=1e-11)


@given(seed=seeds, loss=settings)
def test_a_high_temperature_of_positives_is_their_plain_mean(seed: int, loss: Softmax) -> None:
    _, embeddings, batch = draw(seed)
    warm, plain = (dataclasses.replace(loss, positive_temperature=t) for t in (1e7, math.inf))
    found, expected = (value_and_gradient(each, embeddings, batch) for each in (warm, plain))
    assert_same(found, expected, tolerance=1e-5)


# one user whose positives are listed as often as the distribution p says, so that p is p(i|u,+)
COUNTS = st.lists(st.integers(1, 5), min_size=4, max_size=4)
TEMPERATURES = st.sampled_from([0.1, 0.7, 3.0])


def population(counts: list[int]) -> tuple[Batch, Tensor]:
    listed = [[item for item, n in enumerate(counts) for _ in range(n)]]
    ones = [1.0] * len(counts)
    places = list(range(len(counts)))
    batch = handmade_batch([0], places, listed, prior=[1.0], popularity=ones, inclusion=ones)
    p = torch.tensor(counts, dtype=torch.float64)
    return batch, p / p.sum()


def with_scores(scores: Tensor) -> Embeddings:
    """One user whose scores are given: items are unit vectors."""
    return Embeddings(scores.unsqueeze(0), torch.eye(len(scores), dtype=scores.dtype))


@given(counts=COUNTS, temperature=TEMPERATURES, seed=seeds)
def test_excess_loss_is_the_kullback_leibler_divergence(
    counts: list[int], temperature: float, seed: int
) -> None:
    batch, p = population(counts)
    loss = Softmax(temperature)
    scores = torch.from_numpy(np.random.default_rng(seed).normal(size=4))
    excess = loss(with_scores(scores), batch) - loss(with_scores(temperature * p.log()), batch)
    divergence = (p * (p.log() - torch.log_softmax(scores / temperature, 0))).sum()
    torch.testing.assert_close(excess, divergence, rtol=1e-10, atol=1e-10)


@given(counts=COUNTS, temperature=TEMPERATURES, constant=st.floats(-3, 3))
def test_the_gradient_vanishes_at_the_true_ratio(
    counts: list[int], temperature: float, constant: float
) -> None:
    batch, p = population(counts)
    scores = (temperature * (p.log() + constant)).requires_grad_()
    (gradient,) = torch.autograd.grad(Softmax(temperature)(with_scores(scores), batch), scores)
    assert float(gradient.abs().max()) < 1e-12 / temperature


@given(counts=COUNTS, seed=seeds)
def test_unlabelled_items_are_pushed_by_their_self_normalised_ratio(
    counts: list[int], seed: int
) -> None:
    batch, p = population(counts)
    scores = torch.from_numpy(np.random.default_rng(seed).normal(size=4)).requires_grad_()
    (gradient,) = torch.autograd.grad(Softmax(1.0)(with_scores(scores), batch), scores)
    ratio = scores.detach().exp()  # r̂, the hard-sample weight w⁻
    torch.testing.assert_close(gradient, ratio / ratio.sum() - p)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("temperature", 0.0),
        ("temperature", math.inf),
        ("positive_temperature", -1.0),
        ("top_k", -1),
        ("top_k_width", 0.0),
    ],
)
def test_a_setting_out_of_range_is_refused(setting: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"risk.{setting}"):
        Softmax(**{setting: value})  # type: ignore[arg-type]
