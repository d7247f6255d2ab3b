"""Bayesian personalised ranking (BPR): a positive is to score higher than a sampled negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ratiorec.losses import Loss

if TYPE_CHECKING:
    from ratiorec.batches.pairs import PairBatch
    from ratiorec.shapes import DrawnIndex, Embeddings, Scalar


@dataclass(frozen=True)
class BPR(Loss):
    """−mean of log σ(s(u,i) − s(u,j)) over positives i and their sampled negatives j (theory: R11).

    With `hardest`, only the negative that scores highest counts: dynamic negative sampling
    (DNS) (theory: P6).
    """

    name: ClassVar[str] = "bpr"
    needs: ClassVar[Literal["users", "pairs"]] = "pairs"
    uses_weights: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = True

    hardest: bool = False

    def __call__(self, embeddings: Embeddings, batch: PairBatch) -> Scalar:
        from torch import cat, split_with_sizes
        from torch.nn import functional

        negatives = hardest_negatives(embeddings, batch) if self.hardest else batch.negatives
        n_pairs, n_negatives = negatives.shape
        # selected together, both have one gradient of the whole table between them, not two
        compared = cat([batch.items, negatives.T.reshape(-1)])
        vectors = embeddings.items.index_select(0, compared).view(1 + n_negatives, n_pairs, -1)
        positive, negative = split_with_sizes(vectors, [1, n_negatives])
        difference = (embeddings.users * (positive - negative)).sum(-1)
        gains = functional.logsigmoid(difference)
        if batch.weights is None:
            return -gains.mean()
        return -(gains.mean(0) * batch.weights).sum() / batch.weights.sum()


def hardest_negatives(embeddings: Embeddings, batch: PairBatch) -> DrawnIndex:
    """j = argmax s(u, j) over the negatives drawn for each pair; ties go to the first."""
    from torch import einsum, no_grad

    drawn = batch.negatives
    if drawn.shape[1] == 1:
        return drawn
    with no_grad():
        scores = einsum("pd,pjd->pj", embeddings.users, embeddings.items[drawn])
    return drawn.gather(1, scores.argmax(1, keepdim=True))
