"""The library computes what `examples/paper.py` does, which is the paper's method in one file."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import math
import re
import runpy
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ratiorec.batches.dealing import inclusion_probability
from ratiorec.batches.users import Batch, UserEpochs
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Graph, LightGCNEncoder
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.scorers import InnerProduct
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import Settings, Training, UserBatches
from ratiorec.training.loop import GradientTraining
from support.small_data import in_double_precision, interactions, random_interactions

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "examples" / "paper.py"
CPU = torch.device("cpu")
N_USERS, N_ITEMS, DIMENSION = 40, 30, 8


def load() -> Any:
    spec = importlib.util.spec_from_file_location("paper_example", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


paper = load()


@pytest.fixture
def data() -> Interactions:
    rng = np.random.default_rng(1)
    return random_interactions(rng, n_users=N_USERS, n_items=N_ITEMS, n_pairs=200)


@pytest.fixture
def users() -> np.ndarray:
    return np.random.default_rng(2).permutation(N_USERS)[:12]


def positives_of(data: Interactions) -> list[np.ndarray]:
    return [data.positives(user).astype(np.int64) for user in range(data.n_users)]


def adjacency_of(data: Interactions) -> Tensor:
    graph: Tensor = paper.graph(positives_of(data), data.n_items)
    return graph.double()


def example_batch(data: Interactions, users: np.ndarray) -> Any:
    batch = paper.batch_of(users, positives_of(data), torch.from_numpy(data.item_degrees))
    return batch._replace(
        liked=batch.liked.double(), prior=batch.prior.double(), inclusion=batch.inclusion.double()
    )


def random_table(scale: float) -> Tensor:
    drawn = np.random.default_rng(3).normal(0.1, scale, (N_USERS + N_ITEMS, DIMENSION))
    return torch.from_numpy(drawn).requires_grad_()


def library_batch(data: Interactions, users: np.ndarray) -> Batch:
    return in_double_precision(UserEpochs(data, len(users)).batch(users))


def library_encoder(data: Interactions, table: Tensor) -> LightGCNEncoder:
    graph = Graph(data, self_loops=True, device=CPU)
    return LightGCNEncoder(table.detach().clone(), graph, data.n_users, 3)


def gradient(value: Tensor, table: Tensor) -> Tensor:
    return torch.autograd.grad(value, table)[0]


def assert_same(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def test_the_file_is_short_and_needs_torch_and_numpy_alone() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"numpy", "torch"}


def test_every_formula_that_it_cites_is_in_the_theory() -> None:
    cited = re.findall(r"\(([A-Z]\d+(?:, [A-Z]\d+)*)\)", SOURCE.read_text(encoding="utf-8"))
    ids = {identifier for group in cited for identifier in group.split(", ")}
    assert {"E1", "E2", "E3", "P1", "P2", "W3", "R2", "R3", "R6", "C2", "C3", "C4", "M2"} <= ids
    theory = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert ids <= set(re.findall(r"^### ([A-Z]\d+) ", theory, re.MULTILINE))


def test_a_folder_is_read_user_by_user(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 3 1\n2 0\n")
    (tmp_path / "test.txt").write_text("2 4\n0\n3 1 1\n")
    train, test, n_items = paper.read(tmp_path)
    assert [items.tolist() for items in train] == [[1, 3], [], [0], []]
    assert [items.tolist() for items in test] == [[], [], [4], [1]]
    assert n_items == 5


def test_the_graph_and_its_layers_are_the_same(data: Interactions) -> None:
    table, graph = random_table(1.0).detach(), Graph(data, self_loops=True, device=CPU)
    adjacency = adjacency_of(data)
    assert_same(adjacency @ table, graph @ table)
    assert_same(paper.propagate(adjacency, table), graph.mean_of_layers(table, 3))


@pytest.mark.parametrize("n_drawn", [1, 7, 20, 40])
def test_candidates_have_the_same_inclusion_probability(n_drawn: int) -> None:
    degrees = np.arange(41)  # from an item that nobody has to one that all have
    expected = inclusion_probability(degrees, n_users=40, n_drawn=n_drawn)
    found = paper.inclusion_probability(torch.from_numpy(degrees), 40, n_drawn)
    assert_same(found, torch.from_numpy(expected))


def test_a_batch_is_the_same(data: Interactions, users: np.ndarray) -> None:
    ours = UserEpochs(data, len(users)).batch(users)
    batch = paper.batch_of(users, positives_of(data), torch.from_numpy(data.item_degrees))
    for found, expected in (
        (batch.users, ours.users),
        (batch.items, ours.candidates),
        (batch.liked.nonzero(), torch.stack([ours.rows, ours.columns], 1)),
        (batch.prior, ours.prior),
        (batch.inclusion, ours.inclusion),
    ):
        torch.testing.assert_close(found, expected)


def is_held(row: int, vectors: Tensor, batch: Any, upper_bound: float) -> bool:
    """Whether the non-negative correction is at work for one user of a batch."""
    user, items = vectors[batch.users[[row]]], vectors[N_USERS + batch.items]
    own = batch._replace(liked=batch.liked[[row]], prior=batch.prior[[row]])
    return bool(paper.risk(user, items, own, upper_bound) > paper.risk(user, items, own, math.inf))


@pytest.mark.parametrize(
    ("scale", "upper_bound", "n_held"),
    [(0.01, 70.0, 0), (1.0, 70.0, 0), (1.0, 2.0, 1), (4.0, 2.0, 2)],
)
def test_risk_and_gradient_are_the_same(
    data: Interactions, users: np.ndarray, scale: float, upper_bound: float, n_held: int
) -> None:
    table, batch = random_table(scale), example_batch(data, users)
    vectors = paper.propagate(adjacency_of(data), table)
    found = paper.risk(vectors[batch.users], vectors[N_USERS + batch.items], batch, upper_bound)
    encoder, ours = library_encoder(data, table), library_batch(data, users)
    expected = DensityRatio(upper_bound=upper_bound)(encoder(ours), ours)
    assert_same(found, expected, 1e-9)
    assert_same(gradient(found, table), gradient(expected, encoder.table), 1e-9)
    assert sum(is_held(row, vectors, batch, upper_bound) for row in range(len(users))) == n_held


def test_the_upper_bound_is_the_same() -> None:
    default = inspect.signature(paper.risk).parameters["upper_bound"].default
    assert default == DensityRatio().upper_bound


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_what_is_minimised_is_the_same_with_its_l2_term(
    data: Interactions, users: np.ndarray, dtype: torch.dtype, tolerance: float
) -> None:
    table = random_table(1.0).detach().to(dtype).requires_grad_()
    batch, adjacency = example_batch(data, users), adjacency_of(data).to(dtype)
    encoder, ours = library_encoder(data, table), library_batch(data, users)
    if dtype == torch.float32:
        batch = paper.batch_of(users, positives_of(data), torch.from_numpy(data.item_degrees))
        ours = UserEpochs(data, len(users)).batch(users)
    found = paper.objective(table, adjacency, N_USERS, batch, 0.5)
    expected = DensityRatio()(encoder(ours), ours) + 0.5 * encoder.penalty(ours)
    assert_same(found, expected, tolerance)
    assert_same(gradient(found, table), gradient(expected, encoder.table), tolerance)


class DoubleEpochs(UserEpochs):
    """The same batches in double precision."""

    def batch(self, users: Any) -> Batch:
        return in_double_precision(super().batch(users))


def test_steps_of_adam_are_the_same(data: Interactions) -> None:
    table = random_table(1.0)
    settings = Training(learning_rate=0.01, l2=0.06)
    run = GradientTraining(
        library_encoder(data, table),
        DensityRatio(),
        DoubleEpochs(data, 12),
        settings,
        histories=UserItems.of(data),
        rng=np.random.default_rng(5),
        device=CPU,
    )
    risks = [risk for risks in run.one_epoch(until=4) for risk in risks]
    optimizer, rng = torch.optim.Adam([table], lr=0.01), np.random.default_rng(5)
    batches = np.array_split(rng.permutation(N_USERS), 4)
    assert len(risks) == len(batches)
    for users in batches:
        batch = example_batch(data, users)
        optimizer.zero_grad()
        paper.objective(table, adjacency_of(data), N_USERS, batch, 0.06).backward()
        optimizer.step()
    assert_same(table.detach(), run.encoder.table.detach(), 1e-9)


def test_training_is_the_same_from_the_same_seed(data: Interactions) -> None:
    options = Namespace(seed=7, device="cpu", rate=0.01, l2=0.06, batch=12)
    *_, (epoch, users, items) = paper.training(positives_of(data), N_ITEMS, 3, options)
    settings = Settings(batches=UserBatches(12, min_steps_per_epoch=10), training=Training(l2=0.06))
    run = GradientTraining.start(data, settings, rng=np.random.default_rng(7), device=CPU)
    for _ in range(3):
        for _ in run.one_epoch(until=1000):
            pass
    scorer = run.scorer()
    assert epoch == run.epoch
    assert_same(users.numpy(), scorer.users, 1e-5)
    assert_same(items.numpy(), scorer.items, 1e-5)


@pytest.mark.parametrize("n_items", [12, 60])
def test_metrics_are_the_same_where_scores_tie(n_items: int) -> None:
    rng = np.random.default_rng(8)
    scores = rng.integers(0, 4, (1100, n_items)).astype(np.float32)  # more than one block of users
    owned = rng.random(scores.shape) < 0.3
    owned[:, 0] = False
    judged = ~owned & (rng.random(scores.shape) < 0.1)
    train, test = (
        interactions(*np.nonzero(x), n_users=1100, n_items=n_items) for x in (owned, judged)
    )
    vectors = torch.from_numpy(scores), torch.eye(n_items)
    found = paper.metrics(*vectors, positives_of(train), positives_of(test))
    report = evaluate(InnerProduct(*(x.numpy() for x in vectors)), UserItems.of(train), test)
    assert found == pytest.approx((report.value("recall@20"), report.value("ndcg@20")), abs=1e-12)


def write_folder(folder: Path, data: Interactions) -> None:
    """The last item of each user is for the test."""
    lines = [[user, *data.positives(user).tolist()] for user in range(data.n_users)]
    for name, part in (
        ("train.txt", [line[:-1] for line in lines]),
        ("test.txt", [[line[0], line[-1]] for line in lines]),
    ):
        (folder / name).write_text("".join(" ".join(map(str, line)) + "\n" for line in part))


def test_the_command_prints_a_line_of_json(
    tmp_path: Path,
    data: Interactions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_folder(tmp_path, data)
    options = ["--epochs", "6", "--json", "--validation", "0.2"]
    monkeypatch.setattr(sys, "argv", [str(SOURCE), str(tmp_path), *options])
    runpy.run_path(str(SOURCE), run_name="__main__")
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert list(result) == ["recall@20", "ndcg@20", "seconds", "epochs"]
    assert 0 < result["ndcg@20"] <= 1
    assert result["epochs"] in (5, 6)
    progress = [line for line in err.splitlines() if "steps/s" in line]
    assert len(progress) == 6 + result["epochs"]
    assert all(line.endswith("s left") for line in progress)
