"""The best twenty items of many users: ours, plain numpy, and implicit's."""

from __future__ import annotations

from collections import deque

import numpy as np
import torch

from ratiorec.errors import MissingExtraError
from ratiorec.scorers import Indices, InnerProduct
from ratiorec.scorers.topk import Exact
from ratiorec.scorers.user_items import Pairs
from ratiorec.training.validation import GpuTopK
from ratiorec_lab.bench.case import Case, Measured, Size
from ratiorec_lab.bench.ceilings import Floor
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.implicit_ranking import implicit_ranking
from ratiorec_lab.bench.plain import plain_ranking
from ratiorec_lab.bench.side_by_side import side_by_side
from ratiorec_lab.bench.stand_in import random_model, random_pairs
from ratiorec_lab.bench.timing import CPU, Way, once

K = 20
DIMENSION = 64
MOST_USERS = 4096
OURS, ON_CARD, REFERENCE, RIVAL = "ratiorec", "ratiorec, card", "numpy argpartition", "implicit"


def measure(conditions: Conditions) -> Measured:
    """Random factors, and the data's own pairs as what users have seen."""
    data, device = conditions.dataset.train, conditions.device
    n_ranked = min(conditions.n_users or MOST_USERS, data.n_users)
    size = {
        "users": data.n_users,
        "items": data.n_items,
        "pairs": data.n_pairs,
        "ranked": n_ranked,
        "dimension": DIMENSION,
        "k": min(K, data.n_items),
    }
    ways, left_out = _ways(data, size, device), {}
    try:
        ways[RIVAL] = _way(RIVAL, data, size, CPU)
    except MissingExtraError as error:
        left_out[RIVAL] = str(error)
    found = side_by_side("recommend", ways, size, conditions)
    cases = [
        Case(
            "top-k",
            execution,
            way.device.type,
            size,
            found.times[execution],
            floor_of_ranking(size),
            found.peaks[execution],
            is_reference=execution == REFERENCE,
            is_rival=execution == RIVAL,
            figures={"users_per_second": round(n_ranked / found.times[execution].median, 1)},
        )
        for execution, way in ways.items()
    ]
    return Measured("recommend", cases, found.ceilings, left_out)


def alone(execution: str, size: Size) -> Way:
    """One execution on random pairs of this size."""
    return _way(execution, random_pairs(size["users"], size["items"], size["pairs"]), size, CPU)


def floor_of_ranking(size: Size) -> Floor:
    """The product of all factors; the factors are read once, the lists written once."""
    n_scores, row_bytes = size["ranked"] * size["items"], 4 * size["dimension"]
    return Floor.of(
        n_operations=2 * n_scores * size["dimension"],
        n_bytes=row_bytes * (size["ranked"] + size["items"]) + 8 * size["ranked"] * size["k"],
    )


def some_users(size: Size) -> Indices:
    """Evenly spread over all of them."""
    return np.linspace(0, size["users"] - 1, size["ranked"]).astype(np.int64)


def _ways(seen: Pairs, size: Size, device: torch.device) -> dict[str, Way]:
    ways = {execution: _way(execution, seen, size, CPU) for execution in (OURS, REFERENCE)}
    if device.type == "cuda":
        ways[ON_CARD] = _way(ON_CARD, seen, size, device)
    return ways


def _way(execution: str, seen: Pairs, size: Size, device: torch.device) -> Way:
    model = random_model(size["users"], size["items"], size["dimension"])
    users, k = some_users(size), size["k"]
    if execution == RIVAL:
        return implicit_ranking(model, seen, users, k)
    work = {
        OURS: lambda: Exact(k)(model, users, seen=seen),
        REFERENCE: lambda: plain_ranking(model, seen, users, k),
        ON_CARD: lambda: _exhaust(GpuTopK(k, device), model, seen, users),
    }[execution]
    return Way(once(work), device=device)


def _exhaust(ranker: GpuTopK, model: InnerProduct, seen: Pairs, users: Indices) -> None:
    deque(ranker.stream(model, users, seen=seen), maxlen=0)
