"""The unlabelled term on a graphics card: accuracy, and the time of every way to cut it.

    python benchmarks/unlabelled_card.py
    python benchmarks/unlabelled_card.py --users 9500 --by-users 128,64,8,3,2 --by-items 64,64,4,2,5

A way to cut is rows, columns, warps, stages and resident programs. Times are medians by CUDA
events of a recorded graph that is replayed, so that starting kernels costs nothing; what a call
costs unrecorded stands beside. A way that does not compile is reported and left out, and what does
not fit into --seconds is named. A table goes to stderr, everything to stdout as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ratiorec.kernels.pointwise import EXPONENTIAL, KULLBACK_LEIBLER, LEAST_SQUARES, LOGISTIC, SOFTPLUS
from ratiorec.kernels.triton import unlabelled as card
from ratiorec.kernels.triton.unlabelled import PRODUCTS, Tiles, Triton, cut
from ratiorec.kernels.unlabelled import FirstModel, Unlabelled, UnlabelledTerm, reference

N_ITEMS, DIMENSION = 40_981, 64
Case = tuple[Tensor, Tensor, UnlabelledTerm, Tensor]

BY_USERS = [
    Tiles(128, 64, 8, 3, 2),
    Tiles(64, 64, 4, 2, 4),
    Tiles(64, 64, 4, 2, 5),
    Tiles(128, 64, 8, 2, 2),
    Tiles(64, 128, 4, 2, 3),
    Tiles(128, 128, 8, 2, 1),
    Tiles(128, 64, 4, 2, 2),
    Tiles(64, 32, 4, 3, 6),
]
BY_ITEMS = [
    Tiles(128, 64, 8, 3, 2),
    Tiles(64, 64, 4, 2, 5),
    Tiles(64, 64, 4, 2, 4),
    Tiles(128, 64, 8, 2, 2),
    Tiles(128, 64, 4, 2, 2),
    Tiles(64, 128, 4, 2, 2),
    Tiles(128, 128, 8, 2, 1),
    Tiles(64, 32, 4, 3, 6),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", default="2500,9500,29858")
    parser.add_argument("--by-users", action="append", type=tiles, metavar="TILES")
    parser.add_argument("--by-items", action="append", type=tiles, metavar="TILES")
    parser.add_argument("--products", default="fp16", choices=PRODUCTS)
    parser.add_argument("--seconds", type=float, default=75, help="begin nothing after so many")
    parser.add_argument("--skip-accuracy", action="store_true")
    asked = parser.parse_args()
    sizes = [int(n) for n in asked.users.split(",")]
    clock = Clock(asked.seconds)
    report: dict[str, Any] = {
        "device": "cuda",
        "card": torch.cuda.get_device_name(),
        "accuracy": [] if asked.skip_accuracy else list(accuracy()),
        "floors": {str(n): floors(n) for n in sizes},
        "cases": [case for n in sizes for case in whole_calls(n, asked.products)],
    }
    report["passes"] = list(passes(sizes, asked.products, asked.by_users, asked.by_items, clock))
    print(json.dumps(report, indent=2))


def tiles(text: str) -> Tiles:
    return Tiles(*(int(n) for n in text.split(",")))


class Clock:
    """Says when to begin nothing more."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def is_over(self) -> bool:
        return time.monotonic() > self._end


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def draw(n_users: int, term: UnlabelledTerm, spread: float, n_items: int = N_ITEMS) -> Case:
    """Fresh normal vectors, and bounds that hold none."""
    users, items = (spread * torch.randn(n, DIMENSION, device="cuda") for n in (n_users, n_items))
    candidates = torch.rand(n_items, device="cuda").add_(0.5)
    candidates[::7] = 0
    return users, items, replace(term, candidates=candidates), torch.zeros(n_users, device="cuda")


def hard_sample() -> UnlabelledTerm:
    return UnlabelledTerm(LEAST_SQUARES, SOFTPLUS, torch.empty(0), ratio_power=1.0)


def terms(n_users: int) -> Iterator[tuple[str, UnlabelledTerm, float]]:
    """Names, terms, and the spread of vectors, whose scores deviate by 8·spread²."""
    plain = hard_sample()
    yield "least squares, hard-sample", plain, 0.5
    yield "least squares, hard-sample", plain, 1.35
    yield "logistic, uniform", replace(plain, generator=LOGISTIC, ratio_power=0.0), 1.35
    users, items = (0.3 * torch.randn(n, 32, device="cuda") for n in (n_users, N_ITEMS))
    first = FirstModel(users, items, SOFTPLUS)
    yield "KL, first model", replace(plain, generator=KULLBACK_LEIBLER, first=first), 0.5
    yield "least squares, γ = ½, plain mean", replace(plain, ratio_power=0.5, divisor=1e4), 0.5
    yield "KL, exponential", replace(plain, generator=KULLBACK_LEIBLER, link=EXPONENTIAL), 0.4


