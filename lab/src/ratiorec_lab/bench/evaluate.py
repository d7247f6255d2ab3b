"""Judging the lists of many users on the test part: ours on each device, and plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.user_items import Pairs
from ratiorec.training.validation import GpuTopK
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.plain import plain_evaluation
from ratiorec_lab.bench.recommend import DIMENSION, MOST_USERS, K, floor_of_ranking
from ratiorec_lab.bench.side_by_side import side_by_side
from ratiorec_lab.bench.stand_in import random_model, random_pairs
from ratiorec_lab.bench.timing import CPU, Way, once

OURS, ON_CARD, REFERENCE = "ratiorec", "ratiorec, card", "numpy argpartition"
TEST_PAIRS_PER_USER = 7  # of a stand-in


def measure(conditions: Conditions) -> Measured:
    """Random factors, the data's own training and test pairs; intervals over users included."""
    train, test = conditions.dataset.train, conditions.dataset.test
    assert test is not None, "the command holds out a test part where there is none"
    part = _some_users(test, conditions.n_users or MOST_USERS)
    size = {
        "users": train.n_users,
        "items": train.n_items,
        "pairs": train.n_pairs,
        "ranked": int(np.count_nonzero(part.user_degrees)),
        "dimension": DIMENSION,
        "k": min(K, train.n_items),
    }
    executions = [OURS, REFERENCE] + [ON_CARD] * (conditions.device.type == "cuda")
    ways = {
        execution: _way(execution, train, part, size, conditions.device) for execution in executions
    }
    found = side_by_side("evaluate", ways, size, conditions)
    cases = [
        Case(
            "evaluation",
            execution,
            way.device.type,
            size,
            found.times[execution],
            floor_of_ranking(size),
            found.peaks[execution],
            is_reference=execution == REFERENCE,
            figures={"users_per_second": round(size["ranked"] / found.times[execution].median, 1)},
        )
        for execution, way in ways.items()
    ]
    return Measured("evaluate", cases, found.ceilings)


def alone(execution: str, size: Size) -> Way:
    """One execution on random pairs of this size."""
    train = random_pairs(size["users"], size["items"], size["pairs"])
    n_test = size["users"] * TEST_PAIRS_PER_USER
    test = _some_users(random_pairs(size["users"], size["items"], n_test), size["ranked"])
    return _way(execution, train, test, size, CPU)


def _some_users(test: Interactions, n_users: int) -> Interactions:
    """The test pairs of so many users, evenly spread over those who have any."""
    judged = np.flatnonzero(test.user_degrees)
    places = np.linspace(0, len(judged) - 1, min(n_users, len(judged))).astype(np.int64)
    chosen = np.zeros(test.n_users, dtype=bool)
    chosen[judged[places]] = True
    return test.select(chosen[test.pair_users])


def _way(execution: str, seen: Pairs, test: Interactions, size: Size, device: torch.device) -> Way:
    model = random_model(size["users"], size["items"], size["dimension"])
    k, users = size["k"], np.flatnonzero(test.user_degrees)
    work: dict[str, Callable[[], object]] = {
        OURS: lambda: evaluate(model, seen, test, ks=(k,)).to_json(),
        REFERENCE: lambda: plain_evaluation(model, seen, test, users, k),
        ON_CARD: lambda: _evaluate_on_card(model, seen, test, k, device),
    }
    return Way(once(work[execution]), device=device if execution == ON_CARD else CPU)


def _evaluate_on_card(
    model: InnerProduct, seen: Pairs, test: Pairs, k: int, device: torch.device
) -> object:
    ranker = partial(GpuTopK, device=device)
    return evaluate(model, seen, test, ks=(k,), ranker=ranker).to_json()
