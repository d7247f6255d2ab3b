from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError
from ratiorec.export import Vectors
from ratiorec.export import vectors as module
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Blend, InnerProduct
from ratiorec.scorers.scorer import UserItems
from support.small_models import small_model
from support.small_scorers import MAKERS, random_rows


def model_of(kind: str, n_users: int = 9, n_items: int = 14) -> Artifact:
    histories = random_rows(n_users, n_items)
    users, items = (Vocabulary.dense(n, kind=k) for n, k in ((n_users, "user"), (n_items, "item")))
    return Artifact(MAKERS[kind](histories, n_items), users, items, histories)


@pytest.mark.parametrize("kind", ["inner_product", "autoencoder"])
def test_inner_products_of_the_vectors_are_the_scores(kind: str) -> None:
    model = model_of(kind)
    vectors = Vectors.of(model)
    users = np.array([7, 0, 3])
    expected = model.scorer.scores(users)
    np.testing.assert_allclose(
        vectors.users(users) @ vectors.items.T, expected, rtol=1e-4, atol=1e-4
    )


def blend_of(*kinds: str) -> Artifact:
    model = model_of("inner_product")
    members = tuple(MAKERS[kind](model.seen, len(model.items)) for kind in kinds)
    weights = np.linspace(1, 0.3, len(kinds), dtype=np.float32)
    return replace(model, scorer=Blend(members, weights))


@pytest.mark.parametrize(
    "model",
    [
        model_of("popularity"),
        blend_of("inner_product", "item_factors", "autoencoder"),
        blend_of("popularity", "inner_product"),
        blend_of("popularity", "popularity"),
    ],
)
def test_a_blend_of_inner_products_and_popularity_is_exact_but_for_a_constant_of_each_user(
    model: Artifact,
) -> None:
    vectors = Vectors.of(model)
    assert vectors.kind == "exact"
    users = np.array([7, 1, 3])
    given = vectors.users(users) @ vectors.items.T
    expected = model.scorer.scores(users)
    offset = (given - expected).mean(1, keepdims=True)
    np.testing.assert_allclose(given - offset, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", [model_of("inner_product"), blend_of("item_factors")])
def test_exact_vectors_have_no_other_dimension(model: Artifact) -> None:
    with pytest.raises(ConfigError, match="where: dimension; found: 8, of a model with"):
        Vectors.of(model, dimension=8)


def test_blocks_of_users_are_all_users_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VALUES_AT_A_TIME", 4 * 7)
    vectors = Vectors.of(small_model())
    blocks = list(vectors.user_blocks())
    assert [rows for rows, _ in blocks] == [slice(0, 7), slice(7, 14), slice(14, 20)]
    np.testing.assert_array_equal(
        np.concatenate([block for _, block in blocks]), vectors.users(np.arange(20))
    )


def test_a_model_without_users_is_refused() -> None:
    none = np.zeros((0, 2), np.float32)
    model = Artifact(
        InnerProduct(none, np.ones((1, 2), np.float32)),
        Vocabulary.dense(0, kind="user"),
        Vocabulary.dense(1, kind="item"),
        UserItems(np.zeros(1, np.int64), np.zeros(0, np.int32)),
    )
    with pytest.raises(DataError, match="0 users and 1 items"):
        Vectors.of(model)
