from __future__ import annotations

import numpy as np
import pytest
from ratiorec_lab.bench.implicit_ranking import implicit_ranking
from ratiorec_lab.bench.plain import plain_evaluation, plain_ranking
from ratiorec_lab.bench.stand_in import random_model, random_pairs

from ratiorec.data.interactions import Dataset
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.scorers.topk import Exact

USERS = np.array([3, 0, 59, 17])


def test_plain_lists_are_the_exact_ones() -> None:
    # so long lists that to find what is on them does not put it into order by the way
    model, seen = random_model(60, 3000, 8), random_pairs(60, 3000, 900)
    ours = Exact(900)(model, USERS, seen=seen)
    assert (plain_ranking(model, seen, USERS, 900) == ours.items).all()


def test_plain_figures_are_the_exact_ones(dataset: Dataset) -> None:
    model, test = random_model(60, 40, 8), dataset.test
    assert test is not None
    users = np.flatnonzero(test.user_degrees)
    report = evaluate(model, dataset.train, test, ks=(5,))
    plain = plain_evaluation(model, dataset.train, test, users, 5)
    assert plain == {name: pytest.approx(report.value(name)) for name in ("recall@5", "ndcg@5")}


def test_the_lists_of_implicit_are_the_exact_ones(dataset: Dataset) -> None:
    library = pytest.importorskip("implicit.cpu.matrix_factorization_base")
    model = random_model(60, 40, 8)
    lists = []
    plain = library.MatrixFactorizationBase.recommend

    def noting(*arguments: object, **options: object) -> object:
        found = plain(*arguments, **options)
        lists.append(found[0])
        return found

    way = implicit_ranking(model, dataset.train, USERS, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.MatrixFactorizationBase, "recommend", noting)
        with way.around():
            assert way.work() == 1
    assert (lists[0] == Exact(5)(model, USERS, seen=dataset.train).items).all()
