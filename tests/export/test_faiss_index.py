from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ratiorec.errors import ConfigError
from ratiorec.export import ExportTrial, Faiss, Vectors, export
from ratiorec.export.faiss_index import Flat, Hnsw, Index, Ivf, indices_for
from ratiorec.scorers import InnerProduct
from support.command_line import everything_in
from support.random_vectors import vector_model

faiss = pytest.importorskip("faiss", reason="the package faiss-cpu is not installed")

INDICES = [Flat(), Hnsw(16, 40), Ivf(20, (2, 5, 10, 20))]


@pytest.mark.parametrize("index", INDICES, ids=lambda index: type(index).__name__)
def test_an_index_read_back_finds_what_was_measured_with_scores_as_they_are(
    index: Index, tmp_path: Path
) -> None:
    model = vector_model(90, 800, 8)
    trial = ExportTrial(k=10, n_users=60, min_recall=0.9)
    done = export(model, Faiss((index,)), tmp_path / "out", trial=trial)
    users = np.load(tmp_path / "out" / "user_vectors.npy")
    judge = trial(Vectors.of(model))
    read = faiss.read_index(str(tmp_path / "out" / "index.faiss"))
    scores, found = read.search(users[judge.users], 10)
    assert judge.recall(found) == done.measured.recall >= 0.9
    exact = model.scorer.scores(judge.users)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, found, axis=1), atol=1e-5)


def test_a_flat_index_has_recall_one_and_its_places_are_those_of_the_ids(tmp_path: Path) -> None:
    model = vector_model(40, 300, 6)
    done = export(model, Faiss(), tmp_path / "out", trial=ExportTrial(min_recall=1))
    assert (done.measured.recall, done.measured.settings) == (1, {"index": "flat"})
    ids = json.loads((tmp_path / "out" / "item_ids.json").read_text())
    users = np.load(tmp_path / "out" / "user_vectors.npy")
    read = faiss.read_index(str(tmp_path / "out" / "index.faiss"))
    found = read.search(users[:1], 5)[1][0]
    assert [ids[place] for place in found] == model.recommend("user 0", 5).answer_ids.tolist()


def test_a_graph_over_twenty_thousand_random_vectors_reaches_the_threshold(tmp_path: Path) -> None:
    model = vector_model(300, 20_000, 32)
    done = export(model, Faiss(), tmp_path / "out", trial=ExportTrial(n_users=200))
    assert done.measured.settings["index"] == "hnsw"
    assert done.measured.recall >= 0.95


@pytest.mark.parametrize("weak", [Hnsw(2, 2, (1, 2)), Ivf(100, (1, 2))], ids=["hnsw", "ivf"])
def test_an_index_that_finds_too_little_is_refused_and_leaves_nothing(
    weak: Index, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"recall@20 0\.\d{4} of exact search over 50 users"):
        export(vector_model(50, 3000, 16), Faiss((weak,)), tmp_path / "a" / "out")
    assert everything_in(tmp_path) == {}


def test_an_index_that_finds_too_little_leaves_the_old_one(tmp_path: Path) -> None:
    export(vector_model(50, 300, 16), Faiss(), tmp_path / "out")
    before = everything_in(tmp_path)
    with pytest.raises(ConfigError, match="finds too little"):
        export(vector_model(50, 3000, 16), Faiss((Hnsw(2, 2, (1,)),)), tmp_path / "out")
    assert everything_in(tmp_path) == before


def test_a_search_is_made_stronger_until_it_finds_enough(tmp_path: Path) -> None:
    kind = Ivf(100, (1, 5, 50, 100))
    done = export(vector_model(50, 3000, 16), Faiss((kind,)), tmp_path / "out")
    assert done.measured.settings == {"index": "ivf", "n_lists": 100, "n_probes": 50}
    read = faiss.read_index(str(tmp_path / "out" / "index.faiss"))
    assert faiss.extract_index_ivf(read).nprobe == 50


def test_cells_find_long_vectors_wherever_they_point(tmp_path: Path) -> None:
    """Lengths spread over two orders: by direction alone, a few cells miss the long items."""
    model = vector_model(100, 4000, 16)
    lengths = np.random.default_rng(0).lognormal(0, 1, (4000, 1)).astype(np.float32)
    factors = model.scorer.arrays()
    scorer = InnerProduct(factors["users"], factors["items"] * lengths)
    stretched = replace(model, scorer=scorer)
    trial = ExportTrial(min_recall=0)
    few = Faiss((Ivf(250, (25,)),))
    recall = export(stretched, few, tmp_path / "out", trial=trial).measured.recall
    vectors = Vectors.of(stretched)
    judge = trial(vectors)
    plain = faiss.index_factory(16, "IVF250,Flat", faiss.METRIC_INNER_PRODUCT)
    faiss.extract_index_ivf(plain).cp.min_points_per_centroid = 1
    plain.train(vectors.items)
    plain.add(vectors.items)
    plain.nprobe = 25
    assert recall > judge.recall(plain.search(judge.vectors, 20)[1]) + 0.1


@pytest.mark.parametrize(
    ("n_items", "dimension", "kinds"),
    [
        (8192, 64, [Flat]),
        (8193, 64, [Ivf, Hnsw]),
        (20_000, 32, [Ivf, Hnsw]),
        (2**20, 64, [Ivf, Hnsw]),
        (2**20 + 1, 64, [Ivf]),
    ],
)
def test_the_kinds_of_index_follow_from_the_size(
    n_items: int, dimension: int, kinds: list[type[Index]]
) -> None:
    assert [type(index) for index in indices_for(n_items, dimension)] == kinds


def test_the_number_of_cells_grows_with_the_root_of_the_items() -> None:
    assert Ivf.for_items(4_000_000, (64, 2)) == Ivf(4 * 2000, (125, 4000))
    assert Ivf.for_items(1, (64, 2)) == Ivf(4, (1, 2))


def test_the_next_kind_is_tried_when_the_first_finds_too_little(tmp_path: Path) -> None:
    kinds = (Ivf(100, (1, 2)), Hnsw(16, 40))
    done = export(vector_model(50, 3000, 16), Faiss(kinds), tmp_path / "out")
    assert done.measured.settings["index"] == "hnsw"
    read = faiss.downcast_index(faiss.read_index(str(tmp_path / "out" / "index.faiss")))
    assert read.hnsw.efSearch == done.measured.settings["ef_search"]
