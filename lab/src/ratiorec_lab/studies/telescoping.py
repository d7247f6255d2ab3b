"""A fixed item-item base inside the paper's risk, beside the same base blended in afterwards.

    python -m ratiorec_lab.studies.telescoping --data synthetic
    python -m ratiorec_lab.studies.telescoping --data ml-100k --validation-by last
    python -m ratiorec_lab.studies.telescoping --data gowalla --users 4000 --validation-by last

Telescoped training fits the residual: r̂ = softplus(κ·base(u,i) + e_uᵀe_i). The base has no diagonal
and is never trained; its scores are standardised by user as in a blend. «plain» is κ = 0. A tenth
of the pairs is held out. Half of its users choose the base, κ, λ, the epochs and the weights of
blends; the other half judge. `with_second_plain` has another plain model, of another seed, in the
place of the telescoped one: a third member helps whatever it is. With `--users` a seed draws users.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import split_for_validation
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.kernels.pointwise import LINKS
from ratiorec.losses.density_ratio import DensityRatio, candidate_weights, named
from ratiorec.scorers import FloatMatrix, Indices, Scorer
from ratiorec.scorers.blend import standardise
from ratiorec.settings import InverseTimeDecay, Settings, Training
from ratiorec.shapes import Embeddings, Scalar
from ratiorec.solvers.settings import AnySolver, LocalEASE, Walk
from ratiorec.training.blending import CandidateScores, Weights, difference, search_weights
from ratiorec.training.loop import GradientTraining
from ratiorec_lab.studies.study import parser, tell

BASES: dict[str, AnySolver] = {
    "walk (.7, .75, .2)": Walk(0.7, 0.75, 0.2),
    "walk (.5, .5, .5)": Walk(0.5, 0.5, 0.5),
    "local-ease": LocalEASE(),
    "local-ease (50, 0, 0, 0)": LocalEASE(50.0, 0.0, 0.0, 0.0),
}
KAPPAS = (0.0, 0.1, 0.3, 1.0)
L2 = (0.045, 0.01)
TENTH, RATE = 0.1, 0.03
EVERY, PATIENCE, MOST_EPOCHS = 3, 4, 90  # epochs between validations, and validations without gain
LEAST_PAIRS = 5  # of an item among the users drawn: fewer are far from the density of all
BLENDS = {
    "blend": ("plain", "base"),
    "telescoped_and_base": ("telescoped", "base"),
    "with_telescoped": ("plain", "base", "telescoped"),
    "with_second_plain": ("plain", "base", "second_plain"),
}
MEMBERS = ("plain", "base", "telescoped", "second_plain")
COMPARED = {"telescoped": ("plain", "blend"), "with_telescoped": ("blend", "with_second_plain")}
CPU = torch.device("cpu")


def main() -> None:
    """Every seed by itself."""
    options = parser(__doc__)
    options.add_argument("--data", default="synthetic")
    options.add_argument("--seeds", default="0,1,2", help="Numbers with commas between them.")
    options.add_argument("--validation-by", default="random", help="random or last.")
    options.add_argument("--users", type=int, help="So many users, drawn at random; else all.")
    options.add_argument("--learning-rate", type=float, default=RATE, help="Of the first step.")
    asked = options.parse_args()
    dataset, runs = load(asked.data), []
    for seed in map(int, asked.seeds.split(",")):
        rng = np.random.default_rng(seed)
        data = some_users(dataset.train, asked.users, rng) if asked.users else dataset.train
        with deterministic_threads():
            halves = Halves.of(data, asked.validation_by, rng)
            runs.append(compare(halves, seed=seed, rate=asked.learning_rate))
    part = "" if asked.learning_rate == RATE else f"rate-{asked.learning_rate}"
    about = {"dataset": dataset.name, "part": part, "data_sha256": dataset.train.sha256}
    tell({**about, **vars(asked), "runs": runs})


def some_users(data: Interactions, n_users: int, rng: np.random.Generator) -> Interactions:
    """Users drawn at random, with the items that several of them have."""
    kept = np.isin(data.pair_users, rng.choice(data.n_users, n_users, replace=False))
    degrees = np.bincount(data.indices[kept], minlength=data.n_items)
    kept &= (degrees >= LEAST_PAIRS)[data.indices]
    users, items, moments = data.pair_users[kept], data.indices[kept], data.moments
    times = None if moments is None else moments[kept]
    return Interactions.from_pairs(users, items, timestamps=times)


@dataclass(frozen=True, eq=False)
class Halves:
    """Pairs to train on, held-out pairs, and the users whose held-out pairs choose and judge."""

    train: Interactions
    held_out: Interactions
    choosing: Indices
    judging: Indices

    @classmethod
    def of(cls, data: Interactions, by: str, rng: np.random.Generator) -> Halves:
        """A tenth of the pairs held out, its users dealt into two halves."""
        split = split_for_validation(data, TENTH, rng, by)
        users = rng.permutation(np.flatnonzero(split.held_out.user_degrees))
        choosing, judging = (np.sort(half) for half in np.array_split(users, 2))
        return cls(split.train, split.held_out, choosing, judging)

    def table(self, members: Sequence[Scorer], users: Indices) -> CandidateScores:
        """What these members say of some users."""
        return CandidateScores.of(members, self.train, self.held_out, users)

    def chosen_by(self, scorer: Scorer) -> float:
        """nDCG@20 of the users who choose."""
        return float(self.table([scorer], self.choosing).alone(0).mean())


@dataclass(frozen=True, eq=False)
class Telescoped(DensityRatio):
    """The paper's risk of scores to which fixed ones are added, on whole matrices (theory: R5)."""

    name: ClassVar[str] = "telescoped"
    supports_cuda_graph: ClassVar[bool] = False

    base: Tensor | None = None  # κ·base(u,i) of all users and items [U, I]

    def __call__(self, embeddings: Embeddings, batch: Any) -> Scalar:
        assert self.base is not None
        f, fixed = self._divergence()[0], self.base[batch.users][:, batch.candidates]
        scores = torch.addmm(fixed, embeddings.users, batch.of_candidates(embeddings.items).T)
        ratio = named(LINKS, self.link).ratio(scores)  # [B, C]
        liked = ratio[batch.rows, batch.columns]
        weight = self.weights.unlabelled(batch)
        split, gain, bounded = self._labelled(
            f.unlabelled_loss(liked), f.positive_loss(liked), liked.detach(), weight, batch
        )
        w_minus = candidate_weights(batch, self.candidate_correction) * ratio.detach()
        unlabelled = (w_minus * ratio.square()).sum(1) / (2 * w_minus.sum(1))
        bound = bounded / self.upper_bound
        value: Tensor = (split + gain + bound + (unlabelled - bound).clamp_min(0)).mean()
        return value


