"""Validation: the held-out pairs of early stopping, ranked where the model is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import RatioSplit, Split
from ratiorec.errors import ConfigError
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.scorers import Factored, Indices, Scorer
from ratiorec.scorers.topk import Exact, Progress, Ranking
from ratiorec.scorers.user_items import Pairs, UserItems, pairs_of

_BYTES_PER_SCORE = 8  # the score, and as much for finding the largest


@dataclass(frozen=True)
class GpuTopK:
    """Ranks by inner products on `device`; a model of another kind is ranked by `Exact`.

    Scores may differ from those of `Exact` in the last digit, and of equal scores at the end of a
    list either may be taken. That is enough to compare epochs; test figures come from `Exact`.
    """

    k: int
    device: torch.device
    memory_mb: float = 2048

    def stream(
        self,
        scorer: Scorer,
        users: Indices,
        *,
        seen: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Ranking]:
        """The ranking in consecutive blocks of users."""
        if not isinstance(scorer, Factored):
            yield from Exact(self.k).stream(scorer, users, seen=seen, progress=progress)
            return
        items = torch.from_numpy(scorer.item_vectors).to(self.device).T
        n_rows = max(1, int(self.memory_mb * 2**20) // (_BYTES_PER_SCORE * scorer.n_items))
        for start in range(0, len(users), n_rows):
            block = users[start : start + n_rows]
            scores = torch.from_numpy(scorer.user_vectors(block)).to(self.device) @ items
            if seen is not None:
                rows, columns = pairs_of(seen, block)
                places = torch.from_numpy(rows * scorer.n_items + columns).to(self.device)
                scores.view(-1)[places] = -torch.inf
            yield _best(scores, block, self.k)
            if progress is not None:
                progress(start + len(block), len(users))


def _best(scores: torch.Tensor, users: Indices, k: int) -> Ranking:
    """The k largest of each row; what was left out is filled up with -1."""
    best = scores.topk(min(k, scores.shape[1]))
    items = best.indices.masked_fill(best.values == -torch.inf, -1)
    return Ranking(users, items.cpu().numpy(), best.values.cpu().numpy())


SELECTED_BY = "ndcg@20"
# enough to tell two epochs apart; more would make validation slower than training
MOST_VALIDATION_USERS = 50_000

Metrics = dict[str, float]


def evaluate_on_device(
    scorer: Scorer, train: Interactions, held_out: Interactions, *, device: torch.device
) -> Metrics:
    """Recall@20 and nDCG@20 on held-out pairs, ranked where the model is trained."""
    ranker = None if device.type == "cpu" else partial(GpuTopK, device=device)
    report = evaluate(scorer, UserItems.of(train), held_out, ks=(20,), ranker=ranker)
    return {name: report.value(name) for name in ("recall@20", "ndcg@20")}


def split_for_validation(data: Interactions, fraction: float, rng: np.random.Generator) -> Split:
    """A share of each user's pairs held out, of at most so many users."""
    split = RatioSplit(fraction)(data, rng=rng)
    if split.held_out.n_pairs == 0:
        raise ConfigError(
            "no pair is left for validation",
            where="--validation",
            found=f"{fraction} of users with at most {int(data.user_degrees.max())} pairs",
            wanted="a larger share, or 0 to train for the configured epochs",
        )
    judged = np.flatnonzero(split.held_out.user_degrees)
    if len(judged) > MOST_VALIDATION_USERS:
        chosen = np.zeros(data.n_users, dtype=bool)
        chosen[rng.choice(judged, MOST_VALIDATION_USERS, replace=False)] = True
        held_out = split.held_out.select(chosen[split.held_out.pair_users])
        split = Split(split.train, held_out, split.n_users_kept_whole)
    return split
