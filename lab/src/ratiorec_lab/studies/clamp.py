"""How often the non-negative correction is active while `dregn-cf` trains, by D̄.

    python -m ratiorec_lab.studies.clamp --data gowalla --epochs 50

The correction acts on a user where R± < Ê₊[w⁺ℓ±]/D̄ (theory: C3), that is below a D̄ of the user's
own, Ê₊[w⁺ℓ±]/R±. After some epochs this threshold is computed for every user of an epoch's batches,
from the dense matrix of all their pairs, and compared with the values of D̄ that the paper tried.
The model is trained with the preset's D̄, so the figures of other values tell where the correction
would begin to act on it, not what becomes of a model that is trained with them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ratiorec.batches.users import Batch, UserEpochs
from ratiorec.config import model_preset
from ratiorec.data.benchmarks import load
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.settings import Settings
from ratiorec.shapes import Embeddings
from ratiorec.training.loop import GradientTraining
from ratiorec_lab.studies.study import parser, tell

BOUNDS = (1.0, 2.0, 5.0, *(10.0 * k for k in range(1, 10)))
LOOKED_AT = (1, 2, 3, 5, 10, 20, 30, 40, 50)


def main() -> None:
    """Train, and look now and then."""
    options = parser(__doc__)
    options.add_argument("--data", default="gowalla")
    options.add_argument("--preset", default="dregn-cf")
    options.add_argument("--epochs", type=int, default=50)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    started = time.perf_counter()
    with deterministic_threads():
        epochs = watched(asked.data, asked.preset, asked.epochs, asked.seed)
    tell(
        {
            "dataset": asked.data,
            "preset": asked.preset,
            "seed": asked.seed,
            "bounds": list(BOUNDS),
            "epochs": epochs,
            "seconds": round(time.perf_counter() - started, 1),
        }
    )


def watched(data: str, preset: str, n_epochs: int, seed: int) -> list[dict[str, Any]]:
    """The shares of clamped users after some of the epochs."""
    settings = model_preset(preset)
    assert isinstance(settings, Settings)
    train, rng = load(data).train, np.random.default_rng(seed)
    device = torch.device("cpu")
    run = GradientTraining.start(train, settings, rng=rng, device=device)
    batches = settings.batches(train, device=device)
    assert isinstance(batches, UserEpochs)
    found = []
    for epoch in range(1, n_epochs + 1):
        for _ in run.one_epoch((epoch + 1) * run.n_steps):
            pass
        if epoch in LOOKED_AT or epoch == n_epochs:
            looked = thresholds(run, batches, np.random.default_rng(epoch))
            found.append({"epoch": epoch, "step": run.step, **shares(looked)})
    return found


@torch.no_grad()
def thresholds(run: GradientTraining, batches: UserEpochs, rng: np.random.Generator) -> Tensor:
    """The D̄ below which each user of an epoch would be clamped."""
    return torch.cat([of_batch(run.encoder(batch), batch) for batch in batches(rng)])


def of_batch(embeddings: Embeddings, batch: Batch) -> Tensor:
    """Ê₊[w⁺ℓ±]/R± of every user, with hard-sample weights and the sampling correction."""
    ratio = softplus(embeddings.users @ batch.of_candidates(embeddings.items).T)
    weight = ratio / batch.inclusion
    unlabelled = (weight * ratio.square()).sum(1) / weight.sum(1)
    at_positives = ratio[batch.rows, batch.columns]
    per_user = torch.zeros(len(batch.users), 2).index_add_(
        0, batch.rows, torch.stack([at_positives, 1 / at_positives], 1)
    )  # w⁺ r̂² is r̂, and w⁺ is 1/r̂
    return per_user[:, 0] / per_user[:, 1] / unlabelled


def shares(found: Tensor, bounds: Sequence[float] = BOUNDS) -> dict[str, Any]:
    """The share of users that each D̄ would clamp, and the largest D̄ that clamps anyone."""
    return {
        "largest_threshold": round(float(found.max()), 2),
        "median_threshold": round(float(found.median()), 2),
        "clamped": {
            f"{bound:g}": round(float((found > bound).float().mean()), 5) for bound in bounds
        },
    }


if __name__ == "__main__":
    main()
