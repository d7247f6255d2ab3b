"""One product of the normalised graph with a table of vectors, in the ways torch and scipy have.

    python benchmarks/propagation.py gowalla
    python benchmarks/propagation.py ml-100k --dimension 128

All on one core, and the way that is used also in blocks on all of them. The floor is the same
number of multiplications at the speed of a dense product on one core: most vectors are in the
cache when they are read.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable

import scipy.sparse
import torch
from torch import Tensor

from ratiorec.blocks import fixed_blocks
from ratiorec.data.benchmarks import load
from ratiorec.encoders.graph import Graph, _bags, _sparse_matrix, normalised_adjacency

CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # the sparse format calls itself a beta
    data = load(asked.data).train
    parts = normalised_adjacency(data, self_loops=True)
    n_nodes = len(parts[0]) - 1
    table = torch.randn(n_nodes, asked.dimension, generator=torch.Generator().manual_seed(0))
    matrix = scipy.sparse.csr_array(parts[::-1], shape=(n_nodes, n_nodes))
    ways: dict[str, Callable[[Tensor], object]] = {
        "sparse matrix": _sparse_matrix(*parts, n_nodes, CPU),
        "bags": _bags(*parts, n_nodes, CPU),
        "scipy": lambda vectors: matrix @ vectors.numpy(),
    }
    n_multiplications = asked.dimension * len(parts[1])
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    floor = dense_seconds(n_multiplications)
    seconds = {name: best(way, table, asked.repeats) for name, way in ways.items()}
    torch.set_num_threads(n_threads)
    with fixed_blocks(), torch.no_grad():
        graph = Graph(data, self_loops=True, device=CPU)
        seconds[f"bags in blocks, {n_threads} threads"] = best(
            lambda vectors: graph @ vectors, table, asked.repeats
        )
    cases = [
        {
            "name": "propagation",
            "execution": name,
            "device": "cpu",
            "seconds": round(value, 6),
            "floor_seconds": round(floor, 6),
            "ratio_to_reference": round(value / seconds["sparse matrix"], 4),
        }
        for name, value in seconds.items()
    ]
    size = {"nodes": n_nodes, "entries": len(parts[1]), "dimension": asked.dimension}
    print(json.dumps({"cases": cases, "size": size, "flops": 2 * n_multiplications}, indent=2))


def best(way: Callable[[Tensor], object], table: Tensor, repeats: int) -> float:
    times = []
    with torch.no_grad():
        for _ in range(repeats):
            started = time.perf_counter()
            way(table)
            times.append(time.perf_counter() - started)
    return min(times)


def dense_seconds(n_multiplications: int) -> float:
    square = torch.ones(1024, 1024)
    return best(lambda other: other @ square, square, 9) * n_multiplications / 1024**3


if __name__ == "__main__":
    main()