@dataclass(frozen=True, eq=False)
class Sum:
    """Fixed scores, and those of a model added to them where there is one."""

    fixed: FloatMatrix  # [U, I]
    residual: Scorer | None = None

    n_users = property(lambda self: len(self.fixed))
    n_items = property(lambda self: self.fixed.shape[1])

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """Of some users with all items."""
        fixed = self.fixed[users]
        return fixed if self.residual is None else fixed + self.residual.scores(users)


class Trained(NamedTuple):
    """A model with what it was trained with, and nDCG@20 of the users who chose its epoch."""

    ndcg: float
    kappa: float
    l2: float
    epoch: int
    scorer: Scorer

    def told(self) -> dict[str, float]:
        """All but the model."""
        return {"kappa": self.kappa, "l2": self.l2, "epochs": self.epoch, "ndcg@20": self.ndcg}


def train(
    halves: Halves, base: FloatMatrix, kappa: float, l2: float, *, seed: int, rate: float
) -> Trained:
    """The best epoch of a model with κ times the base; without a base it is the library's own."""
    fixed = np.float32(kappa) * base
    risk = Telescoped(base=torch.from_numpy(fixed)) if kappa else DensityRatio()
    schedule = Training(learning_rate=rate, l2=l2, lr_schedule=InverseTimeDecay(120))
    settings, rng = Settings(risk=risk, training=schedule), np.random.default_rng(seed)
    run = GradientTraining.start(halves.train, settings, rng=rng, device=CPU)
    best, without_gain = Trained(0.0, kappa, l2, 0, Sum(fixed)), 0
    while without_gain < PATIENCE and run.epoch < MOST_EPOCHS:
        for _ in range(EVERY):
            list(run.one_epoch(run.last_step))
        scorer = Sum(fixed, run.scorer()) if kappa else run.scorer()
        ndcg = halves.chosen_by(scorer)
        without_gain += 1
        if ndcg > 1.001 * best.ndcg:
            best, without_gain = Trained(ndcg, kappa, l2, run.epoch, scorer), 0
    print(f"seed {seed}: {best.told()}", file=sys.stderr, flush=True)
    return best


