from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError
from ratiorec.export import FORMS, ExportTrial, LowRank, Vectors, export
from ratiorec.export import low_rank as module
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import Blend, InnerProduct, WalkScorer
from ratiorec.scorers.scorer import pairs_of
from ratiorec.scorers.topk import Exact
from support.command_line import everything_in
from support.small_scorers import MAKERS, random_floats, random_rows, rows_of

K = 5


def model_of(*kinds: str, n_users: int = 80, n_items: int = 60) -> Artifact:
    """One scorer, or a blend of several; nobody is without items, to whom all would be equal."""
    some = random_rows(n_users, n_items)
    rows = np.split(some.indices, some.indptr[1:-1])
    histories = rows_of([row.tolist() or [user % n_items] for user, row in enumerate(rows)])
    users, items = (Vocabulary.dense(n, kind=k) for n, k in ((n_users, "user"), (n_items, "item")))
    members = tuple(MAKERS[kind](histories, n_items) for kind in kinds)
    blend = Blend(members, np.ones(len(members), np.float32))
    return Artifact(members[0] if len(kinds) == 1 else blend, users, items, histories)


def counted_recall(model: Artifact, users: np.ndarray, items: np.ndarray) -> float:
    """The share of what the model recommends that the vectors recommend, list by list."""
    near = replace(model, scorer=InnerProduct(users, items))
    lists = [
        np.asarray(m.recommend(m.users.ids, K).answer_ids).reshape(-1, K) for m in (model, near)
    ]
    return float(np.mean([len(set(a) & set(b)) / K for a, b in zip(*lists, strict=True)]))


@pytest.mark.parametrize(
    "kinds", [("item_weights",), ("graph_filter",), ("inner_product", "neighbours", "popularity")]
)
def test_the_told_recall_is_what_whoever_ranks_the_written_vectors_finds(
    kinds: tuple[str, ...], tmp_path: Path
) -> None:
    model = model_of(*kinds)
    trial = ExportTrial(k=K, min_recall=0)
    told = export(model, FORMS["numpy"], tmp_path / "out", trial=trial, dimension=6)
    found = [np.load(tmp_path / "out" / f"{side}_vectors.npy") for side in ("user", "item")]
    assert 0.2 < told.measured.recall < 0.95
    assert told.measured.recall == pytest.approx(counted_recall(model, *found), abs=0.02)
    header = json.loads((tmp_path / "out" / "export.json").read_text())
    assert header["vectors"] == told.to_dict()["vectors"] == "approximate"
    assert header["recall"] == told.measured.recall
    assert header["dimension"] == found[1].shape[1] == 6


@pytest.mark.parametrize("kind", ["walk", "neighbours", "item_weights", "graph_filter"])
def test_with_as_many_dimensions_as_items_nearly_all_is_found(kind: str) -> None:
    vectors = Vectors.of(model_of(kind), dimension=60)
    judge = ExportTrial(k=K)(vectors)
    assert judge.recall(judge.exact_lists(judge.vectors, vectors.items)) > 0.97


def test_the_lists_that_count_are_those_without_what_a_user_has() -> None:
    model = model_of("item_weights")
    judge = ExportTrial(k=K)(Vectors.of(model, dimension=60))
    assert judge.recall(Exact(K)(model.scorer, judge.users, seen=model.seen).items) == 1
    with_seen = Exact(K, exclude_seen=False)(model.scorer, judge.users).items
    assert judge.recall(with_seen) < 1


def test_a_search_asks_for_as_many_more_as_a_user_has_and_drops_those() -> None:
    model = model_of("item_weights", n_users=6)
    judge = ExportTrial(k=K)(Vectors.of(model))
    lengths = np.diff(model.seen.indptr).tolist()
    asked = []

    def first_items(vectors: np.ndarray, k: int) -> np.ndarray:
        asked.append(k)
        return np.arange(k)[None].repeat(len(vectors), 0)

    for user, listed in enumerate(judge.lists(first_items)):
        had = model.seen.indices[model.seen.indptr[user] : model.seen.indptr[user + 1]]
        assert listed.tolist() == [i for i in range(60) if i not in had][:K]
    assert asked == [K + n for n in lengths]


def test_users_who_have_nearly_all_items_have_short_lists_that_can_be_found() -> None:
    model = model_of("walk", n_users=3, n_items=12)
    seen = rows_of([list(range(12)), list(range(10)), [3]])
    scorer = WalkScorer.over(seen, np.ones(3, np.float32), 12)
    vectors = Vectors.of(replace(model, scorer=scorer, seen=seen))
    judge = ExportTrial(k=K)(vectors)
    assert judge.n_wanted == 0 + 2 + K
    assert judge.recall(judge.exact_lists(judge.vectors, vectors.items)) == 1


@pytest.mark.parametrize("form", ["numpy", "parquet", "faiss", "onnx"])
def test_too_little_recall_is_refused_with_the_figure_and_the_ways_out(
    form: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"recall@5 0\.\d+ of the model's own lists") as error:
        export(
            model_of("item_weights"),
            FORMS[form],
            tmp_path / "out",
            trial=ExportTrial(k=K),
            dimension=2,
        )
    for way in ("--min-recall 0.", "--dimension", "ratiorec recommend MODEL --all"):
        assert way in error.value.wanted
    assert everything_in(tmp_path) == {}


