"""The time of one training step of every preset that descends, in one run.

    python benchmarks/steps.py gowalla --device cuda
    python benchmarks/steps.py ml-100k --presets lightgcn,dregn-cf
    python benchmarks/steps.py gowalla --presets lightgcn+experiments/lightgcn-published.toml

Where a step can be recorded as a CUDA graph, it is measured replayed and as it is. The floor of
a step on the graph is its sparse products alone, forwards and backwards; that of others is not
known. Times are means over whole epochs, sampling and copying of batches included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ratiorec.blocks import fixed_blocks
from ratiorec.config import resolve
from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.lightgcn import LightGCN
from ratiorec.encoders.ngcf import NGCF
from ratiorec.presets import PRESETS
from ratiorec.settings import Settings
from ratiorec.training import Descent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--presets", default=",".join(descending()))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=300, help="at least so many")
    asked = parser.parse_args()
    data, device = load(asked.data).train, torch.device(asked.device)
    cases: list[dict[str, Any]] = []
    with fixed_blocks() if device.type == "cpu" else nullcontext():
        for name in asked.presets.split(","):
            cases += measure(name, data, device, asked.steps)
            print(f"{name}: {1000 * cases[-1]['seconds']:.2f} ms", file=sys.stderr)
    print(json.dumps({"device": asked.device, "size": size_of(data), "cases": cases}, indent=2))


def descending() -> list[str]:
    names = [name for name, settings in PRESETS.items() if isinstance(settings, Settings)]
    return [*names, "lightgcn+experiments/lightgcn-published.toml"]


def settings_of(name: str) -> Settings:
    """A preset, or a preset + a file that is laid over it."""
    preset, _, file = name.partition("+")
    settings = resolve(PRESETS[preset], file=Path(file) if file else None, assignments=())
    assert isinstance(settings, Settings)
    return settings


def size_of(data: Interactions) -> dict[str, int]:
    return {"users": data.n_users, "items": data.n_items, "pairs": data.n_pairs}


def measure(name: str, data: Interactions, device: torch.device, n_steps: int) -> list[Any]:
    settings = settings_of(name)
    run = settings.descent(data, rng=np.random.default_rng(0), device=device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = _memory(device)
    as_it_is = run._take_step == run._eager_step
    seconds = {"as it is" if as_it_is else "graph": _seconds_per_step(run, n_steps)}
    if not as_it_is:
        run._take_step = run._eager_step
        seconds["as it is"] = _seconds_per_step(run, n_steps)
    floor = _sparse_products(run, settings)
    return [
        {
            "name": name,
            "execution": execution,
            "device": device.type,
            "steps_per_epoch": run.n_steps,
            "seconds": round(value, 6),
            "floor_seconds": floor,
            "peak_extra_mb": round(_memory(device) - before, 1),
            "ratio_to_reference": round(value / seconds["as it is"], 4),
        }
        for execution, value in reversed(seconds.items())
    ]


def _seconds_per_step(run: Descent, n_steps: int) -> float:
    """The mean over as many whole epochs as hold so many steps, after a first one."""
    n_epochs = -(-n_steps // run.n_steps)
    for n in (1, n_epochs):
        started, first = time.perf_counter(), run.step
        for _ in range(n):
            for _ in run.one_epoch(sys.maxsize):
                pass  # reading the risks has waited for the steps
        seconds = (time.perf_counter() - started) / (run.step - first)
    return seconds


def _sparse_products(run: Descent, settings: Settings) -> float | None:
    if not isinstance(settings.encoder, LightGCN | NGCF):
        return None
    graph, n_products = run.encoder.graph, 2 * settings.encoder.n_layers
    table = torch.ones(graph.n_nodes, settings.encoder.dimension, device=run.device)
    n_rounds = 20
    with torch.no_grad():
        for _ in range(2):
            if run.device.type == "cuda":
                torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(n_rounds):
                for _ in range(n_products):
                    graph @ table
            if run.device.type == "cuda":
                torch.cuda.synchronize()
    return round((time.perf_counter() - started) / n_rounds, 6)


def _memory(device: torch.device) -> float:
    from ratiorec.machine import peak_memory_mb

    on_card = device.type == "cuda"
    return torch.cuda.max_memory_allocated() / 2**20 if on_card else peak_memory_mb()


if __name__ == "__main__":
    main()
