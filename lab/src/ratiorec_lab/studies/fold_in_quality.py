"""Quality of lists after pairs have come in, beside those of a model trained on all pairs.

    python -m ratiorec_lab.studies.fold_in_quality --splits 5 --first 4
    python -m ratiorec_lab.studies.fold_in_quality --hold-out pairs
    python -m ratiorec_lab.studies.fold_in_quality --steps 24       # a quick look
    python -m ratiorec_lab.studies.fold_in_quality --splits 30 --first 200 --device cuda --jobs 15

A split holds out a random tenth of the users, with all their pairs; or, of a random three tenths of
the users, a random three tenths of their pairs; or a random tenth of the items, of which the other
model knows nothing. One model is trained on all pairs of the training
file; another without those held out, which then come in: by `partial_fit`, items fixed, which gives
new users what `fold_in` gives them; and by `update`. All are judged on the test file. Both models
take the same fixed number of steps, up to a whole epoch: fewer users make shorter epochs.

Figures are ratios to what the same users have in the model of all pairs: the mean over the splits,
and Student's 95 % interval of it; each split has users and models of its own.
Judged are the users of held-out pairs, and every fifth of the others; where items are held out,
every fifth user, by all test pairs and by those of the held-out items alone. Where the users are
held out, `where_trained` folds them in by the model that has trained them; and short histories are
a few random pairs of each, judged on the same test pairs: the ridge that follows the length, to one
ridge for all.

What was chosen on which splits: docs/guide.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ratiorec as rr
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.newton import UserProblem
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.scorers.scorer import UserItems, some_of
from ratiorec_lab.bench.clock import CPU, seconds_of
from ratiorec_lab.bench.step import trained
from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.studies.study import parser, tell

METRICS = ("recall@20", "ndcg@20")
SHORT = (1, 2, 4)
EVERY = 5  # of the users who are not held out

Figures = dict[str, float]


def main() -> None:
    """Train both models of every split, then judge them."""
    asked = parsed()
    splits = range(asked.first, asked.first + asked.splits)
    with tempfile.TemporaryDirectory() as folder:
        for seed in splits:
            train_both(seed, asked, Path(folder))
        found = judged_splits(splits, asked, Path(folder))
    tell(
        {
            "data": asked.data,
            "preset": asked.preset,
            "device": asked.device,
            "held_out": asked.hold_out,
            "splits": found,
            "mean": summary([each["ratios"] for each in found]),
        }
    )


def parsed() -> argparse.Namespace:
    """The options."""
    options = parser(__doc__)
    options.add_argument("--data", default="gowalla")
    options.add_argument("--preset", default="dregn-cf-fast")
    options.add_argument("--steps", type=int, default=240)
    options.add_argument("--hold-out", choices=("users", "pairs", "items"), default="users")
    options.add_argument("--splits", type=int, default=1, help="how many")
    options.add_argument(
        "--first", type=int, default=0, help="the seed of the first; of training too"
    )
    options.add_argument("--device", default="cpu", help="that trains; lists are made on the CPU")
    options.add_argument("--jobs", type=int, default=1, help="splits judged at a time")
    return options.parse_args()


def train_both(seed: int, asked: argparse.Namespace, folder: Path) -> None:
    """A model of all pairs, and one without those held out."""
    data = rr.load(asked.data).train
    kept = held_out(data, seed, asked.hold_out).kept
    fitted(data, seed, asked).save(folder / f"{seed}-everything")
    fitted(kept, seed, asked).save(folder / f"{seed}-without")


def fitted(data: Interactions, seed: int, asked: argparse.Namespace) -> Artifact:
    """A model after about the steps asked for, in whole epochs."""
    settings = trained(asked.preset)
    n_steps = settings.batches(data, device=CPU).n_steps
    epochs = max(1, round(asked.steps / n_steps))
    return rr.fit(
        data,
        preset=asked.preset,
        settings=replace(settings, training=replace(settings.training, epochs=epochs)),
        seed=seed,
        device=asked.device,
        options=rr.FitOptions(validation=0),
    )


def judged_splits(splits: range, asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """All splits, several at a time where that is asked for."""
    of_one = partial(judged_split, name=asked.data, hold_out=asked.hold_out, folder=folder)
    if asked.jobs == 1:
        return [of_one(seed) for seed in splits]
    with one_thread(), ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        return list(pool.map(of_one, splits))


def judged_split(seed: int, *, name: str, hold_out: str, folder: Path) -> dict[str, Any]:
    """All figures of one split, in the same shape for each."""
    data = rr.load(name)
    split = held_out(data.train, seed, hold_out)
    full, without = (Artifact.load(folder / f"{seed}-{kind}") for kind in ("everything", "without"))
    taken_in = {"partial_fit": without.partial_fit(split.added)}
    seconds = seconds_of(lambda: taken_in.update(update=without.update(split.added)))
    judged = Judged.of(data, full, split.judged)
    ratios = {way: judged.ratio(judged.known(model)) for way, model in taken_in.items()}
    if hold_out == "items":
        alone = Judged.of(data, full, split.judged, items=split.items)
        ratios |= {f"items_{way}": alone.ratio(alone.known(m)) for way, m in taken_in.items()}
    else:
        others = Judged.of(data, full, split.others)
        ratios["others_before"] = others.ratio(others.known(without))
        ratios["others_update"] = others.ratio(others.known(taken_in["update"]))
    if hold_out == "users":
        ratios["where_trained"] = judged.ratio(judged.folded(full))
        ratios |= variants(without, judged)
    elif hold_out == "pairs":
        ratios["before"] = judged.ratio(judged.known(without))
    return {
        "seed": seed,
        "steps": {"all pairs": full.card["steps"], "without": without.card["steps"]},
        "users": {"judged": len(split.judged), "others": len(split.others)},
        "added_pairs": len(split.added.indices),
        "trained_in": judged.trained_in,
        "ratios": ratios,
        "seconds_of_update": round(seconds, 2),
    }


class Split(NamedTuple):
    """Pairs to train on, pairs that come in later, and whom to judge; and the items held out."""

    kept: Interactions
    added: Interactions
    judged: NDArray[np.int64]
    others: NDArray[np.int64]
    items: NDArray[np.int64] | None = None


def held_out(data: Interactions, seed: int, what: str) -> Split:
    """A random tenth of the users or of the items, or pairs of three tenths of the users."""
    rng = np.random.default_rng(seed)
    if what == "items":
        return items_held_out(data, np.sort(rng.permutation(data.n_items)[: data.n_items // 10]))
    order = rng.permutation(data.n_users)
    n_judged = len(order) // 10 * (1 if what == "users" else 3)
    judged, others = np.sort(order[:n_judged]), np.sort(order[n_judged:])
    if what == "users":
        return Split(of_users(data, others), of_users(data, judged), judged, others[::EVERY])
    late = np.isin(data.pair_users, judged) & (rng.random(len(data.indices)) < 0.3)
    return Split(some_pairs(data, ~late), some_pairs(data, late), judged, others[::EVERY])


def items_held_out(data: Interactions, items: NDArray[np.int64]) -> Split:
    """All but these items, whose pairs come in later."""
    late = np.isin(data.indices, items)
    place = np.cumsum(~np.isin(np.arange(data.n_items), items)) - 1
    kept = Interactions.from_indices(
        data.users,
        Vocabulary(np.delete(data.items.ids, items), "item"),
        data.pair_users[~late].astype(np.int64),
        place[data.indices[~late]],
    )
    judged = np.arange(0, data.n_users, EVERY)
    return Split(kept, some_pairs(data, late), judged, judged[:0], items)


def some_pairs(data: Interactions, kept: NDArray[np.bool_]) -> Interactions:
    """Some of the pairs, over the whole vocabularies."""
    users, items = data.pair_users[kept].astype(np.int64), data.indices[kept].astype(np.int64)
    return Interactions.from_indices(data.users, data.items, users, items)


class Judged(NamedTuple):
    """Users, all they have in training, their test pairs, and their figures where trained."""

    ids: NDArray[Any]
    items: Vocabulary
    histories: UserItems
    test: Interactions
    trained_in: Figures

    @classmethod
    def of(
        cls,
        data: Dataset,
        full: Artifact,
        users: NDArray[np.int64],
        items: NDArray[np.int64] | None = None,
    ) -> Judged:
        assert data.test is not None
        histories, test = some_of(full.seen, users), of_users(data.test, users)
        if items is not None:
            test = some_pairs(test, np.isin(test.indices, items))
        unjudged = cls(data.train.users.ids[users], data.train.items, histories, test, {})
        return unjudged._replace(trained_in=unjudged.figures(unjudged.known(full)))

    def figures(self, scorer: StoredScorer) -> Figures:
        report = evaluate(scorer, self.histories, self.test, ks=(20,))
        return {name: round(float(report.per_user[name].mean()), 6) for name in METRICS}

    def ratio(self, scorer: StoredScorer) -> Figures:
        """The figures that these lists have, to those where the users are trained."""
        return ratio(self.figures(scorer), self.trained_in)

    def known(self, model: Artifact) -> InnerProduct:
        """The users by the vectors that the model has of them."""
        assert isinstance(model.scorer, InnerProduct)
        items = model.scorer.items
        if not model.items.same_as(self.items):
            items = items[model.items.indices(self.items.ids)]
        return InnerProduct(model.scorer.users[model.users.indices(self.ids)], items)

    def folded(
        self, model: Artifact, histories: UserItems | None = None, **changed: Any
    ) -> InnerProduct:
        """The users by their histories alone, by the model's rule or a changed one."""
        assert isinstance(model.scorer, InnerProduct)
        assert isinstance(model.rule, UserProblem)
        rule = replace(model.rule, **changed)
        return model.scorer.with_users(rule(self.histories if histories is None else histories))


