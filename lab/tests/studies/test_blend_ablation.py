from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from ratiorec.config import settings_in
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.synthetic import Synthetic
from ratiorec.kernels.gpu_topk import scores_on
from ratiorec.presets import PRESETS
from ratiorec.scorers import Blend
from ratiorec.settings import SolverSettings
from ratiorec.solvers.settings import WMF, ItemKNN
from ratiorec.training import auto
from ratiorec.training.blending import CandidateScores
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
from ratiorec.training.portfolio import Candidate
from ratiorec.training.team import evaluate_on_device
from ratiorec_lab.studies import blend_ablation

CPU = torch.device("cpu")
WMF_SMALL = (SolverSettings(WMF(dimension=6, n_sweeps=4)),)
CANDIDATES = [
    Candidate("popularity", (PRESETS["popularity"],), is_floor=True),
    Candidate("item-knn", (SolverSettings(ItemKNN(40)),)),
    Candidate("wmf", WMF_SMALL),
    Candidate("wmf-2", WMF_SMALL, seed=1),
]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Synthetic(n_users=200, n_items=80, mean_pairs=16)(rng=np.random.default_rng(1)).dataset


@pytest.fixture(scope="module")
def run(dataset: Dataset) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "portfolio", lambda data, device: CANDIDATES)
        options = FitOptions(max_seconds=60, validation_by="random")
        return blend_ablation.ablation(dataset, options, seed=0, device=CPU)


def test_every_member_is_refitted_and_judged_alone(run: dict[str, Any], dataset: Dataset) -> None:
    assert [member["name"] for member in run["members"]] == [one.name for one in CANDIDATES]
    assert all(member["test"] for member in run["members"])
    for member in run["members"][1:]:  # not popularity, whose ties may fall otherwise
        model = fit(
            dataset,
            settings=settings_in(member["settings"]),
            seed=member["seed"],
            device="cpu",
            options=FitOptions(validation=0),
        )
        # ranked by standardised scores: rounding may turn neighbours in a list round
        assert member["test"] == pytest.approx(model.card["test"], abs=2e-3)


def test_the_blend_has_the_figures_of_the_model_that_auto_makes(
    run: dict[str, Any], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "portfolio", lambda data, device: CANDIDATES)
    model = fit(dataset, device="cpu", options=FitOptions(max_seconds=60, validation_by="random"))
    assert run["chosen"]["validation"] == model.card["validation"]
    assert run["chosen"]["test_of_model"] == model.card["test"]
    assert run["chosen"]["test"] == pytest.approx(model.card["test"], abs=2e-3)
    weights = {member["name"]: member["weight"] for member in model.card["members"]}
    assert weights == {member["name"]: member["weight"] for member in run["members"]}


def test_a_member_or_all_that_are_alike_are_left_out(run: dict[str, Any]) -> None:
    names = [one.name for one in CANDIDATES]
    found = {line["left_out"]: line for line in run["without"]}
    assert list(found) == [*names, "wmf and wmf-2"]
    for left_out, line in found.items():
        assert not line["weights"].keys() & set(left_out.split(" and "))
        assert sum(line["weights"].values()) == pytest.approx(1, abs=1e-3)
    unused = next(m["name"] for m in run["members"] if not m["weight"])
    assert found[unused]["test"] == run["chosen"]["test"]


def test_what_is_left_out_has_no_say_in_the_weights() -> None:
    rng = np.random.default_rng(0)
    relevant = rng.random((50, 60)) < 0.1
    n_relevant = np.maximum(relevant.sum(1), 1)
    good, noise = relevant.astype(np.float32), rng.random((50, 60), np.float32)
    scores = torch.from_numpy(np.stack([noise, good, good]))
    table = CandidateScores(scores, torch.from_numpy(relevant), n_relevant)
    chosen = np.array([0.0, 0.5, 0.5])
    names = ["noise", "good", "twin"]
    found = blend_ablation.without_each(names, table, chosen, [[0], [1, 2]])
    weights = {left_out: line.weights for left_out, line in found.items()}
    assert weights == {
        "noise": {"good": 0.5, "twin": 0.5},
        "good": {"twin": 1.0},
        "twin": {"good": 1.0},
        "good and twin": {"noise": 1.0},
    }
    assert found["twin"].validation == table.metrics(np.array([0.0, 1.0, 0.0]))


@pytest.mark.parametrize("as_on_a_gpu", [False, True])
def test_several_blends_are_judged_in_blocks_as_one_would_be(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, as_on_a_gpu: bool
) -> None:
    if as_on_a_gpu:
        monkeypatch.setattr(blend_ablation, "_scores", scores_on)
    monkeypatch.setattr(blend_ablation, "_SCORES_AT_ONCE", 7 * dataset.train.n_items)
    options = FitOptions(validation=0)
    members = [
        fit(dataset.train, preset=name, device="cpu", options=options).scorer
        for name in ("item-knn", "ease")
    ]
    weights = np.array([0.25, 0.75])
    found = blend_ablation.judge(members, [weights, np.array([0.0, 1.0])], dataset, CPU)
    assert dataset.test is not None
    for figures, model in zip(
        found, (Blend(tuple(members), weights.astype(np.float32)), members[1]), strict=True
    ):
        wanted = evaluate_on_device(model, dataset.train, dataset.test, device=CPU)
        assert figures == pytest.approx(wanted, abs=1e-3)


def test_the_command_runs_every_way_with_every_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dataset: Dataset
) -> None:
    monkeypatch.setattr(auto, "portfolio", lambda data, device: CANDIDATES[:2])
    train = dataset.train
    ordered = Interactions.from_indices(
        train.users,
        train.items,
        train.pair_users,
        train.indices,
        order=np.arange(train.n_pairs),
    )
    monkeypatch.setattr(blend_ablation, "load", lambda name: Dataset(name, ordered))
    words = ["--data", "small", "--seeds", "0,3", "--validation-by", "random,last"]
    monkeypatch.setattr("sys.argv", ["blend_ablation", *words, "--device", "cpu"])
    blend_ablation.main()
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["dataset"], found["part"]) == ("small", "random-last")
    ran = [(run["validation_by"], run["seed"]) for run in found["runs"]]
    assert ran == [("random", 0), ("random", 3), ("last", 0), ("last", 3)]
    assert "without item-knn" in told.err
