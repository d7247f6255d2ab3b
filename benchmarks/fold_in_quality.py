"""How good lists are for users whom training has not seen, beside those it has.

    python benchmarks/fold_in_quality.py --seed 4
    python benchmarks/fold_in_quality.py --steps 24       # a quick look

A random tenth of the users is judged. One model is trained on all users; another without the
judged tenth, whose users are then folded in from the same pairs (the training file, four fifths of
all they have). Both are judged on the test file, and take the same fixed number of steps, up to a
whole epoch: fewer users make shorter epochs. The interval of a ratio is the 95 % percentile
interval of a paired bootstrap over the judged users.

Two more ratios tell where the rest goes: users who are trained in both models, without the judged
tenth to with it; and the judged users, folded in by the model that has trained them to their own
vectors there. Short histories are a few random pairs of each judged user, judged on the same test
pairs, with the ridge that follows the length and with one ridge for all. How the ridge follows the
length (docs/theory.md, F5) was chosen on seeds 0, 2 and 3. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import ratiorec as rr
from ratiorec.artifact import Artifact
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.evaluate import evaluate
from ratiorec.fold_in.density_ratio import UserRisk
from ratiorec.presets import preset
from ratiorec.scorers import InnerProduct, StoredScorer
from ratiorec.seen import SeenItems, pairs_of
from ratiorec.settings import Settings

METRICS = ("recall@20", "ndcg@20")
DRAWS = 1000
SHORT = (1, 2, 4)

PerUser = Mapping[str, NDArray[np.float64]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="gowalla")
    parser.add_argument("--preset", default="dregn-cf-fast")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0, help="of the split and of training")
    parser.add_argument("--models", type=Path, help="keep the two models here, and use them again")
    options = parser.parse_args()
    data = rr.load(options.data)
    assert data.test is not None
    order = np.random.default_rng(options.seed).permutation(data.train.n_users)
    n_judged = len(order) // 10
    judged, others = np.sort(order[:n_judged]), np.sort(order[n_judged:])
    result = {
        "data": options.data,
        "preset": options.preset,
        **compare(
            model_of(data.train, options),
            model_of(of_users(data.train, others), options),
            (judged, others),
            data.test,
        ),
    }
    print(json.dumps(result, indent=2))


def compare(
    everyone: Artifact,
    without: Artifact,
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    test: Interactions,
) -> dict[str, Any]:
    """All figures of the judged users and the others, by a model of all and one of the others."""
    judged, others = parts
    of_judged, of_others = of_users(test, judged), of_users(test, others)
    rows, items = pairs_of(everyone.seen, judged)
    histories = SeenItems(np.searchsorted(rows, np.arange(len(judged) + 1)), items)
    trained_in = judge(known(everyone, judged), histories, of_judged)
    folded_in = judge(folded(without, histories), histories, of_judged)
    again = judge(folded(everyone, histories), histories, of_judged)
    return {
        "steps": {"all users": everyone.card["steps"], "without": without.card["steps"]},
        "judged_users": len(trained_in[METRICS[0]]),
        "trained_in": means(trained_in),
        "folded_in": means(folded_in) | variants(without, histories, of_judged),
        "ratio": ratio(folded_in, trained_in),
        "ratio_of_users_in_both_models": ratio(
            judge(without.scorer, without.seen, of_others),
            judge(known(everyone, others), without.seen, of_others),
        ),
        "ratio_where_they_were_trained": ratio(again, trained_in),
        "short_histories": {str(n): short(without, histories, of_judged, n=n) for n in SHORT},
    }


def model_of(pairs: Interactions, options: argparse.Namespace) -> Artifact:
    """A model of these pairs, trained or from the folder of an earlier run."""
    folder = options.models and options.models / f"of-{pairs.n_users}-users"
    if folder is not None and folder.exists():
        model = Artifact.load(folder)
        assert model.card["data"]["sha256"] == pairs.sha256
        assert model.card["preset"] == options.preset
        assert model.card["epochs"] == epochs_of(pairs, options)
        return model
    model = trained(pairs, options)
    if folder is not None:
        model.save(folder)
    return model


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


def epochs_of(data: Interactions, options: argparse.Namespace) -> int:
    """Whole epochs with about as many steps as were asked for."""
    n_steps = settings_of(options.preset).batches(data, device=torch.device("cpu")).n_steps
    return max(1, round(options.steps / n_steps))


def trained(data: Interactions, options: argparse.Namespace) -> Artifact:
    settings = settings_of(options.preset)
    training = replace(settings.training, epochs=epochs_of(data, options))
    return rr.fit(
        data,
        preset=options.preset,
        settings=replace(settings, training=training),
        seed=options.seed,
        device="cpu",
        options=rr.FitOptions(validation=0),
    )


def settings_of(name: str) -> Settings:
    settings = preset(name)
    assert isinstance(settings, Settings)
    return settings


def known(model: Artifact, users: NDArray[np.int64]) -> InnerProduct:
    """Some users of a model by the vectors that training gave them."""
    assert isinstance(model.scorer, InnerProduct)
    return model.scorer.with_users(model.scorer.users[users])


def folded(model: Artifact, histories: SeenItems, **changed: Any) -> InnerProduct:
    """Users known by their histories alone, by the model's rule or a changed one."""
    assert isinstance(model.scorer, InnerProduct)
    assert isinstance(model.rule, UserRisk)
    return model.scorer.with_users(replace(model.rule, **changed)(histories))


