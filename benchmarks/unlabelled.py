"""The unlabelled term of one step, value and gradient, by every execution in the same run.

    python benchmarks/unlabelled.py                # a batch of Gowalla
    python benchmarks/unlabelled.py --users 500 --items 5000
    python benchmarks/unlabelled.py --device cuda

`reference` works on whole matrices and leaves the gradient to autograd. Each execution runs in a
process of its own, so that the peak memory is its own, and in turn, so that a busy moment of the
machine meets all of them. The floor is the three matrix products that all need, done by one call
each, with all numbers of the matrix kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ratiorec.blocks import fixed_blocks
from ratiorec.machine import peak_memory_mb
from ratiorec.risk.bregman import LEAST_SQUARES
from ratiorec.risk.fused.choice import EXECUTIONS
from ratiorec.risk.fused.mean import corrected_mean
from ratiorec.risk.fused.term import UnlabelledTerm
from ratiorec.scores import SOFTPLUS

ON_PROCESSOR = ("reference", "tiled", "floor")
ON_CARD = ("reference", "tiled", "triton", "floor")


def main() -> None:
    options = read_options()
    if options.only:
        print(json.dumps(measure(options)))
        return
    names = ON_PROCESSOR if options.device == "cpu" else ON_CARD
    rounds = [{name: in_own_process(name) for name in names} for _ in range(options.rounds)]
    cases = {
        name: min((r[name] for r in rounds), key=lambda case: case["seconds"]) for name in names
    }
    for case in cases.values():
        case["floor_seconds"] = cases["floor"]["seconds"]
        case["ratio_to_reference"] = round(case["seconds"] / cases["reference"]["seconds"], 4)
    report = {
        "cases": list(cases.values()),
        "flops": 3 * 2 * options.users * options.items * options.dimension,
        "matrix_bytes": 4 * options.users * options.items,
    }
    print(json.dumps(report, indent=2))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in [
        ("users", 2488),
        ("items", 28_000),
        ("dimension", 64),
        ("repeats", 5),
        ("rounds", 3),
    ]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=ON_CARD)
    return parser.parse_args()


def in_own_process(name: str) -> dict[str, Any]:
    command = [sys.executable, *sys.argv, "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    users, items = (
        (torch.randn(n, options.dimension, generator=generator) * 0.3)
        .to(options.device)
        .requires_grad_()
        for n in (options.users, options.items)
    )
    work = floor(users, items) if options.only == "floor" else step(options.only, users, items)
    on_card = options.device == "cuda"
    context: AbstractContextManager[None] = nullcontext()
    if options.only == "tiled" and not on_card:
        context = fixed_blocks()
    before = torch.cuda.memory_allocated() / 2**20 if on_card else peak_memory_mb()
    with context:
        seconds = min(timed(work, on_card=on_card) for _ in range(options.repeats))
    peak = torch.cuda.max_memory_allocated() / 2**20 if on_card else peak_memory_mb()
    return {
        "name": "unlabelled",
        "execution": options.only,
        "device": options.device,
        "size": {name: getattr(options, name) for name in ("users", "items", "dimension")},
        "seconds": round(seconds, 6 if on_card else 4),
        "peak_extra_mb": round(peak - before, 1),
    }


def timed(work: Callable[[], None], *, on_card: bool) -> float:
    if on_card:
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if on_card:
        torch.cuda.synchronize()
    return time.perf_counter() - started


def step(name: str, users: Tensor, items: Tensor) -> Callable[[], None]:
    """Least squares, softplus and hard-sample weights, as in the preset `dregn-cf`."""
    term = UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.ones_like(items[:, 0]).detach(), 1.0)
    bound = torch.zeros_like(users[:, 0]).detach()

    def work() -> None:
        users.grad = items.grad = None
        corrected_mean(users, items, term, bound, execution=EXECUTIONS[name]).backward()

    return work


def floor(users: Tensor, items: Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def work() -> None:
        scores = users @ items.T
        torch.mm(scores, items)
        torch.mm(scores.T, users)

    return work


if __name__ == "__main__":
    main()
