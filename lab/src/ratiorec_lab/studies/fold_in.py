"""Time of folding in a user whom training has not seen (cold start), alone and among a thousand.

    python -m ratiorec_lab.studies.fold_in
    python -m ratiorec_lab.studies.fold_in --epochs 1 --users 50       # a quick look

A model is trained on Gowalla for a few epochs, long enough that its scores are spread as those of a
finished one. Three ways of making a user are timed on the same items: the density-ratio loss
(docs/theory.md, F3), the closed form of a least-squares model (F2) and the learned step (F1);
for the first also the whole question, from item ids to a list of 20. BLAS has one thread. «One
user» is the median over many users, asked one by one, the ways taking turns; a batch is the best
of three. `partial_fit` and `update` take pairs into the whole model, once each. The floor of the
loss is what its steps multiply and read at the rates of a large product and a large copy on one
core, measured in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import ratiorec as rr
from ratiorec.data.interactions import Interactions
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin import newton
from ratiorec.model.foldin.linear import WeightedRidge
from ratiorec.model.foldin.rules import rule_for
from ratiorec.scorers.scorer import UserItems, pairs_of, some_of
from ratiorec_lab.bench.clock import CPU, USUAL, Ceilings, Floor, Gauge, seconds_of
from ratiorec_lab.bench.step import trained
from ratiorec_lab.studies.study import parser, tell

BATCH = 1000
Ways = Mapping[str, Callable[[UserItems], object]]


def main() -> None:
    """Train, then time everything on one core."""
    options = parser(__doc__)
    options.add_argument("--data", default="gowalla")
    options.add_argument("--preset", default="dregn-cf-fast")
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--users", type=int, default=400)
    asked = options.parse_args()
    settings = trained(asked.preset)
    settings = replace(settings, training=replace(settings.training, epochs=asked.epochs))
    model = rr.fit(
        rr.load(asked.data).train,
        preset=asked.preset,
        settings=settings,
        device="cpu",
        options=rr.FitOptions(validation=0),
    )
    with threadpool_limits(1):
        torch.set_num_threads(1)
        tell(measured(model, asked.users))


def measured(model: Artifact, n_users: int) -> dict[str, Any]:
    """One user, a batch, pairs taken in, and the floor."""
    rules: list[Any] = []
    prepared = seconds_of(lambda: rules.append(rule_for(model.scorer, model.settings, model.seen)))
    (rule,) = rules
    assert isinstance(rule, newton.UserProblem)
    ways: Ways = {
        "risk": rule,
        "closed form": WeightedRidge(rule.start.items, 1.0, 20.0, 21.0, 80.0),
        "learned step": rule.start,
        "risk, ids to list": lambda rows: model.recommend_to(as_ids(model, rows), k=20),
    }
    some = np.random.default_rng(0).permutation(len(model.users))
    one_user = medians(ways, [some_of(model.seen, some[[place]]) for place in range(n_users)])
    many = some_of(model.seen, some[:BATCH])
    n_steps = steps_taken(rule, some_of(model.seen, some[:n_users])) / n_users
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
            f"a pair of each of {n} users": taken_in(model, new_pairs(model, n)) for n in (1, BATCH)
        },
        "floor": floor(rule, n_steps),
    }


def taken_in(model: Artifact, added: Interactions) -> dict[str, float]:
    """The seconds until pairs are part of the model, in both ways."""
    ways = {"partial_fit": model.partial_fit, "update": model.update}
    return {name: round(seconds_of(lambda way=way: way(added)), 3) for name, way in ways.items()}  # type: ignore[misc]


def new_pairs(model: Artifact, n_users: int) -> Interactions:
    """One pair more of each of some users, with a random item that the user does not have."""
    rng = np.random.default_rng(0)
    users = rng.permutation(len(model.users))[:n_users]
    rows, items = pairs_of(model.seen, users)
    chances = rng.random((n_users, len(model.items)), dtype=np.float32)
    chances[rows, items] = -1
    return Interactions.from_pairs(model.users.ids[users], model.items.ids[chances.argmax(1)])


def as_ids(model: Artifact, rows: UserItems) -> list[list[Any]]:
    """Histories as a client would send them."""
    ids = model.items.ids[rows.indices]
    return [part.tolist() for part in np.split(ids, rows.indptr[1:-1])]


def seconds(way: Callable[[UserItems], object], rows: UserItems) -> float:
    """The seconds of one way on these histories."""
    return seconds_of(lambda: way(rows))


def medians(ways: Ways, questions: list[UserItems]) -> dict[str, dict[str, float]]:
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


def steps_taken(rule: newton.UserProblem, rows: UserItems) -> int:
    """Newton steps that all these users take together, each asked alone."""
    n_solved = 0
    library: Any = newton
    solve = library.solved

    def counted(matrices: Any, right: Any) -> Any:
        nonlocal n_solved
        n_solved += len(matrices)
        return solve(matrices, right)

    library.solved = counted
    try:
        rule(rows)
    finally:
        library.solved = solve
    return n_solved


def floor(rule: newton.UserProblem, n_steps: float) -> dict[str, float]:
    """What the steps of one user multiply and read, and the milliseconds that takes at least."""
    (n_candidates, d), n_sketched = (
        rule.candidates.vectors.shape,
        len(rule.preconditioner_sample.weights),
    )
    operations = n_steps * (4 * n_candidates * d + 2 * n_sketched * (d * d + d))
    n_bytes = n_steps * 4 * d * (2 * n_candidates + 2 * n_sketched)
    rates = one_core()
    return {
        "newton_steps": round(n_steps, 2),
        "operations": round(operations),
        "bytes": round(n_bytes),
        "ms_by_operations": round(1000 * rates.seconds(Floor.of(n_operations=operations)), 3),
        "ms_by_bytes": round(1000 * rates.seconds(Floor.of(n_bytes=n_bytes)), 3),
    }


def one_core() -> Ceilings:
    """The rates of a large product and a large copy with as many threads as there are now."""
    gauge = Gauge(CPU, replace(USUAL, product_size=1024, copied_bytes=2**27))
    for _ in range(10):
        gauge()
    return gauge.ceilings()


if __name__ == "__main__":
    main()