def variants(model: Artifact, judged: Judged) -> dict[str, Figures]:
    """Of the folded-in users: what else might have been done, and shorter histories."""
    assert isinstance(model.rule, UserProblem)
    assert isinstance(model.scorer, InnerProduct)
    step = model.scorer.with_users(model.rule.start(judged.histories))
    found = {
        "learned_step_alone": judged.ratio(step),
        "one_ridge_for_all": judged.ratio(judged.folded(model, usual_length=None)),
    }
    for n in SHORT:
        few = shortened(judged.histories, n)
        by_length = judged.figures(judged.folded(model, few))
        alike = judged.figures(judged.folded(model, few, usual_length=None))
        found[f"from_{n}_by_length_to_one_ridge"] = ratio(by_length, alike)
    return found


def shortened(histories: UserItems, n: int) -> UserItems:
    """At most n random pairs of each user."""
    rng = np.random.default_rng(0)
    parts = np.split(histories.indices, histories.indptr[1:-1])
    some = [np.sort(rng.permutation(part)[:n]) for part in parts]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in some])])
    return UserItems(ends, np.concatenate(some))


def summary(splits: list[dict[str, Figures]]) -> dict[str, Any]:
    """The mean of each ratio over the splits, and its interval where there are several."""
    table: dict[str, Any] = {}
    for name in splits[0]:
        table[name] = {metric: interval([s[name][metric] for s in splits]) for metric in METRICS}
    return table


def interval(values: list[float]) -> Figures:
    """A mean, and Student's 95 % interval of it where there are several values."""
    mean, found = float(np.mean(values)), Measured(tuple(values)).interval
    if found is None:
        return {"value": round(mean, 4)}
    return {"value": round(mean, 4), "low": round(found[0], 4), "high": round(found[1], 4)}


@contextmanager
def one_thread() -> Iterator[None]:
    """Processes that start meanwhile keep to one core each."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ |= dict.fromkeys(names, "1")
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def of_users(data: Interactions, users: NDArray[np.int64]) -> Interactions:
    """The pairs of some users, over a vocabulary of these alone."""
    place = np.full(data.n_users, -1)
    place[users] = np.arange(len(users))
    kept = place[data.pair_users] >= 0
    return Interactions.from_indices(
        Vocabulary(data.users.ids[users], "user"),
        data.items,
        place[data.pair_users[kept]],
        data.indices[kept].astype(np.int64),
    )


def ratio(found: Figures, wanted: Figures) -> Figures:
    """Each figure to the one wanted."""
    return {name: round(found[name] / wanted[name], 5) for name in METRICS}


if __name__ == "__main__":
    main()
