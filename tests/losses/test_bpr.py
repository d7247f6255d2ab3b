from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reference.pairwise as slow
from ratiorec.batches.pairs import PairBatch
from ratiorec.encoders.encoder import TableEncoder
from ratiorec.losses.bpr import BPR, hardest_negatives
from ratiorec.settings import PairBatches, UniformSampler
from ratiorec.shapes import Embeddings
from reference.comparison import assert_equal_to_reference, random_embeddings, value_and_gradient
from support.small_data import random_interactions

CPU = torch.device("cpu")
N_USERS, N_ITEMS = 5, 8


def random_pairs(rng: np.random.Generator, *, n_pairs: int, n_drawn: int) -> PairBatch:
    """Any users with any items; nothing here asks whether they are positives."""
    return PairBatch(
        torch.from_numpy(rng.integers(0, N_USERS, n_pairs)),
        torch.from_numpy(rng.integers(0, N_ITEMS, n_pairs)),
        torch.from_numpy(rng.integers(0, N_ITEMS, (n_pairs, n_drawn))),
    )


def as_triples(batch: PairBatch) -> slow.Triples:
    return slow.Triples(batch.users.tolist(), batch.items.tolist(), batch.negatives.tolist())


def one_user(*scores: float, drawn: list[int]) -> tuple[Embeddings, PairBatch]:
    """Item 0 is the positive of a single pair; the scores of all items are as given."""
    embeddings = Embeddings(torch.ones(1, 1).double(), torch.tensor(scores).double().unsqueeze(1))
    return embeddings, PairBatch(torch.tensor([0]), torch.tensor([0]), torch.tensor([drawn]))


@given(
    seed=st.integers(0, 2**32),
    n_pairs=st.integers(1, 6),
    n_drawn=st.integers(1, 4),
    largest_score=st.floats(0.1, 100),
    hardest=st.booleans(),
)
def test_value_and_gradient_equal_the_plain_loops(
    seed: int, n_pairs: int, n_drawn: int, largest_score: float, hardest: bool
) -> None:
    rng = np.random.default_rng(seed)
    batch = random_pairs(rng, n_pairs=n_pairs, n_drawn=n_drawn)
    embeddings = random_embeddings(
        rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=largest_score
    )
    tables = embeddings.users.tolist(), embeddings.items.tolist()
    expected = slow.bpr(*tables, as_triples(batch), hardest=hardest)
    assert_equal_to_reference(BPR(hardest), expected, embeddings, batch)


def test_two_pairs_by_hand() -> None:
    embeddings = Embeddings(
        torch.tensor([[1.0], [2.0]]).double(), torch.tensor([[3.0], [1.0], [2.0]]).double()
    )
    batch = PairBatch(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([[1], [2]]))
    # scores 3 against 1 for the first user, 2 against 4 for the second
    expected = (math.log(1 + math.exp(1 - 3)) + math.log(1 + math.exp(4 - 2))) / 2
    assert float(BPR()(embeddings, batch)) == pytest.approx(expected, rel=1e-14)


def test_equal_scores_cost_the_logarithm_of_two() -> None:
    assert float(BPR()(*one_user(0.7, 0.7, drawn=[1]))) == pytest.approx(math.log(2), rel=1e-14)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_a_pair_in_the_wrong_order_by_far_pulls_with_all_its_weight(
    precision: torch.dtype,
) -> None:
    (users, items), batch = one_user(-1e4, 1e4, drawn=[1])
    embeddings = Embeddings(users.to(precision), items.to(precision))
    value, _, to_items = value_and_gradient(BPR(), embeddings, batch)
    assert value == 2e4
    assert to_items[:, 0].tolist() == [-1, 1]


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_a_pair_in_the_right_order_by_far_is_left_alone(precision: torch.dtype) -> None:
    (users, items), batch = one_user(1e4, -1e4, drawn=[1])
    embeddings = Embeddings(users.to(precision), items.to(precision))
    value, to_users, to_items = value_and_gradient(BPR(), embeddings, batch)
    assert value == 0
    assert not to_users.any()
    assert not to_items.any()


