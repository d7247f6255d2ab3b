"""Alternatives to what a preset has by default, compared on validation pairs alone.

    python -m ratiorec_lab.studies.alternatives --data gowalla --of mixing --device cuda
    python -m ratiorec_lab.studies.alternatives --data gowalla --of fold-in --device cuda

`mixing` is the α of `dregn-cf-relative`, `layers` those of `items-only`. Each value is fitted
without the held-out pairs, in as many steps as they choose. `fold-in` is the rule that gives a user
who comes later a vector in a model of cosines: `softmax` learns from nine tenths of the users, the
rest are folded in by all their pairs but the held-out ones. Test pairs are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ratiorec.config import merge, parse_assignment, preset, settings_in, to_table
from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import split_for_validation
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.model.foldin.linear import CentredMean, LearnedStep
from ratiorec.scorers import InnerProduct, by_cosine
from ratiorec.scorers.scorer import FloatMatrix, UserItems
from ratiorec.training.experiment import find_device, fit
from ratiorec.training.fit import FitOptions
from ratiorec_lab.studies.study import parser, tell

SHARE = 0.1  # of the pairs that judge, and of the users who come later
Figures = dict[str, float]
Rule = Callable[[UserItems], FloatMatrix]


@dataclass(frozen=True)
class Setting:
    """A setting of a preset and the values that are tried."""

    preset: str
    name: str
    values: tuple[float, ...]


SETTINGS = {
    "mixing": Setting("dregn-cf-relative", "risk.generator.mixing", (0.05, 0.1, 0.2, 0.3, 0.5)),
    "layers": Setting("items-only", "encoder.n_layers", (1, 2, 3)),
}
FOLD_IN = "fold-in"


def main() -> None:
    """All values, or all rules, of one question."""
    options = parser(__doc__)
    options.add_argument("--data", default="gowalla")
    options.add_argument("--of", choices=(*SETTINGS, FOLD_IN), default="mixing")
    options.add_argument("--device", default="auto")
    options.add_argument("--seeds", default="0", help="Numbers with commas between them.")
    options.add_argument("--max-seconds", type=float, default=120.0, help="Of each fit.")
    options.add_argument("--validation-by", default="last", help="random or last.")
    asked = options.parse_args()
    data, device = load(asked.data).train, str(find_device(asked.device))
    limits = FitOptions(
        validation=SHARE,
        validation_by=asked.validation_by,
        refit=False,
        max_seconds=asked.max_seconds,
    )
    found = []
    for seed in map(int, asked.seeds.split(",")):
        if asked.of == FOLD_IN:
            found.append({"seed": seed, "rules": compare_rules(data, limits, seed, device)})
        else:
            found += compare_values(SETTINGS[asked.of], data, limits, seed, device)
    tell(
        {
            "dataset": asked.data,
            "data_sha256": data.sha256,
            "part": asked.of,
            "device": device,
            "found": found,
        }
    )


def compare_values(
    setting: Setting, data: Interactions, limits: FitOptions, seed: int, device: str
) -> list[dict[str, Any]]:
    """A fit with each value."""
    table, found = to_table(preset(setting.preset)), []
    for value in setting.values:
        path, parsed = parse_assignment(f"{setting.name}={value}")
        changes: Any = parsed
        for name in reversed(path):
            changes = {name: changes}
        settings = settings_in(merge(table, changes))
        card = fit(data, settings=settings, seed=seed, device=device, options=limits).card
        kept = ("validation", "validation_by", "epochs", "stopped_by", "seconds")
        found.append({setting.name: value, "seed": seed} | {key: card[key] for key in kept})
    return found


def compare_rules(
    data: Interactions, limits: FitOptions, seed: int, device: str
) -> dict[str, Figures]:
    """Each rule on the held-out pairs of users whom the model has not seen."""
    rng = np.random.default_rng(seed)
    later = np.zeros(data.n_users, bool)
    later[rng.choice(data.n_users, round(SHARE * data.n_users), replace=False)] = True
    comes_later = later[data.pair_users]
    known = data.select(~comes_later)
    scorer = fit(known, preset="softmax", seed=seed, device=device, options=limits).scorer
    assert isinstance(scorer, InnerProduct)
    assert limits.validation_by is not None
    split = split_for_validation(data.select(comes_later), SHARE, rng, limits.validation_by)
    judged, seen = split.judged, UserItems.of(split.train)
    found = {}
    for name, rule in rules(scorer, known).items():
        vectors = by_cosine(rule(seen)).items  # of length 1
        report = evaluate(InnerProduct(vectors, scorer.items), seen, judged, ks=(20,))
        found[name] = {metric: report.value(metric) for metric in ("recall@20", "ndcg@20")}
    return found


def rules(scorer: InnerProduct, data: Interactions) -> dict[str, Rule]:
    """The rule in use (theory: F9), the same without centring, a step of propagation, and F1."""
    learnt = LearnedStep.learnt(scorer.users, scorer.items, UserItems.of(data))
    return {
        "centred mean": CentredMean(scorer.items),
        "mean": partial(plain_mean, scorer.items),
        "step": LearnedStep(scorer.items, learnt.lengths, np.eye(scorer.items.shape[1])),
        "learned step": learnt,
    }


def plain_mean(items: FloatMatrix, seen: UserItems) -> FloatMatrix:
    """The mean of the user's items; 0 for an empty history."""
    knows_any = np.diff(seen.indptr) > 0
    vectors: FloatMatrix = CentredMean(items)(seen) + items.mean(0) * knows_any[:, None]
    return vectors


if __name__ == "__main__":
    main()
