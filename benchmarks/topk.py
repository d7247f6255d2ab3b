"""How long ranking and judging every user takes, beside a plain argpartition in the same run.

    python benchmarks/topk.py                      # the size of Gowalla
    python benchmarks/topk.py --users 5000 --k 100

Factors are random. The floor is the matrix product alone, done by one large call to BLAS; the
plain version and the floor are measured on some of the users and scaled up.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ratiorec.evaluate import evaluate
from ratiorec.recommend import Exact
from ratiorec.scorers import InnerProduct
from ratiorec.seen import SeenItems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in [("users", 29_858), ("items", 40_981), ("dimension", 64), ("k", 20)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--sample", type=int, default=2048, help="users for plain and floor")
    size = parser.parse_args()

    scorer, seen, test = random_model(size.users, size.items, size.dimension)
    everyone = np.arange(size.users)
    sample = everyone[: min(size.sample, size.users)]
    scale = size.users / len(sample)
    cases = [
        timed("recommend", lambda: Exact(size.k)(scorer, everyone, seen=seen)),
        timed("evaluate", lambda: evaluate(scorer, seen, test, ks=(size.k,)).to_json()),
    ]
    plain = timed("argpartition", lambda: plain_ranking(scorer, seen, sample, size.k))
    product = np.empty((len(sample), size.items), np.float32)
    factors = scorer.users[sample]
    np.matmul(factors, scorer.items.T, out=product)  # the first touch of memory is not the product
    floor = timed("product", lambda: np.matmul(factors, scorer.items.T, out=product))
    for case in cases:
        case["floor_seconds"] = round(floor["seconds"] * scale, 3)
        case["ratio_to_reference"] = round(case["seconds"] / (plain["seconds"] * scale), 4)
    report = {
        "cases": cases,
        "size": {key: getattr(size, key) for key in ("users", "items", "dimension", "k")},
        "flops": 2 * size.users * size.items * size.dimension,
        "score_bytes": 4 * size.users * size.items,
        "argpartition_seconds": round(plain["seconds"] * scale, 3),
        "machine": {"cores": os.cpu_count(), "processor": platform.machine()},
        "numpy": np.__version__,
    }
    print(json.dumps(report, indent=2))


def timed(name: str, work: Callable[[], Any]) -> dict[str, Any]:
    before = peak_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "name": name,
        "execution": "numpy",
        "device": "cpu",
        "seconds": round(time.perf_counter() - wall, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "peak_extra_mb": round(peak_mb() - before, 1),
    }


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def random_model(
    n_users: int, n_items: int, dimension: int
) -> tuple[InnerProduct, SeenItems, SeenItems]:
    rng = np.random.default_rng(0)
    scorer = InnerProduct(
        rng.standard_normal((n_users, dimension), dtype=np.float32),
        rng.standard_normal((n_items, dimension), dtype=np.float32),
    )
    return scorer, random_pairs(n_users, n_items, 27, rng), random_pairs(n_users, n_items, 7, rng)


def random_pairs(n_users: int, n_items: int, degree: int, rng: np.random.Generator) -> SeenItems:
    items = np.sort(rng.integers(n_items, size=(n_users, degree)), axis=1)
    return SeenItems(np.arange(n_users + 1) * degree, items.ravel().astype(np.int32))


def plain_ranking(scorer: InnerProduct, seen: SeenItems, users: np.ndarray, k: int) -> np.ndarray:
    """The usual way: score a block, mask, partition, sort the best few."""
    lists = []
    for block in np.array_split(users, max(1, len(users) // 512)):
        scores = scorer.users[block] @ scorer.items.T
        for row, user in enumerate(block):
            scores[row, seen.indices[seen.indptr[user] : seen.indptr[user + 1]]] = -np.inf
        best = np.argpartition(-scores, k, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        lists.append(np.take_along_axis(best, order, axis=1))
    return np.concatenate(lists)


if __name__ == "__main__":
    main()