def accuracy(n_users: int = 1024) -> Iterator[dict[str, Any]]:
    """Against whole matrices in double precision, on new numbers at every run."""
    for name, term, spread in terms(n_users):
        case = draw(n_users, term, spread)
        value = reference(*in_double(case)).value.float()
        case[3][::3] = 2 * value[::3]  # every third user is held
        wanted = reference(*in_double(case))
        furthest = round(float((case[0] @ case[1].T).abs().max()), 1)
        for products in PRODUCTS if spread > 1 else ("fp16", "bf16", "tf32"):
            try:
                errors: dict[str, Any] = relative_errors(Triton(products)(*case), wanted)
            except Exception as error:
                errors = {"failed": first_line(error)}
            tell(f"{name}, {products}, scores to ±{furthest}: {errors}")
            yield {"term": name, "products": products, "largest_score": furthest, **errors}


def in_double(case: Case) -> Case:
    users, items, term, bound = case
    first = term.first
    exact = replace(
        term,
        candidates=term.candidates.double(),
        first=first and FirstModel(first.users.double(), first.items.double(), first.link),
    )
    return users.double(), items.double(), exact, bound.double()


def relative_errors(found: Unlabelled, wanted: Unlabelled) -> dict[str, float]:
    return {
        name: float(f"{float((a.double() - b).norm() / b.norm()):.3g}")
        for name, a, b in zip(Unlabelled._fields, found, wanted, strict=True)
    }


def floors(n_users: int) -> dict[str, float]:
    """Operations, and the milliseconds they take at the most that an H200 is said to do."""
    n_pairs = n_users * N_ITEMS
    clock = 1.98e9 * torch.cuda.get_device_properties(0).multi_processor_count
    flops = 4 * 2 * n_pairs * DIMENSION
    special, plain = 4 * n_pairs, 36 * n_pairs
    moved = 4 * DIMENSION * 2 * (n_users + N_ITEMS)
    return {
        "flops": flops,
        "products_ms": 1e3 * flops / 989e12,
        "special_functions": special,
        "special_functions_ms": 1e3 * special / (16 * clock),
        "plain_operations": plain,
        "plain_operations_ms": 1e3 * plain / (128 * clock),
        "bytes": moved,
        "bytes_ms": 1e3 * moved / 4.8e12,
    }


def whole_calls(n_users: int, products: str) -> Iterator[dict[str, Any]]:
    """Both passes and all around them, beside whole matrices."""
    case = draw(n_users, hard_sample(), 0.4)
    ways: dict[str, Callable[[], Any]] = {
        "reference": lambda: reference(*case),
        f"triton {products}": lambda: Triton(products)(*case),
    }
    for name, way in ways.items():
        row: dict[str, Any] = {"name": "unlabelled", "execution": name, "users": n_users}
        try:
            row |= {"ms": by_events(way), "extra_mb": extra_mb(way)}
            if name != "reference":
                row["replayed_ms"] = replayed(way)
        except Exception as error:
            row["failed"] = first_line(error)
        torch.cuda.empty_cache()
        tell(f"{n_users} users, {name}: { {k: row[k] for k in list(row)[3:]} }")
        yield row


def passes(
    sizes: list[int],
    products: str,
    by_users: list[Tiles] | None,
    by_items: list[Tiles] | None,
    clock: Clock,
) -> Iterator[dict[str, Any]]:
    """Each pass for itself, cut in every way."""
    cases = {n: draw(n, hard_sample(), 0.4) for n in sizes}
    for name, ways in [("by_users", by_users or BY_USERS), ("by_items", by_items or BY_ITEMS)]:
        for way in ways:
            row: dict[str, Any] = {"pass": name, "tiles": way}
            for n_users in sizes:
                if clock.is_over():
                    row[str(n_users)] = "no time left"
                    continue
                row[str(n_users)] = one_pass(name, cases[n_users], products, way)
            tell(f"{name} {tuple(way)}: { {k: row[k] for k in map(str, sizes)} }")
            yield row


def one_pass(name: str, case: Case, products: str, way: Tiles) -> dict[str, Any]:
    users, items, term, _ = case
    n_processors = torch.cuda.get_device_properties(0).multi_processor_count
    try:
        tables = card._pack(users, items, term, PRODUCTS[products])
        constants = card._constants(tables, term, PRODUCTS[products])
        if name == "by_users":
            ms = replayed(lambda: card._by_users(tables, constants, way))
            grid = cut(len(users), len(items), DIMENSION, way, n_processors=n_processors)
        else:
            scaled = torch.zeros_like(tables.users)
            ms = replayed(lambda: card._by_items(tables, scaled, constants, way))
            grid = cut(len(items), len(users), DIMENSION, way, n_processors=n_processors)
        return {"ms": ms, "shares": grid.n_shares}
    except Exception as error:
        return {"failed": first_line(error)}


def replayed(work: Callable[[], Any]) -> float:
    """Milliseconds of the kernels alone."""
    work()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()
    ms = by_events(graph.replay)
    del kept
    return ms


def by_events(work: Callable[[], Any], *, n_rounds: int = 9, enough_ms: float = 12.0) -> float:
    """The median of rounds of as many calls as take `enough_ms`."""
    _round_ms(work, 1)  # the first one compiles and allocates
    n_calls = max(1, min(50, int(enough_ms / max(_round_ms(work, 1), 1e-3))))
    return round(statistics.median(_round_ms(work, n_calls) for _ in range(n_rounds)), 4)


def _round_ms(work: Callable[[], Any], n_calls: int) -> float:
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(n_calls):
        work()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / n_calls


def extra_mb(work: Callable[[], Any]) -> float:
    """The most that is allocated at a time beside what was there, results included."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:200]


if __name__ == "__main__":
    main()
