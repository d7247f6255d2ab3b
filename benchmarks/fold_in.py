"""How long a user takes whom training has not seen, alone and among a thousand.

    python benchmarks/fold_in.py
    python benchmarks/fold_in.py --epochs 1 --users 50       # a quick look

A model is trained on Gowalla for a few epochs, long enough that its scores are spread as those of a
finished one. Three ways of making a user are timed on the same items: the density-ratio risk
(docs/theory.md, F3), the closed form of a least-squares model (F2) and the learned step (F1);
for the first also the whole question, from item ids to a list of 20. BLAS has one thread. «One
user» is the median over many users, asked one by one, the ways taking turns; a batch is the best
of three. `partial_fit` and `update` take pairs into the whole model, once each. The floor of the
risk is what its steps multiply and read at the rates of a large product and a large copy on one
core, measured in the same run. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import ratiorec as rr
from ratiorec.data.interactions import Interactions
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin import newton as density_ratio
from ratiorec.model.foldin.linear import WeightedRidge
from ratiorec.model.foldin.newton import UserRisk
from ratiorec.model.foldin.rules import rule_for
from ratiorec.presets import preset
from ratiorec.scorers.user_items import UserItems, pairs_of, some_of
from ratiorec.settings import Settings

BATCH = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="gowalla")
    parser.add_argument("--preset", default="dregn-cf-fast")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--users", type=int, default=400)
    options = parser.parse_args()
    model = trained(options.data, options.preset, options.epochs)
    with threadpool_limits(1):
        print(json.dumps(measured(model, options.users), indent=2))


def trained(data: str, name: str, epochs: int) -> Artifact:
    settings = preset(name)
    assert isinstance(settings, Settings)
    settings = replace(settings, training=replace(settings.training, epochs=epochs))
    train = rr.load(data).train
    options = rr.FitOptions(validation=0)
    return rr.fit(train, preset=name, settings=settings, device="cpu", options=options)


def measured(model: Artifact, n_users: int) -> dict[str, Any]:
    started = time.perf_counter()
    rule = rule_for(model.scorer, model.settings, model.seen)
    prepared = time.perf_counter() - started
    assert isinstance(rule, UserRisk)
    ridge = WeightedRidge(rule.start.items, 1.0, 20.0, 21.0, 80.0)
    ways: dict[str, Callable[[UserItems], object]] = {
        "risk": rule,
        "closed form": ridge,
        "learned step": rule.start,
        "risk, ids to list": lambda rows: model.recommend_to(as_ids(rows), k=20),
    }
    some = np.random.default_rng(0).permutation(len(model.users))
    one_user = medians(ways, [some_of(model.seen, some[[place]]) for place in range(n_users)])
    many = some_of(model.seen, some[:BATCH])
    steps = steps_taken(rule, some_of(model.seen, some[:n_users])) / n_users
    return {
        "users": len(model.users),
        "items": len(model.items),
        "dimension": rule.start.items.shape[1],
        "seconds_to_prepare": round(prepared, 3),
        "ms_for_one_user": one_user,
        "users_per_second_in_batches_of_1000": {
            name: round(BATCH / min(seconds(way, many) for _ in range(3)))
            for name, way in ways.items()
        },
        "seconds_to_take_in": {
            f"a pair of each of {n} users": {
                "partial_fit": round(time_of(model.partial_fit, added := new_pairs(model, n)), 3),
                "update": round(time_of(model.update, added), 3),
            }
            for n in (1, BATCH)
        },
        "floor": floor(rule, steps),
    }


def new_pairs(model: Artifact, n_users: int) -> Interactions:
    """One pair more of each of some users, with a random item that the user does not have."""
    rng = np.random.default_rng(0)
    users = rng.permutation(len(model.users))[:n_users]
    rows, items = pairs_of(model.seen, users)
    chances = rng.random((n_users, len(model.items)), dtype=np.float32)
    chances[rows, items] = -1
    return Interactions.from_pairs(model.users.ids[users], model.items.ids[chances.argmax(1)])


def time_of(way: Callable[[Interactions], object], added: Interactions) -> float:
    started = time.perf_counter()
    way(added)
    return time.perf_counter() - started


def as_ids(rows: UserItems) -> list[list[int]]:
    return [part.tolist() for part in np.split(rows.indices, rows.indptr[1:-1])]


def seconds(way: Callable[[UserItems], object], rows: UserItems) -> float:
    started = time.perf_counter()
    way(rows)
    return time.perf_counter() - started


def medians(
    ways: Mapping[str, Callable[[UserItems], object]], questions: list[UserItems]
) -> dict[str, dict[str, float]]:
    """Milliseconds of each way, taking turns; the first question only warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for rows in questions:
        for name, way in ways.items():
            times[name].append(1000 * seconds(way, rows))
    return {
        name: {
            "median": round(float(np.median(found[1:])), 3),
            "p90": round(float(np.percentile(found[1:], 90)), 3),
        }
        for name, found in times.items()
    }


def steps_taken(rule: UserRisk, rows: UserItems) -> int:
    """Newton steps that all these users take together, each asked alone."""
    n_solved = 0
    solve = density_ratio.solved

    def counted(matrices: Any, right: Any) -> Any:
        nonlocal n_solved
        n_solved += len(matrices)
        return solve(matrices, right)

    density_ratio.solved = counted
    try:
        rule(rows)
    finally:
        density_ratio.solved = solve
    return n_solved


def floor(rule: UserRisk, steps: float) -> dict[str, float]:
    """What the steps of one user multiply and read, and the milliseconds that takes at least."""
    (n_candidates, d), n_sketched = rule.candidates.vectors.shape, len(rule.sketch.weights)
    operations = steps * (4 * n_candidates * d + 2 * n_sketched * (d * d + d))
    n_bytes = steps * 4 * d * (2 * n_candidates + 2 * n_sketched)
    nothing = UserItems(np.zeros(1, np.int64), np.zeros(0, np.int32))
    square = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
    product = min(seconds(lambda _: square @ square, nothing) for _ in range(10))
    source = np.ones(2**25, np.float32)
    target = np.ones_like(source)
    copy = min(seconds(lambda _: np.copyto(target, source), nothing) for _ in range(10))
    by_operations = operations * product / (2 * 1024**3)
    by_bytes = n_bytes * copy / (2 * source.nbytes)
    return {
        "newton_steps": round(steps, 2),
        "operations": round(operations),
        "bytes": round(n_bytes),
        "ms_by_operations": round(1000 * by_operations, 3),
        "ms_by_bytes": round(1000 * by_bytes, 3),
    }


if __name__ == "__main__":
    main()
