"""How good lists are for users whom training has not seen, beside those it has.

    python benchmarks/fold_in_quality.py
    python benchmarks/fold_in_quality.py --epochs 2       # a quick look

A random tenth of the users is judged. One model is trained on all users; another without the
judged tenth, whose users are then folded in from the same pairs (the training file, four fifths of
all they have). Both are judged on the test file. The share of the implied ridge (docs/theory.md,
F5) was chosen on a third model, without the judged tenth and without another one, whose users
are folded in from all their training pairs and judged on the test file, and from four fifths of
their training pairs and judged on the rest of these. All models take the same fixed number of
epochs. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratiorec as rr
from ratiorec.artifact import Artifact
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import RatioSplit
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.evaluate import evaluate
from ratiorec.fold_in.density_ratio import UserRisk
from ratiorec.presets import preset
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.seen import SeenItems
from ratiorec.settings import Settings

METRICS = ("recall@20", "ndcg@20")
SHARES = (0.15, 0.3, 0.6, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="gowalla")
    parser.add_argument("--preset", default="dregn-cf-fast")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--models", type=Path, help="keep the three models here, and use them again"
    )
    options = parser.parse_args()
    data = rr.load(options.data)
    assert data.test is not None
    order = np.random.default_rng(options.seed).permutation(data.train.n_users)
    judged, chosen_on = np.sort(np.split(order[: len(order) // 10 * 2], 2))

    def train(without: NDArray[np.int64]) -> Artifact:
        kept = np.setdiff1d(np.arange(data.train.n_users), without)
        pairs = of_users(data.train, kept)
        folder = options.models and options.models / f"without-{len(without)}-users"
        if folder is not None and folder.exists():
            model = Artifact.load(folder)
            assert model.card["data"]["sha256"] == pairs.sha256
            assert model.card["epochs"] == options.epochs
            return model
        model = trained(pairs, options.preset, options.epochs, options.seed)
        if folder is not None:
            model.save(folder)
        return model

    everyone = train(judged[:0])
    trained_in = figures(everyone.scorer, everyone.seen, of_users(data.test, judged, alone=False))
    model = train(judged)
    histories, test = of_users(data.train, judged), of_users(data.test, judged)
    folded = fold_in(model, histories, test)
    print(
        json.dumps(
            {
                "data": options.data,
                "preset": options.preset,
                "steps": model.card["steps"],
                "judged_users": len(judged),
                "trained_in": trained_in,
                "folded_in": folded,
                "ratio": {name: round(folded[name] / trained_in[name], 4) for name in METRICS},
                "choice_of_share": choice(
                    train(order[: len(order) // 10 * 2]),
                    of_users(data.train, chosen_on),
                    of_users(data.test, chosen_on),
                ),
            },
            indent=2,
        )
    )


def of_users(data: Interactions, users: NDArray[np.int64], *, alone: bool = True) -> Interactions:
    """The pairs of some users, over a vocabulary of these alone or of all."""
    place = np.full(data.n_users, -1)
    place[users] = np.arange(len(users)) if alone else users
    kept = place[data.pair_users] >= 0
    return Interactions.from_indices(
        Vocabulary(data.users.ids[users], "user") if alone else data.users,
        data.items,
        place[data.pair_users[kept]],
        data.indices[kept].astype(np.int64),
    )


def trained(data: Interactions, name: str, epochs: int, seed: int) -> Artifact:
    settings = preset(name)
    assert isinstance(settings, Settings)
    settings = replace(settings, training=replace(settings.training, epochs=epochs))
    options = rr.FitOptions(validation=0)
    return rr.fit(data, preset=name, settings=settings, seed=seed, device="cpu", options=options)


def figures(scorer: StoredScorer, seen: SeenItems, test: Interactions) -> dict[str, float]:
    report = evaluate(scorer, seen, test, ks=(20,))
    return {name: round(report.value(name), 5) for name in METRICS}


def fold_in(model: Artifact, histories: Interactions, test: Interactions) -> dict[str, Any]:
    """Figures of users known by their histories, and of the learned step that it starts from."""
    rule, scorer = model.rule, model.scorer
    assert isinstance(rule, UserRisk)
    assert isinstance(scorer, InnerProduct)
    seen = SeenItems.of(histories)
    started = time.perf_counter()
    vectors = rule(seen)
    seconds = time.perf_counter() - started
    return {
        **figures(scorer.with_users(vectors), seen, test),
        "learned_step_alone": figures(scorer.with_users(rule.start(seen)), seen, test),
        "ridge": round(rule.ridge, 4),
        "ms_per_user_in_one_batch": round(1000 * seconds / histories.n_users, 3),
    }


def choice(model: Artifact, data: Interactions, test: Interactions) -> dict[str, Any]:
    """Figures of users who are not judged, for several shares of the implied ridge."""
    split = RatioSplit(0.2)(data, rng=np.random.default_rng(0))
    questions = {"long": (data, test), "short": (split.train, split.judged)}
    rule, scorer = model.rule, model.scorer
    assert isinstance(rule, UserRisk)
    assert isinstance(scorer, InnerProduct)
    implied = rule.implied_ridge(scorer.users, model.seen)
    return {
        name: {
            str(share): figures(
                scorer.with_users(replace(rule, ridge=share * implied)(SeenItems.of(histories))),
                SeenItems.of(histories),
                held_out,
            )
            for share in SHARES
        }
        for name, (histories, held_out) in questions.items()
    }


if __name__ == "__main__":
    main()