@pytest.mark.parametrize("form", ["parquet", "faiss", "onnx"])
def test_every_form_takes_approximate_vectors(form: str, tmp_path: Path) -> None:
    pytest.importorskip({"faiss": "faiss", "onnx": "onnx"}.get(form, "pyarrow"))
    model = model_of("inner_product", "neighbours")
    told = export(
        model, FORMS[form], tmp_path / "out", trial=ExportTrial(k=K, min_recall=0.3), dimension=20
    )
    vectors = Vectors.of(model, dimension=20)
    judge = ExportTrial(k=K)(vectors)
    exact = judge.recall(judge.exact_lists(judge.vectors, vectors.items))
    assert told.measured.recall == pytest.approx(exact, abs=0.02)
    assert told.vectors == "approximate"


def test_vectors_grow_until_they_find_enough_unless_they_are_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, asked = model_of("item_weights"), []
    of = Vectors.of

    def recorded(model: Artifact, **options: Any) -> Vectors:
        asked.append(options["dimension"])
        return of(model, **{**options, "dimension": options["dimension"] or 2})

    monkeypatch.setattr(Vectors, "of", recorded)
    monkeypatch.setattr("ratiorec.export.exporting.DIMENSIONS", (2, 4, 60, 80))
    told = export(model, FORMS["numpy"], tmp_path / "out", trial=ExportTrial(k=K))
    assert (asked, told.measured.settings["dimension"]) == ([None, 4, 60], 60)
    assert told.measured.recall >= 0.95
    with pytest.raises(ConfigError, match="dimension 2"):
        export(model, FORMS["numpy"], tmp_path / "two", trial=ExportTrial(k=K), dimension=2)


def test_users_beyond_those_that_items_are_fitted_to_have_vectors_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of("item_weights", n_users=300)
    whole = counted_recall(model, **vars_of(LowRank(30)(model.scorer, model.seen)))
    monkeypatch.setattr(module, "_FITTED_USERS", 150)
    monkeypatch.setattr(module, "_NUMBERS_AT_A_TIME", 1000)
    half = counted_recall(model, **vars_of(LowRank(30)(model.scorer, model.seen)))
    assert whole > 0.5
    assert half > 0.8 * whole


def vars_of(scorer: InnerProduct) -> dict[str, np.ndarray]:
    return {"users": scorer.users, "items": scorer.items}


def test_the_same_vectors_come_of_the_same_model() -> None:
    model = model_of("neighbours")
    first, again = (LowRank(10)(model.scorer, model.seen) for _ in range(2))
    np.testing.assert_array_equal(first.users, again.users)
    np.testing.assert_array_equal(first.items, again.items)


@pytest.mark.parametrize("dimension", [0, 2001])
def test_a_length_that_vectors_cannot_have_is_refused(dimension: int) -> None:
    with pytest.raises(ConfigError, match="where: dimension"):
        LowRank(dimension)


def test_listed_items_weigh_1_what_a_user_has_nothing_and_all_else_a_little() -> None:
    model = model_of("item_weights", n_users=4)
    lists = LowRank(n_best=K, rest=0.25)._lists(model.scorer, model.seen, np.arange(4), None)
    weights = lists.weights.toarray() + lists.rest
    expected = np.full((4, 60), 0.25)
    expected[pairs_of(model.seen, np.arange(4))] = 0
    best = Exact(K)(model.scorer, np.arange(4), seen=model.seen).items
    np.put_along_axis(expected, best, 1, axis=1)
    np.testing.assert_array_equal(weights, expected)
    targets = np.take_along_axis(lists.targets.toarray(), best, axis=1)
    assert (np.diff(targets) < 0).all()
    assert (targets[:, 0].tolist(), targets[:, -1].tolist()) == ([1] * 4, [0.5] * 4)


def test_solves_are_those_of_the_normal_equations() -> None:
    import scipy.sparse

    dense = np.zeros((3, 7), np.float32)
    listed = [[0, 4], [1, 2, 6], []]
    for row, items in enumerate(listed):
        dense[row, items] = np.linspace(0.5, 1, len(items))
    weights = np.where(dense > 0, np.float32(0.9), 0)
    weights[0, 5] = -0.1  # an item that the user has
    others, rest = random_floats(7, 3), 0.1
    lists = module._Lists(scipy.sparse.csr_array(dense), scipy.sparse.csr_array(weights), rest)
    solved = module._solved(lists, others, np.zeros((3, 3), np.float32))
    gram = rest * others.T @ others
    ridge = module._RIDGE * np.trace(gram) / 3 * np.eye(3)
    for row in range(3):
        matrix = (others.T * (weights[row] + rest)) @ others + ridge
        expected = np.linalg.solve(matrix, others.T @ dense[row])
        np.testing.assert_allclose(solved[row], expected, rtol=1e-2, atol=1e-3)