def judge(scorer: StoredScorer, seen: SeenItems, test: Interactions) -> PerUser:
    report = evaluate(scorer, seen, test, ks=(20,))
    return {name: report.per_user[name] for name in METRICS}


def means(found: PerUser) -> dict[str, Any]:
    return {name: round(float(found[name].mean()), 5) for name in METRICS}


def variants(model: Artifact, histories: SeenItems, test: Interactions) -> dict[str, Any]:
    """Of the folded-in users: what else might have been done, the ridge, and the time."""
    rule, scorer = model.rule, model.scorer
    assert isinstance(rule, UserRisk)
    assert isinstance(scorer, InnerProduct)
    step = scorer.with_users(rule.start(histories))
    for_all = folded(model, histories, usual_length=None)
    started = time.perf_counter()
    rule(histories)
    seconds = time.perf_counter() - started
    return {
        "learned_step_alone": means(judge(step, histories, test)),
        "one_ridge_for_all": means(judge(for_all, histories, test)),
        "ridge": round(rule.ridge, 4),
        "usual_length": round(rule.usual_length or 0, 2),
        "ms_per_user_in_one_batch": round(1000 * seconds / histories.n_users, 3),
    }


def short(model: Artifact, histories: SeenItems, test: Interactions, *, n: int) -> dict[str, Any]:
    """Of users who are known by at most n of their pairs; lists leave out all of these."""
    rng = np.random.default_rng(0)
    parts = np.split(histories.indices, histories.indptr[1:-1])
    some = [np.sort(rng.permutation(part)[:n]) for part in parts]
    ends = np.concatenate([[0], np.cumsum([len(part) for part in some])])
    few = SeenItems(ends, np.concatenate(some))
    for_all = judge(folded(model, few, usual_length=None), histories, test)
    by_length = judge(folded(model, few), histories, test)
    return {
        "by_length": means(by_length),
        "one_ridge_for_all": means(for_all),
        "ratio": ratio(by_length, for_all),
    }


def ratio(found: PerUser, wanted: PerUser) -> dict[str, Any]:
    """The ratio of the means, and its interval; the users are the same on both sides."""
    n_users = len(found[METRICS[0]])
    draws = np.random.default_rng(0).integers(0, n_users, (DRAWS, n_users))
    ratios = {name: found[name][draws].mean(1) / wanted[name][draws].mean(1) for name in METRICS}
    return {
        name: {
            "value": round(float(found[name].mean() / wanted[name].mean()), 4),
            "low": round(float(np.percentile(ratios[name], 2.5)), 4),
            "high": round(float(np.percentile(ratios[name], 97.5)), 4),
        }
        for name in METRICS
    }


if __name__ == "__main__":
    main()
