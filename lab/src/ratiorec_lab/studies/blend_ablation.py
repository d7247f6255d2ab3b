"""Members of the automatic choice: each alone, and the blend without each, chosen anew.

    python -m ratiorec_lab.studies.blend_ablation --data gowalla --seeds 0,1,2 --device cuda
    python -m ratiorec_lab.studies.blend_ablation --data gowalla --validation-by random,last

One automatic fit for each seed and each way to draw validation pairs, and nothing is searched
twice: the weights without a member come from the same held-out pairs, and members that got no
weight are refitted on all pairs as well. The test part judges what was chosen, and chooses nothing.
`test_of_model` is of the model as it is saved, whose joined vectors may be in fewer dimensions than
those of the sums that are compared here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Dataset
from ratiorec.data.split import Split
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.kernels.gpu_topk import Score, scores_on, standardised
from ratiorec.scorers import Indices, Scorer, StoredScorer
from ratiorec.scorers.scorer import Pairs, UserItems, pairs_of
from ratiorec.scorers.topk import Progress, Ranking
from ratiorec.settings import AutoSettings
from ratiorec.training.auto import AutoSession, Member, alike
from ratiorec.training.blending import CandidateScores, Weights, search_weights
from ratiorec.training.compare import with_test_part
from ratiorec.training.experiment import find_device
from ratiorec.training.fit import FitOptions, FitResult
from ratiorec.training.team import evaluate_on_device
from ratiorec_lab.studies.study import parser, tell

TEST_SHARE = 0.2  # of each user's pairs, where the data have no test part
K = 20
_SCORES_AT_ONCE = 2**25  # of each member
Metrics = dict[str, float]


def main() -> None:
    """Every way of validating with every seed."""
    options = parser(__doc__)
    options.add_argument("--data", default="gowalla")
    options.add_argument("--seeds", default="0", help="Numbers with commas between them.")
    options.add_argument("--device", default="auto")
    options.add_argument("--max-seconds", type=float, default=110.0, help="Of each automatic fit.")
    options.add_argument("--validation-by", help="random, last or both with a comma; else chosen.")
    asked = options.parse_args()
    dataset = with_test_part(load(asked.data), TEST_SHARE)
    device = torch.device(str(find_device(asked.device)))
    ways = asked.validation_by.split(",") if asked.validation_by else [None]
    tell(
        {
            "dataset": dataset.name,
            "data_sha256": dataset.train.sha256,
            "part": "-".join(filter(None, ways)),
            "device": str(device),
            "max_seconds": asked.max_seconds,
            "runs": [
                ablation(
                    dataset,
                    FitOptions(max_seconds=asked.max_seconds, validation_by=way),
                    seed=int(seed),
                    device=device,
                )
                for way in ways
                for seed in asked.seeds.split(",")
            ],
        }
    )


def ablation(
    dataset: Dataset, options: FitOptions, *, seed: int, device: torch.device
) -> dict[str, Any]:
    """One automatic fit taken apart."""
    started = time.monotonic()
    session = Ablation(dataset.train, AutoSettings(), options, seed=seed, device=device)
    fitted = session()
    session.refit_the_rest()
    judged = [member for member in session.tried if member.name in session.scorers]
    names = [member.name for member in judged]
    blends = [{member.name: member.weight for member in judged}]
    blends += [found.weights for found in session.without.values()]
    models = [*np.eye(len(names)), *(np.array([b.get(n, 0.0) for n in names]) for b in blends)]
    say(f"{len(models)} models on the test part", seed)
    figures = judge([session.scorers[name] for name in names], models, dataset, device)
    assert dataset.test is not None
    whole = evaluate_on_device(fitted.scorer, dataset.train, dataset.test, device=device)
    alone, (chosen, *without) = dict(zip(names, figures, strict=False)), figures[len(names) :]
    result = {
        "seed": seed,
        "validation_by": session.validation_by,
        "validation_users": fitted.n_validation_users,
        "seconds": {
            "auto": round(fitted.seconds - session.extra_seconds, 3),
            "total": round(time.monotonic() - started, 3),
        },
        "chosen": {"validation": fitted.validation, "test": chosen, "test_of_model": whole},
        "members": [asdict(one) | {"test": alone.get(one.name)} for one in session.tried],
        "without": [
            {"left_out": name, **found._asdict(), "test": test}
            for (name, found), test in zip(session.without.items(), without, strict=True)
        ],
    }
    print("\n".join(summary(result)), file=sys.stderr, flush=True)
    return result


def summary(run: dict[str, Any]) -> list[str]:
    """The figures of a run in a few lines."""
    models = [("chosen", run["chosen"])]
    models += [(f"{m['weight']:.2f} {m['name']}", m) for m in run["members"] if m["test"]]
    models += [(f"without {found['left_out']}", found) for found in run["without"]]
    return [
        f"{name:<40}{validation['ndcg@20']:>8.4f}{test['recall@20']:>8.4f}{test['ndcg@20']:>8.4f}"
        for name, model in models
        for validation, test in [(model["validation"], model["test"])]
    ]


class Reweighed(NamedTuple):
    """Weights of the members that are left, and the figures on the held-out pairs."""

    weights: dict[str, float]
    validation: Metrics


class Ablation(AutoSession):
    """An automatic fit that keeps its members, refitted, and weighs them without each of them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.scorers: dict[str, StoredScorer] = {}
        self.without: dict[str, Reweighed] = {}
        self.extra_seconds = 0.0  # of the automatic fit, which it would not have taken

    def refit_the_rest(self) -> None:
        """Refit those without a weight too."""
        for member in self.tried:
            if member.settings is not None and member.name not in self.scorers:
                self._refit(member)

    def _refit(self, member: Member) -> FitResult:
        say(f"refit of {member.name}", self.seed)
        fitted = super()._refit(member)
        self.scorers[member.name] = fitted.scorer
        return fitted

    def _table(self, scorers: Sequence[Scorer], split: Split) -> CandidateScores:
        self.table = super()._table(scorers, split)
        return self.table

    def _weigh(self, found: Mapping[str, StoredScorer], split: Split) -> Metrics:
        validation = super()._weigh(found, split)
        started = time.monotonic()
        by_name = {member.name: member for member in self.tried}
        groups = alike([by_name[name] for name in found])
        weights = np.array([by_name[name].weight for name in found])
        self.without = without_each(list(found), self.table, weights, groups)
        self.extra_seconds = time.monotonic() - started
        say(f"weights without each member, {self.extra_seconds:.1f} s", self.seed)
        return validation


