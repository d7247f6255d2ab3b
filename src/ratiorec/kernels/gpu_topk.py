"""Top-k on a GPU, for validating a model while it is trained there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ratiorec.scorers import Factored, Indices, Scorer
from ratiorec.scorers.scorer import Pairs, pairs_of
from ratiorec.scorers.topk import Exact, Progress, Ranking

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
