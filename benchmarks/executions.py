"""Whether the executions of the unlabelled term train models of the same quality.

    python benchmarks/executions.py gowalla --device cuda

The same preset from the same seed for the same steps, with each execution; R@20 and nDCG@20 on the
test part, which chooses nothing. Prints one JSON object with every run, and for every seed how far
an execution's R@20 is from the reference's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Dataset
from ratiorec.kernels.unlabelled import BACKENDS
from ratiorec.losses.density_ratio import DensityRatio
from ratiorec.presets import preset
from ratiorec.settings import Settings
from ratiorec.training.fit import evaluate_on_device

REFERENCE = "reference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="name of a benchmark with a test part")
    parser.add_argument("--preset", default="dregn-cf-fast")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--executions", nargs="+", choices=BACKENDS)
    options = parser.parse_args()
    device = torch.device(options.device)
    usual = [REFERENCE, "tiled", *(["triton"] if device.type == "cuda" else [])]
    dataset = load(options.data)
    runs = [
        train(dataset, options.preset, execution, seed, options.steps, device)
        for seed in options.seeds
        for execution in options.executions or usual
    ]
    report = {
        "data": options.data,
        "preset": options.preset,
        "steps": options.steps,
        "device": device.type,
        "runs": runs,
        "from_reference": from_reference(runs),
    }
    print(json.dumps(report, indent=2))


def train(
    dataset: Dataset, name: str, execution: str, seed: int, n_steps: int, device: torch.device
) -> dict[str, Any]:
    settings = preset(name)
    assert isinstance(settings, Settings)
    assert isinstance(settings.risk, DensityRatio)
    assert dataset.test is not None
    settings = replace(settings, risk=replace(settings.risk, execution=BACKENDS[execution]))
    started = time.perf_counter()
    run = settings.descent(dataset.train, rng=np.random.default_rng(seed), device=device)
    while run.step < n_steps:
        for _ in run.one_epoch(n_steps):
            pass
    seconds = round(time.perf_counter() - started, 3)
    metrics = evaluate_on_device(run.scorer(), dataset.train, dataset.test, device=device)
    print(f"{execution}, seed {seed}: {metrics}, {seconds} s", file=sys.stderr, flush=True)
    return {"execution": execution, "seed": seed, "seconds": seconds, **metrics}


def from_reference(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Differences of R@20, a number for every seed."""
    reference = {run["seed"]: run["recall@20"] for run in runs if run["execution"] == REFERENCE}
    others = dict.fromkeys(run["execution"] for run in runs if run["execution"] != REFERENCE)
    return {
        name: [
            round(run["recall@20"] - reference[run["seed"]], 6)
            for run in runs
            if run["execution"] == name and run["seed"] in reference
        ]
        for name in others
    }


if __name__ == "__main__":
    main()
