"""Whether the backends of the unlabelled term train models of the same quality.

    python -m ratiorec_lab.studies.backends gowalla --device cuda

The same preset from the same seed for the same steps, with each backend; R@20 and nDCG@20 on the
test part, which chooses nothing. Prints every run, and for every seed how far a backend's R@20 is
from the reference's.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Dataset
from ratiorec.kernels.unlabelled import BACKENDS
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.training.loop import GradientTraining
from ratiorec.training.team import evaluate_on_device
from ratiorec_lab.bench.clock import seconds_of
from ratiorec_lab.bench.step import trained
from ratiorec_lab.studies.study import parser, tell

REFERENCE = "reference"


def main() -> None:
    """Train with every backend and every seed."""
    options = parser(__doc__)
    options.add_argument("data", help="name of a benchmark with a test part")
    options.add_argument("--preset", default="dregn-cf-fast")
    options.add_argument("--steps", type=int, default=120)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--device", default="cpu")
    options.add_argument("--backends", nargs="+", choices=BACKENDS)
    asked = options.parse_args()
    device = torch.device(asked.device)
    usual = [REFERENCE, "tiled", *(["triton"] if device.type == "cuda" else [])]
    dataset = load(asked.data)
    runs = [
        run(dataset, asked.preset, backend, seed, asked.steps, device)
        for seed in asked.seeds
        for backend in asked.backends or usual
    ]
    tell(
        {
            "data": asked.data,
            "preset": asked.preset,
            "steps": asked.steps,
            "device": device.type,
            "runs": runs,
            "from_reference": from_reference(runs),
        }
    )


def run(
    dataset: Dataset, name: str, backend: Any, seed: int, n_steps: int, device: torch.device
) -> dict[str, Any]:
    """One model, its figures and its seconds."""
    settings = trained(name)
    assert isinstance(settings.risk, DensityRatio)
    assert dataset.test is not None
    settings = replace(settings, risk=replace(settings.risk, backend=backend))
    rng = np.random.default_rng(seed)
    runs: list[GradientTraining] = []

    def train() -> None:
        runs.append(GradientTraining.start(dataset.train, settings, rng=rng, device=device))
        while runs[0].step < n_steps:
            for _ in runs[0].one_epoch(n_steps):
                pass

    seconds = round(seconds_of(train, device), 3)
    metrics = evaluate_on_device(runs[0].scorer(), dataset.train, dataset.test, device=device)
    print(f"{backend}, seed {seed}: {metrics}, {seconds} s", file=sys.stderr, flush=True)
    return {"backend": backend, "seed": seed, "seconds": seconds, **metrics}


def from_reference(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Differences of R@20, a number for every seed."""
    reference = {run["seed"]: run["recall@20"] for run in runs if run["backend"] == REFERENCE}
    others = dict.fromkeys(run["backend"] for run in runs if run["backend"] != REFERENCE)
    return {
        name: [
            round(run["recall@20"] - reference[run["seed"]], 6)
            for run in runs
            if run["backend"] == name and run["seed"] in reference
        ]
        for name in others
    }


if __name__ == "__main__":
    main()
