"""The rules of fold-in that the study compares."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems
from ratiorec_lab.studies.alternatives import Rule, rules

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def data() -> Interactions:
    return Interactions.from_pairs(["a", "a", "b", "b", "c", "d"], [0, 1, 1, 2, 0, 2])


@pytest.fixture
def scorer(data: Interactions) -> InnerProduct:
    rng = np.random.default_rng(0)
    shapes = (data.n_users, 2), (data.n_items, 2)
    users, items = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    return InnerProduct(users, items)


@pytest.fixture
def found(scorer: InnerProduct, data: Interactions) -> dict[str, Rule]:
    return rules(scorer, data)


def test_the_rules_are_called_as_in_every_record(found: dict[str, Rule]) -> None:
    records = [*RESULTS.glob("bench-alternatives-*-fold-in.json")]
    assert records
    for path in records:
        for one in json.loads(path.read_bytes())["result"]["found"]:
            assert list(one["rules"]) == list(found)


def test_the_mean_and_the_step_are_what_their_names_say(
    scorer: InnerProduct, data: Interactions, found: dict[str, Rule]
) -> None:
    seen = UserItems.of(data)
    a = data.users.indices(["a"])[0]
    both = scorer.items[seen.indices[seen.indptr[a] : seen.indptr[a + 1]]]
    np.testing.assert_allclose(found["mean"](seen)[a], both.mean(0), rtol=1e-5)
    centred = both.mean(0) - scorer.items.mean(0)
    np.testing.assert_allclose(found["centred mean"](seen)[a], centred, rtol=1e-5)
    propagated = both.sum(0) / np.sqrt(2 * 2)  # of 2 items with 2 users each
    np.testing.assert_allclose(found["step"](seen)[a], propagated, rtol=1e-5)
