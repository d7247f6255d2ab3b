"""The ridge equals its definition, and is the one that tells left-out rows best."""

from __future__ import annotations

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, OwnVectors, Tags, Texts
from ratiorec.catalogue.content import Content
from ratiorec.catalogue.ridge import STRENGTHS, Ridge

N_KNOWN, N_NEW = 40, 6


def table(seed: int = 0) -> Attributes:
    rng = np.random.default_rng(seed)
    n = N_KNOWN + N_NEW
    tags = Tags.of([[f"t{t}" for t in rng.choice(9, rng.integers(0, 4))] for _ in range(n)])
    own = OwnVectors(rng.standard_normal((n, 5)).astype(np.float32))
    return Attributes(n, {"tags": tags, "own": own})


TEACHES = np.arange(N_KNOWN + N_NEW) < N_KNOWN
TEACHES[[3, 8]] = False


def told_by_definition(
    features: np.ndarray, targets: np.ndarray, strength: float, asked: np.ndarray
) -> np.ndarray:
    """Ridge regression with a mean that is not shrunk, by a system of equations."""
    mean, centre = targets.mean(0), features.mean(0)
    x = features - centre
    system = x.T @ x + strength * np.eye(x.shape[1])
    return mean + (asked - centre) @ np.linalg.solve(system, x.T @ (targets - mean))


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
def test_a_mix_is_the_regression_on_content(strength: float) -> None:
    content = Content.of(table(), TEACHES)
    ridge = Ridge(strength, {"tags": 0.5})
    values = np.random.default_rng(1).standard_normal((N_KNOWN, 3))
    found = ridge.mix(content, TEACHES, N_KNOWN).of(values)
    features, rows = content.weighted({"tags": 0.5}).toarray(), np.flatnonzero(TEACHES)
    asked = np.where(
        content.lacks[N_KNOWN:][:, content.block_of], features[rows].mean(0), features[N_KNOWN:]
    )
    wanted = told_by_definition(features[rows], values[rows], strength, asked)
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("n_names", [9, 3000])
def test_rows_that_come_later_have_the_features_that_they_would_have_had(n_names: int) -> None:
    rng, n = np.random.default_rng(4), N_KNOWN + N_NEW
    names = [f"t{place}" for place in range(n_names)]
    listed = [[*rng.choice(names, 3)] for _ in range(N_KNOWN)]
    listed[0] = names  # so many that they may be hashed
    tags = Tags.of([*listed, *([*rng.choice(names, 2), "new", "newer"] for _ in range(N_NEW))])
    about = np.array([f"{' '.join(row[:4])} w{place}" for place, row in enumerate(tags.plain())])
    numbers = np.where(np.arange(n) % 5 == 0, np.nan, rng.normal(size=n) * 9)
    kinds = [None if place % 4 == 0 else f"k{place % 7}" for place in range(n)]
    whole = Attributes(
        n,
        {
            "tags": tags,
            "about": Texts(about.astype(object)),
            "n": Numbers(numbers),
            "kind": Categories.of(kinds),
        },
    )
    known = whole.take(np.arange(N_KNOWN))
    later = whole.take(np.arange(N_KNOWN, n))
    teaches = np.arange(n) < N_KNOWN
    wanted = Content.of(whole, teaches).rows(N_KNOWN)
    found = Content.of(known, teaches[:N_KNOWN]).of_others(later)
    assert found.features.toarray() == pytest.approx(wanted.features.toarray())
    assert found.lacks.tolist() == wanted.lacks.tolist()


def test_what_does_not_teach_has_no_part() -> None:
    content = Content.of(table(), TEACHES)
    values = np.ones((N_KNOWN, 1))
    values[[3, 8]] = 1e6
    assert Ridge(1.0).mix(content, TEACHES, N_KNOWN).of(values) == pytest.approx(1, rel=1e-5)


def test_the_choice_is_the_least_error_of_rows_left_out_one_by_one() -> None:
    content, rng = Content.of(table(), TEACHES), np.random.default_rng(2)
    rows, features = np.flatnonzero(TEACHES), Content.of(table(), TEACHES).features.toarray()
    targets = np.zeros((N_KNOWN + N_NEW, 4))
    truth = rng.standard_normal((features.shape[1], 4))
    targets[rows] = features[rows] @ truth + rng.standard_normal((len(rows), 4)) * 2
    found = Ridge.chosen(content, TEACHES, targets)
    errors = {}
    for strength in STRENGTHS:
        x = content.weighted(found.weights).toarray()
        errors[strength] = sum(
            np.square(
                targets[row]
                - told_by_definition(
                    x[rows[rows != row]], targets[rows[rows != row]], strength, x[row]
                )
            ).sum()
            for row in rows
        )
    assert found.strength == min(errors, key=errors.__getitem__)


def test_an_attribute_of_noise_weighs_less() -> None:
    rng, n = np.random.default_rng(3), 120
    own = rng.standard_normal((n, 4)).astype(np.float32)
    noise = OwnVectors(rng.standard_normal((n, 60)).astype(np.float32))
    everyone = np.ones(n, bool)
    content = Content.of(Attributes(n, {"own": OwnVectors(own), "noise": noise}), everyone)
    lengths = np.linalg.norm(own, axis=1, keepdims=True)
    found = Ridge.chosen(content, everyone, own / lengths @ rng.standard_normal((4, 8)))
    assert found.weights["own"] == 1
    assert found.weights["noise"] < 1


def test_a_row_without_attributes_is_told_the_mean_even_where_no_other_lacks_them() -> None:
    everyone = np.arange(5) < 4
    tags = Tags.of([["a"], ["a"], ["a"], ["b"], []])
    own = OwnVectors(np.array([[1, 0]] * 3 + [[0, 1], [np.nan, 0]], np.float32))
    content = Content.of(Attributes(5, {"tags": tags, "own": own}), everyone)
    found = Ridge(0.01).mix(content, everyone, 4).of(np.array([[1.0], [1.0], [1.0], [5.0]]))
    assert found == pytest.approx(2.0)


def test_without_content_all_are_told_the_mean() -> None:
    content = Content.of(Attributes.none(N_KNOWN + N_NEW), TEACHES)
    values = np.arange(N_KNOWN, dtype=float)[:, None]
    ridge = Ridge.chosen(content, TEACHES, values)
    found = ridge.mix(content, TEACHES, N_KNOWN).of(values)
    assert found == pytest.approx(values[np.flatnonzero(TEACHES)].mean())
