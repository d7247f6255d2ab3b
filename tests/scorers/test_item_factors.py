from __future__ import annotations

import numpy as np
import pytest

from ratiorec.errors import ModelError
from ratiorec.scorers import Factored, ItemFactors, ItemWeights
from support.small_scorers import item_factors, random_floats, random_rows, rows_of

HISTORIES = random_rows(30, 40)


def test_the_scores_are_those_of_an_item_item_matrix_of_low_rank() -> None:
    model = item_factors(HISTORIES, 40)
    matrix = ItemWeights(model.inputs @ model.outputs.T, HISTORIES)
    users = np.arange(30)
    np.testing.assert_allclose(model.scores(users), matrix.scores(users), rtol=1e-4, atol=1e-5)


def test_they_are_inner_products_of_a_sum_and_an_output() -> None:
    model = item_factors(rows_of([[3, 5], []]), 40)
    assert isinstance(model, Factored)
    vectors = model.user_vectors(np.array([1, 0]))
    np.testing.assert_allclose(vectors[1], model.inputs[3] + model.inputs[5], rtol=1e-6)
    assert not vectors[0].any()
    assert model.item_vectors is model.outputs


def test_items_are_alike_by_their_outputs() -> None:
    outputs = random_floats(4, 3)
    outputs[2] = 5 * outputs[1]
    model = ItemFactors(random_floats(4, 3), outputs, rows_of([[0]]))
    similar = model.similarity().scores(np.array([1]))[0]
    assert similar[2] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("shape", [(40, 8), (39, 9)])
def test_inputs_and_outputs_of_two_shapes_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ModelError, match="outputs"):
        ItemFactors(random_floats(40, 9), random_floats(*shape), HISTORIES)


def test_vectors_without_a_dimension_are_refused() -> None:
    with pytest.raises(ModelError, match="dimension"):
        ItemFactors(random_floats(40, 0), random_floats(40, 0), HISTORIES)


def test_products_without_end_are_refused() -> None:
    large = np.full((4, 2), 1e19, np.float32)
    ItemFactors(large / 10, large / 10, rows_of([[0, 1]]))
    with pytest.raises(ModelError, match="not finite"):
        ItemFactors(large, large, rows_of([[0, 1]]))
