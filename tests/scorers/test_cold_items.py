"""Cold items are mixes of known ones in every kind of model."""

from __future__ import annotations

import numpy as np
import pytest

from ratiorec.scorers import SCORERS, ColdItems
from ratiorec.scorers.cold_items import Mix, with_cold_items, without_cold_items
from support.small_scorers import MAKERS, random_mix, random_rows, rows_of

N_USERS, N_KNOWN, N_NEW = 11, 30, 4
SEEN = random_rows(N_USERS, N_KNOWN)
MIX = random_mix(N_KNOWN, N_NEW)
WEIGHTS = (MIX.features @ MIX.gains.T).T  # A [n_new, n_known]
KINDS = sorted(set(SCORERS) - {"cold_items"})
EVERYONE = np.arange(N_USERS)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_scores_of_new_items_are_mixes_and_others_are_as_they_were(kind: str) -> None:
    known = MAKERS[kind](SEEN, N_KNOWN)
    before = known.scores(EVERYONE)
    after = with_cold_items(known, MIX, SEEN).scores(EVERYONE)
    assert after.shape == (N_USERS, N_KNOWN + N_NEW)
    assert after[:, :N_KNOWN] == pytest.approx(before, rel=1e-5, abs=1e-5)
    scale = float(np.abs(before).max())
    assert after[:, N_KNOWN:] == pytest.approx(before @ WEIGHTS.T, rel=1e-3, abs=1e-5 * scale)


def test_a_model_with_cold_items_is_the_same_again_from_its_arrays(kind: str) -> None:
    model = with_cold_items(MAKERS[kind](SEEN, N_KNOWN), MIX, SEEN)
    again = SCORERS[model.kind].from_arrays(model.arrays(), SEEN)
    assert again.scores(EVERYONE).tobytes() == model.scores(EVERYONE).tobytes()


def test_without_its_cold_items_a_model_is_as_before(kind: str) -> None:
    known = MAKERS[kind](SEEN, N_KNOWN)
    again = without_cold_items(with_cold_items(known, MIX, SEEN), N_KNOWN, SEEN)
    assert type(again) is type(known)
    assert again.scores(EVERYONE).tobytes() == known.scores(EVERYONE).tobytes()


def test_weights_of_item_pairs_do_not_grow_by_the_square() -> None:
    model = with_cold_items(MAKERS["item_weights"](SEEN, N_KNOWN), MIX, SEEN)
    assert isinstance(model, ColdItems)
    assert model.arrays()["known.weights"].shape == (N_KNOWN, N_KNOWN)


def test_weights_of_item_pairs_that_were_saved_with_cold_items_lose_them_again() -> None:
    known = MAKERS["item_weights"](SEEN, N_KNOWN)
    arrays = known.arrays()
    rows = MIX.joined(MIX.joined(arrays["weights"]), axis=1)
    before = type(known).from_arrays({**arrays, "weights": rows}, SEEN)
    after = with_cold_items(known, MIX, SEEN)
    assert before.scores(EVERYONE) == pytest.approx(after.scores(EVERYONE), rel=1e-3, abs=1e-4)
    again = without_cold_items(before, N_KNOWN, SEEN)
    assert again.scores(EVERYONE).tobytes() == known.scores(EVERYONE).tobytes()


def test_known_items_are_scored_alone_where_the_model_can_do_that() -> None:
    model = with_cold_items(MAKERS["item_weights"](SEEN, N_KNOWN), MIX, SEEN)
    assert isinstance(model, ColdItems)
    some = np.array([2, 7])
    few = model.for_items(some)
    assert few is not None
    assert few.scores(EVERYONE).tobytes() == model.scores(EVERYONE)[:, some].tobytes()
    assert model.for_items(np.array([2, N_KNOWN])) is None


@pytest.mark.parametrize("kind", ["inner_product", "item_factors", "autoencoder", "blend"])
def test_items_that_are_vectors_get_vectors(kind: str) -> None:
    known = MAKERS[kind](SEEN, N_KNOWN)
    before, after = (
        model.item_vectors  # type: ignore[attr-defined]
        for model in (known, with_cold_items(known, MIX, SEEN))
    )
    assert after[:N_KNOWN] == pytest.approx(before)
    assert after[N_KNOWN:] == pytest.approx(WEIGHTS @ before, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"popularity"}))
def test_items_are_similar_in_both_directions(kind: str) -> None:
    similar = with_cold_items(MAKERS[kind](SEEN, N_KNOWN), MIX, SEEN).similarity()
    n = N_KNOWN + N_NEW
    together = similar.scores(np.arange(n))
    assert together.shape == (n, n)
    assert np.isfinite(together).all()
    assert (together[N_KNOWN:, :N_KNOWN].std(axis=1) > 0).all()
    assert (together[:N_KNOWN, N_KNOWN:].std(axis=0) > 0).all()
    for place in (0, N_KNOWN, n - 1):
        assert similar.scores(np.array([place])).tobytes() == together[place].tobytes()


def test_a_cold_item_is_similar_as_the_known_ones_that_weigh_most() -> None:
    known = MAKERS["neighbours"](SEEN, N_KNOWN)
    model = with_cold_items(known, MIX, SEEN)
    rows = known.similarity().scores(np.arange(N_KNOWN))
    near = np.argsort(-WEIGHTS[1], kind="stable")[:20]
    wanted = WEIGHTS[1][near] @ rows[near]
    found = model.similarity().scores(np.array([N_KNOWN + 1]))[0]
    assert found[:N_KNOWN] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_in_a_history_the_nearest_known_item_stands_for_a_cold_one() -> None:
    model = with_cold_items(MAKERS["walk"](SEEN, N_KNOWN), MIX, SEEN)
    assert isinstance(model, ColdItems)
    near = [int(np.argmax(row)) for row in WEIGHTS]
    found = model.of_known_items(rows_of([[2, N_KNOWN + 3], [], [near[0], N_KNOWN], [5]]))
    assert found.indptr.tolist() == [0, 2, 2, 3, 4]
    assert found.indices.tolist() == [*sorted([2, near[3]]), near[0], 5]


def test_a_mix_of_the_heaviest_is_in_order() -> None:
    items, weights = MIX.heaviest(2, 5)
    assert items.tolist() == np.argsort(-WEIGHTS[2], kind="stable")[:5].tolist()
    assert weights == pytest.approx(WEIGHTS[2][items])


def test_rows_and_columns_are_joined_along_their_axis() -> None:
    matrix = np.arange(N_KNOWN**2, dtype=np.float32).reshape(N_KNOWN, N_KNOWN)
    mix = Mix(MIX.features, MIX.gains)
    columns = mix.joined(matrix, axis=1)
    assert columns[:, :N_KNOWN].tolist() == matrix.tolist()
    assert columns[:, N_KNOWN:] == pytest.approx(matrix @ WEIGHTS.T, rel=1e-4, abs=1e-3)
