from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import LeaveLast, RatioSplit
from ratiorec.data.vocabulary import Vocabulary
from ratiorec_lab import studies
from ratiorec_lab.studies import backends
from ratiorec_lab.studies.__main__ import main as record_study
from ratiorec_lab.studies.public_splits import place_and_share
from ratiorec_lab.studies.study import measured

NAMES = [
    module.name
    for module in pkgutil.iter_modules(studies.__path__)
    if module.name not in ("__main__", "study")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_says_how_it_is_run(name: str) -> None:
    if name == "unlabelled_gpu":
        pytest.importorskip("triton")
    if name == "fold_in":
        pytest.importorskip("threadpoolctl")
    doc = importlib.import_module(f"ratiorec_lab.studies.{name}").__doc__
    assert doc is not None
    assert f"\n    python -m ratiorec_lab.studies.{name}" in doc


def test_a_record_holds_what_a_study_printed_and_how_it_was_obtained(tmp_path: Path) -> None:
    sizes = ("--users=50", "--items=40", "--pairs=500")
    record = [sys.executable, "-m", "ratiorec_lab.studies", "graph_memory", *sizes]
    done = subprocess.run(
        record, check=False, capture_output=True, text=True, cwd=_with_results(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results" / "bench-graph_memory.json").read_text())
    assert found.keys() == {"target", "result", "machine", "versions", "commit", "command"}
    assert found["result"] == json.loads(done.stdout)
    assert found["result"]["size"] == {"users": 50, "items": 40, "pairs": 500}
    assert found["command"] == "python -m ratiorec_lab.studies.graph_memory " + " ".join(sizes)


def test_a_record_is_named_by_its_data_and_what_is_one_already_is_not_kept_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(_with_results(tmp_path))

    def told(result: dict[str, str]) -> list[str]:
        done = subprocess.CompletedProcess([], 0, stdout=json.dumps(result))
        monkeypatch.setattr(subprocess, "run", lambda *words, **options: done)
        record_study("some")
        return [path.name for path in (tmp_path / "results").iterdir()]

    assert told({"target": "presets", "dataset": "gowalla"}) == []
    assert told({"dataset": "gowalla", "part": "last"}) == ["bench-some-gowalla-last.json"]


def _with_results(folder: Path) -> Path:
    (folder / "results").mkdir()
    return folder


def test_backends_are_compared_seed_by_seed_with_the_reference() -> None:
    runs = [
        {"backend": backend, "seed": seed, "recall@20": recall}
        for backend, seed, recall in [
            ("reference", 0, 0.1),
            ("tiled", 0, 0.125),
            ("reference", 1, 0.2),
            ("tiled", 1, 0.2),
            ("tiled", 2, 0.3),  # without a reference
        ]
    ]
    assert backends.from_reference(runs) == {"tiled": [0.025, 0.0]}


def test_the_memory_of_a_process_is_measured_with_its_time() -> None:
    found = measured(lambda: bytearray(2**20))
    assert 0 <= found["seconds"] < 60
    assert 0 < found["loaded_mb"] <= found["peak_mb"]


def test_a_test_part_from_the_ends_of_the_lines_is_told_from_a_random_one() -> None:
    rng = np.random.default_rng(0)
    fashion = rng.permutation(60)  # when an item is taken, roughly
    lines = [
        sorted(
            rng.choice(60, 20, replace=False), key=lambda item: fashion[item] + rng.normal(0, 15)
        )
        for _ in range(300)
    ]
    users = np.repeat(np.arange(300), 20)
    whole = Interactions.from_indices(
        Vocabulary.dense(300, kind="user"),
        Vocabulary.dense(60, kind="item"),
        users,
        np.concatenate(lines),
        order=np.arange(6000),
    )
    found = {}
    for splitter in (LeaveLast(fraction=0.2), RatioSplit(0.2)):
        split = splitter(whole, rng=rng)
        found[type(splitter)] = place_and_share(split.train, split.held_out)
    assert found[LeaveLast]["correlation"] > 0.8
    assert abs(found[RatioSplit]["correlation"]) < 0.5
    assert found[LeaveLast]["items"] == 60


@pytest.mark.parametrize("upper_bound", [0.05, 70.0])  # the correction takes over, or is idle
def test_a_base_of_low_rank_is_telescoped_as_more_dimensions_would_be(upper_bound: float) -> None:
    torch = pytest.importorskip("torch")
    from ratiorec.batches.users import UserEpochs
    from ratiorec.losses.density_ratio import DensityRatio
    from ratiorec.shapes import Embeddings
    from ratiorec_lab.studies.telescoping import Telescoped

    data = _some_pairs()
    batch = UserEpochs(data, 25).batch(np.arange(5, 30))
    draw = torch.Generator().manual_seed(0)
    users, items, of_users, of_items = (
        torch.randn(n, 4, generator=draw, dtype=torch.float64).requires_grad_()
        for n in (25, data.n_items, data.n_users, data.n_items)
    )
    base = (of_users @ of_items.T).detach()
    wider = Embeddings(
        torch.cat([users, of_users[batch.users]], 1), torch.cat([items, of_items], 1)
    )
    found = Telescoped(base=base, upper_bound=upper_bound)(Embeddings(users, items), batch)
    expected = DensityRatio(upper_bound=upper_bound, backend="reference")(wider, batch)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for one, other in zip(
        torch.autograd.grad(found, [users, items]),
        torch.autograd.grad(expected, [users, items]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


def test_users_who_choose_a_telescoped_model_do_not_judge_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("torch")
    from ratiorec_lab.studies import telescoping

    monkeypatch.setattr(telescoping, "KAPPAS", (0.0, 0.3))
    monkeypatch.setattr(telescoping, "L2", (0.01,))
    monkeypatch.setattr(telescoping, "MOST_EPOCHS", 3)
    halves = telescoping.Halves.of(_some_pairs(), "random", np.random.default_rng(0))
    both = np.concatenate([halves.choosing, halves.judging])
    assert sorted(both) == np.flatnonzero(halves.held_out.user_degrees).tolist()
    found = telescoping.compare(halves, seed=0, rate=0.03)
    assert found["users"]["judging"] == len(halves.judging) < len(both)
    judged = {model: figures["ndcg@20"] for model, figures in found["judged"].items()}
    _, base, _ = telescoping.find_base(halves)
    of_judges = halves.table([base], halves.judging).metrics(np.ones(1))
    assert judged["base"] == pytest.approx(of_judges["ndcg@20"])
    assert judged["base"] != pytest.approx(halves.chosen_by(base))
    for gap in found["differences"]:
        assert gap["mean"] == pytest.approx(judged[gap["of"]] - judged[gap["from"]])
    assert judged["telescoped"] != judged["plain"]
    assert [one["kappa"] for one in found["trained"]] == [0.0, 0.3]
    assert found["telescoped"]["kappa"] == 0.3


def test_users_drawn_for_telescoping_bring_the_items_that_several_have() -> None:
    pytest.importorskip("torch")
    from ratiorec_lab.studies.telescoping import LEAST_PAIRS, some_users

    whole = _some_pairs()
    drawn = some_users(whole, 20, np.random.default_rng(1))
    assert 0 < drawn.n_users <= 20
    assert 0 < drawn.n_items < whole.n_items
    assert drawn.item_degrees.min() >= LEAST_PAIRS


def _some_pairs() -> Interactions:
    rng = np.random.default_rng(0)
    popularity = 1 / np.arange(1, 41)
    lines = [rng.choice(40, 10, replace=False, p=popularity / popularity.sum()) for _ in range(60)]
    return Interactions.from_indices(
        Vocabulary.dense(60, kind="user"),
        Vocabulary.dense(40, kind="item"),
        np.repeat(np.arange(60), 10),
        np.concatenate(lines),
    )


def test_a_user_is_clamped_below_a_bound_of_the_users_own() -> None:
    import torch

    from ratiorec.losses.density_ratio import DensityRatio
    from ratiorec.settings import UserBatches
    from ratiorec.shapes import Embeddings
    from ratiorec_lab.studies.clamp import of_batch, shares
    from support.small_data import random_interactions

    rng = np.random.default_rng(0)
    data = random_interactions(rng, n_users=9, n_items=7, n_pairs=30)
    batch = next(iter(UserBatches(9)(data, device=torch.device("cpu"))(rng)))
    users = torch.from_numpy(rng.normal(0, 2, (len(batch.users), 3))).float()
    items = torch.from_numpy(rng.normal(0, 2, (7, 3))).float()
    found = of_batch(Embeddings(users, items), batch)

    def risk(bound: float) -> float:
        return float(DensityRatio(upper_bound=bound)(Embeddings(users, items), batch))

    plain, top = risk(float("inf")), float(found.max())
    assert risk(1.001 * top) == pytest.approx(plain, rel=1e-6)  # it acts on nobody
    assert risk(0.9 * top) > plain * (1 + 1e-6 if plain > 0 else 1 - 1e-6)
    assert shares(found, (0.9 * top,))["clamped"][f"{0.9 * top:g}"] > 0
