"""The unlabelled term of one step, value and gradient, beside plain autograd in the same run.

    python benchmarks/unlabelled.py                # a batch of Gowalla
    python benchmarks/unlabelled.py --users 500 --items 5000

The plain version computes the same on whole matrices and leaves the gradient to autograd. Each
runs in a process of its own, so that the peak memory is its own. The floor is the three matrix
products that both need, done by one call each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from ratiorec.blocks import fixed_blocks
from ratiorec.data.batches import Batch
from ratiorec.machine import peak_memory_mb
from ratiorec.risk.bregman import LEAST_SQUARES
from ratiorec.risk.correction import as_sampled
from ratiorec.risk.density_ratio import pointwise_terms
from ratiorec.risk.unlabelled import self_normalised_unlabelled
from ratiorec.risk.weights import HardSample
from ratiorec.scores import SOFTPLUS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in [("users", 2488), ("items", 28_000), ("dimension", 64), ("repeats", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", choices=WORK)
    size = parser.parse_args()
    if size.only:
        print(json.dumps(measure(size)))
        return
    cases = {name: in_own_process(name) for name in WORK}
    reference, floor = cases["plain"], cases["floor"]
    for case in cases.values():
        case["floor_seconds"] = floor["seconds"]
        case["ratio_to_reference"] = round(case["seconds"] / reference["seconds"], 4)
    products = 3 * 2 * size.users * size.items * size.dimension
    report = {
        "cases": list(cases.values()),
        "size": {"users": size.users, "items": size.items, "dimension": size.dimension},
        "flops": products,
        "matrix_bytes": 4 * size.users * size.items,
    }
    print(json.dumps(report, indent=2))


def in_own_process(name: str) -> dict[str, float]:
    command = [sys.executable, *sys.argv, "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(size: argparse.Namespace) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    users, items = (
        (torch.randn(n, size.dimension, generator=generator) * 0.3).requires_grad_()
        for n in (size.users, size.items)
    )
    before = peak_memory_mb()
    seconds = []
    for _ in range(size.repeats):
        started = time.perf_counter()
        WORK[size.only](users, items)
        seconds.append(time.perf_counter() - started)
    return {
        "name": "unlabelled",
        "execution": size.only,
        "device": "cpu",
        "seconds": round(min(seconds), 4),
        "peak_extra_mb": round(peak_memory_mb() - before, 1),
    }


def tiled(users: Tensor, items: Tensor) -> None:
    n_users, n_items = len(users), len(items)
    batch = Batch(
        users=torch.arange(n_users),
        candidates=torch.arange(n_items),
        rows=torch.arange(0),
        columns=torch.arange(0),
        prior=torch.zeros(n_users),
        popularity=torch.ones(n_items),
        inclusion=torch.ones(n_items),
    )
    terms = pointwise_terms(LEAST_SQUARES, SOFTPLUS, HardSample(), as_sampled(batch), batch)
    with fixed_blocks():
        self_normalised_unlabelled(users, items, terms).mean().backward()


def plain(users: Tensor, items: Tensor) -> None:
    ratio = SOFTPLUS.ratio(users @ items.T)
    weight = ratio.detach()
    value = (weight * ratio.square()).sum(-1) / (2 * weight.sum(-1))
    value.mean().backward()


def floor(users: Tensor, items: Tensor) -> None:
    with torch.no_grad():
        scores = users @ items.T
        torch.mm(scores, items)
        torch.mm(scores.T, users)


WORK: dict[str, Callable[[Tensor, Tensor], None]] = {"tiled": tiled, "plain": plain, "floor": floor}


if __name__ == "__main__":
    main()
