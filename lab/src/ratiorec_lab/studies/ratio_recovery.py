"""Recovery of the ratio where the truth is known.

    python -m ratiorec_lab.studies.ratio_recovery
    python -m ratiorec_lab.studies.ratio_recovery --seeds 0 --generators logistic --l2 0.05

For each generator and seed: a population of synthetic users is drawn, a model is trained with
uniform weights and no corrections (`ratiorec_lab.demo.recovery_settings`; the stopping step is
chosen on held-out pairs, which know nothing of the truth), and the estimated ratio is compared
with the true one over all pairs that are not in the training data. Spearman's correlation is
given over these pairs pooled, and as the mean over users of each user's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ratiorec.data.synthetic import SyntheticData
from ratiorec.kernels.pointwise import GENERATORS
from ratiorec.model.artifact import Artifact
from ratiorec.training.experiment import fit
from ratiorec_lab.demo import POPULATION, ratio_correlation, recovery_settings
from ratiorec_lab.studies.study import parser, tell


def main() -> None:
    """Every generator with every seed."""
    options = parser(__doc__)
    options.add_argument("--generators", nargs="+", choices=GENERATORS, default=list(GENERATORS))
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--l2", type=float, help="in place of that of the settings")
    asked = options.parse_args()
    cases = [recover(name, seed, asked.l2) for name in asked.generators for seed in asked.seeds]
    tell(
        {
            "cases": cases,
            "lowest": {
                name: min(case["spearman_pooled"] for case in cases if case["generator"] == name)
                for name in asked.generators
            },
            "population": {"users": POPULATION.n_users, "items": POPULATION.n_items},
        }
    )


def recover(name: Any, seed: int, l2: float | None) -> dict[str, Any]:
    """One model beside the truth."""
    data = POPULATION(rng=np.random.default_rng(seed))
    settings = recovery_settings(name)
    if l2 is not None:
        settings = replace(settings, training=replace(settings.training, l2=l2))
    model = fit(data.dataset.train, settings=settings, seed=seed, device="cpu")
    return {
        "generator": name,
        "seed": seed,
        "spearman_pooled": round(ratio_correlation(model, data), 4),
        "spearman_mean_over_users": round(mean_over_users(model, data), 4),
        "l2": settings.training.l2,
        "epochs": model.card["epochs"],
        "seconds": model.card["seconds"]["train"],
    }


def mean_over_users(model: Artifact, data: SyntheticData) -> float:
    """The mean of each user's rank correlation over the items not in training."""
    train = data.dataset.train
    scores = model.scorer.scores(np.arange(train.n_users))
    correlations = []
    for user in range(train.n_users):
        unlabelled = np.delete(np.arange(train.n_items), train.positives(user))
        true = rankdata(data.ratio[user, unlabelled])
        estimated = rankdata(scores[user, unlabelled])
        correlations.append(np.corrcoef(true, estimated)[0, 1])
    return float(np.mean(correlations))


if __name__ == "__main__":
    main()