def without_each(
    names: Sequence[str], table: CandidateScores, chosen: Weights, groups: Sequence[Sequence[int]]
) -> dict[str, Reweighed]:
    """The best weights without each member, and without all of a group.

    Without one that has no weight the blend is what it is.
    """
    left_out = [[place] for place in range(len(names))] + [list(g) for g in groups if len(g) > 1]
    found = {}
    for gone in left_out:
        kept = [place for place in range(len(names)) if place not in gone]
        if not kept:
            continue
        part, weights = replace(table, scores=table.scores[kept]), chosen[kept]
        if chosen[gone].any():
            places = {place: new for new, place in enumerate(kept)}
            kept_of = [[places[place] for place in group if place in places] for group in groups]
            weights = search_weights(part, [group for group in kept_of if len(group) > 1]).weights
        named = dict(zip((names[place] for place in kept), weights.round(4).tolist(), strict=True))
        name = " and ".join(names[place] for place in gone)
        found[name] = Reweighed({n: w for n, w in named.items() if w}, part.metrics(weights))
    return found


def judge(
    members: Sequence[Scorer], blends: Sequence[Weights], dataset: Dataset, device: torch.device
) -> list[Metrics]:
    """Test figures of several blends of the same members; each member scores a user once."""
    test, seen = dataset.test, UserItems.of(dataset.train)
    assert test is not None
    users = np.flatnonzero(test.user_degrees)
    blocks = list(_ranked(members, blends, users, seen, device))
    figures = []
    for lists in zip(*blocks, strict=True):
        report = evaluate(members[0], seen, test, ks=(K,), ranker=_Made(lists))
        figures.append({name: report.value(name) for name in ("recall@20", "ndcg@20")})
    return figures


def _scores(scorer: Scorer, device: torch.device) -> Score:
    """How a model scores; on a CPU by itself, which takes the products of a GPU far longer."""
    if device.type == "cpu":
        return lambda users: torch.from_numpy(scorer.scores(users))
    return scores_on(scorer, device)


def _ranked(
    members: Sequence[Scorer],
    blends: Sequence[Weights],
    users: Indices,
    seen: Pairs,
    device: torch.device,
) -> Iterator[list[Ranking]]:
    """Blocks of users with the lists of each blend."""
    score, n_items = [_scores(member, device) for member in members], members[0].n_items
    n_rows = max(1, _SCORES_AT_ONCE // n_items)
    for start in range(0, len(users), n_rows):
        block = users[start : start + n_rows]
        scores = [standardised(member(block)) for member in score]
        rows, columns = pairs_of(seen, block)
        places = torch.from_numpy(rows * n_items + columns).to(device)
        lists = []
        for weights in blends:
            total = torch.zeros((len(block), n_items), device=device)
            for member in np.flatnonzero(weights):
                total.add_(scores[member], alpha=float(weights[member]))
            total.view(-1)[places] = -torch.inf
            best = total.topk(min(K, n_items))
            items = best.indices.masked_fill(best.values == -torch.inf, -1)
            lists.append(Ranking(block, items.cpu().numpy(), best.values.cpu().numpy()))
        yield lists


@dataclass(frozen=True)
class _Made:
    """Lists that have been made, in the place of what makes them."""

    lists: Sequence[Ranking]

    def __call__(self, k: int) -> _Made:
        return self

    def stream(
        self,
        scorer: Scorer,
        users: Indices,
        *,
        seen: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Sequence[Ranking]:
        return self.lists


def say(what: str, seed: int) -> None:
    """A line on standard error."""
    print(f"seed {seed}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
