"""Learning from pairs of items: a positive is to score higher than an unlabelled one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ratiorec.data.pair_batches import PairBatch
from ratiorec.scores import Embeddings
from ratiorec.shapes import PairIndex, Scalar


@dataclass(frozen=True)
class BPR:
    """−mean of log σ(s(u,i) − s(u,j)) over pairs of a positive i and an unlabelled j (theory: R11).

    `embeddings` are those of the batch's users, row by row, and of all items. Of several
    unlabelled items the one that scores highest counts.
    """

    def __call__(self, embeddings: Embeddings, batch: PairBatch) -> Scalar:
        # selected together, both have one gradient of the whole table between them, not two
        compared = torch.cat([batch.items, highest_scored(embeddings, batch)])
        positive, unlabelled = embeddings.items.index_select(0, compared).chunk(2)
        difference = (embeddings.users * (positive - unlabelled)).sum(-1)
        return -functional.logsigmoid(difference).mean()


@torch.no_grad()
def highest_scored(embeddings: Embeddings, batch: PairBatch) -> PairIndex:
    """j = argmax s(u, j) over the unlabelled items drawn for each pair; ties go to the first."""
    drawn = batch.unlabelled
    if drawn.shape[1] == 1:
        return drawn[:, 0]
    scores = torch.einsum("pd,pjd->pj", embeddings.users, embeddings.items[drawn])
    return drawn.gather(1, scores.argmax(1, keepdim=True)).squeeze(1)