def find_base(halves: Halves) -> tuple[str, Sum, dict[str, float]]:
    """The base that the choosing users find best, standardised, and nDCG@20 of each."""
    context: Any = {"rng": np.random.default_rng(0), "device": CPU, "memory_mb": 2048}
    solved = {n: solver.start(halves.train, **context).scorer() for n, solver in BASES.items()}
    tried = {name: halves.chosen_by(scorer) for name, scorer in solved.items()}
    best = max(tried, key=lambda name: tried[name])
    return best, Sum(standardise(solved[best].scores(np.arange(halves.train.n_users)))), tried


def compare(halves: Halves, *, seed: int, rate: float) -> dict[str, Any]:
    """Everything chosen by one half of the users, and judged by the other."""
    started = time.monotonic()
    name, base, tried = find_base(halves)
    grid = [train(halves, base.fixed, k, l2, seed=seed, rate=rate) for k in KAPPAS for l2 in L2]
    plain = max((one for one in grid if not one.kappa), key=lambda one: one.ndcg)
    telescoped = max((one for one in grid if one.kappa), key=lambda one: one.ndcg)
    second = train(halves, base.fixed, 0.0, plain.l2, seed=seed + 1000, rate=rate)
    members = [plain.scorer, base, telescoped.scorer, second.scorer]
    choosing, judging = (halves.table(members, u) for u in (halves.choosing, halves.judging))
    weights = blend_weights(choosing)
    ndcg = {model: judging.ndcg(found) for model, found in weights.items()}
    return {
        "seed": seed,
        "train": {name: getattr(halves.train, name) for name in ("n_users", "n_items", "n_pairs")},
        "users": {"choosing": len(halves.choosing), "judging": len(halves.judging)},
        "base": {"chosen": name, "ndcg@20": tried},
        "trained": [one.told() for one in grid],
        "telescoped": telescoped.told(),
        "weights": {model: weights[model].round(4).tolist() for model in BLENDS},
        "judged": {model: judging.metrics(found) for model, found in weights.items()},
        "differences": [
            {"of": a, "from": b, "mean": float((ndcg[a] - ndcg[b]).mean()), "interval": interval}
            for a, others in COMPARED.items()
            for b in others
            for interval in [difference(ndcg[a], ndcg[b])]
        ],
        "seconds": round(time.monotonic() - started, 1),
    }


def blend_weights(choosing: CandidateScores) -> dict[str, Weights]:
    """Of each member alone and of each blend, by all `MEMBERS`; searched as `auto` does."""
    weights: dict[str, Weights] = dict(zip(MEMBERS, np.eye(len(MEMBERS)), strict=True))
    for blend, names in BLENDS.items():
        places = [MEMBERS.index(name) for name in names]
        weights[blend] = np.zeros(len(MEMBERS))
        part = CandidateScores(choosing.scores[places], choosing.relevant, choosing.n_relevant)
        weights[blend][places] = search_weights(part).weights
    return weights


if __name__ == "__main__":
    main()