@given(seed=st.integers(0, 2**32), n_drawn=st.integers(1, 6))
def test_the_hardest_negative_is_the_best_scored(seed: int, n_drawn: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_pairs(rng, n_pairs=7, n_drawn=n_drawn)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=3)
    of_batch = Embeddings(embeddings.users[batch.users], embeddings.items)
    chosen = hardest_negatives(of_batch, batch)
    for pair, drawn in enumerate(batch.negatives.tolist()):
        scores = (of_batch.items @ of_batch.users[pair]).tolist()
        assert chosen[pair] == max(drawn, key=lambda item: scores[item])


def test_only_the_hardest_negative_has_a_gradient_where_that_is_asked_for() -> None:
    given = one_user(0.0, 1.0, 3.0, 2.0, drawn=[1, 2, 3])
    assert np.flatnonzero(value_and_gradient(BPR(hardest=True), *given)[2]).tolist() == [0, 2]
    assert np.flatnonzero(value_and_gradient(BPR(), *given)[2]).tolist() == [0, 1, 2, 3]


def test_single_precision_stays_near_double_precision() -> None:
    rng = np.random.default_rng(3)
    batch = random_pairs(rng, n_pairs=20, n_drawn=1)
    embeddings = random_embeddings(rng, n_users=N_USERS, n_items=N_ITEMS, largest_score=8)
    wide = value_and_gradient(BPR(), embeddings, batch)
    single = Embeddings(embeddings.users.float(), embeddings.items.float())
    narrow = value_and_gradient(BPR(), single, batch)
    assert narrow[0] == pytest.approx(wide[0], rel=1e-5)
    for found, wanted in zip(narrow[1:], wide[1:], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("n_candidates", [1, 3])
def test_whole_steps_of_adam_equal_the_plain_loops(n_candidates: int) -> None:
    learning_rate, l2 = 0.05, 0.3
    rng = np.random.default_rng(8)
    data = random_interactions(rng, n_users=N_USERS, n_items=N_ITEMS, n_pairs=14)
    encoder = TableEncoder(torch.from_numpy(rng.normal(size=(N_USERS + N_ITEMS, 3))), N_USERS)
    values: dict[Hashable, float] = {
        (kind, row, column): x
        for kind, table in zip(("user", "item"), encoder.embeddings(), strict=True)
        for row, vector in enumerate(table.tolist())
        for column, x in enumerate(vector)
    }
    optimiser = torch.optim.Adam(encoder.parameters(), lr=learning_rate, fused=True)
    by_hand = slow.Adam(learning_rate)
    # several steps: after the first, a wrong correction of the bias could still go unnoticed
    for batch in PairBatches(4, UniformSampler(n_candidates))(data, device=CPU)(rng):
        tables = _tables(values)
        risk = slow.bpr(*tables, as_triples(batch), hardest=True)
        whole = risk + slow.half_squared_norms(*tables, as_triples(batch)) * l2
        values = by_hand.step(values, whole.slopes)

        optimiser.zero_grad()
        found = BPR(hardest=True)(encoder(batch), batch)
        (found + l2 * encoder.penalty(batch)).backward()
        optimiser.step()

        assert found.item() == pytest.approx(risk.value, rel=1e-10)
        for after, wanted in zip(encoder.embeddings(), _tables(values), strict=True):
            np.testing.assert_allclose(after.detach().numpy(), wanted, rtol=0, atol=1e-10)


def _tables(values: dict[Hashable, float]) -> tuple[slow.Table, slow.Table]:
    users, items = (
        [[values[kind, row, column] for column in range(3)] for row in range(n)]
        for kind, n in (("user", N_USERS), ("item", N_ITEMS))
    )
    return users, items
