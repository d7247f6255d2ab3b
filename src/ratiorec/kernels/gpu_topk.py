"""Scores and top-k on a GPU, for judging a model where it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ratiorec.kernels.blocks import Matrix
from ratiorec.machine import Device
from ratiorec.scorers import (
    Blend,
    Factored,
    FloatMatrix,
    GraphFilterScorer,
    Indices,
    ItemWeights,
    Neighbours,
    PopularityScorer,
    Scorer,
    WalkScorer,
)
from ratiorec.scorers.scorer import Pairs, pairs_of
from ratiorec.scorers.topk import Progress, Ranking

_BYTES_PER_SCORE = 24  # the score, a member's and a history beside it, and what finds the largest
_LEAST_SPREAD = 1e-12  # as in `Blend`

Score = Callable[[Indices], Tensor]
"""Scores of users against all items [n, n_items], on a device."""


def scores_on(scorer: Scorer, device: torch.device) -> Score:
    """How a device scores; a kind of model that it does not know is scored on the CPU."""

    def of(array: FloatMatrix) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    match scorer:
        case Blend():
            return _blend(scorer, device)
        case WalkScorer():
            return _walk(scorer, device)
        case GraphFilterScorer():
            return _filter(scorer, device)
        case Neighbours():
            said = _transposed(scorer, scorer.values, scorer.n_items, device)
            return lambda users: said.multiply(_histories(scorer, users, device)).T
        case ItemWeights():
            weights = of(scorer.weights)
            return lambda users: _histories(scorer, users, device).T @ weights
        case PopularityScorer():
            counts = of(scorer.counts)
            return lambda users: counts.repeat(len(users), 1)
        case Factored():
            items = of(scorer.item_vectors).T
            return lambda users: of(scorer.user_vectors(users)) @ items
    return lambda users: of(scorer.scores(users))


class BestOfEach:
    """The best items of several models by scores standardised on a device (theory: G2)."""

    def __init__(self, members: Sequence[Scorer], seen: Pairs, device: Device) -> None:
        self._device = torch.device(str(device))
        self._members = [scores_on(member, self._device) for member in members]
        self._seen, self._n_items = seen, members[0].n_items

    def __call__(self, users: Indices, k: int) -> tuple[Indices, FloatMatrix]:
        """The k best items of each member side by side, and their scores by every member."""
        rows, columns = pairs_of(self._seen, users)
        places = torch.from_numpy(rows * self._n_items + columns).to(self._device)
        scores = [standardised(member(users)).contiguous() for member in self._members]
        for row in scores:
            row.view(-1)[places] = -torch.inf
        items = torch.cat([row.topk(k).indices for row in scores], dim=1)
        chosen = torch.stack([row.gather(1, items) for row in scores])
        return items.cpu().numpy(), chosen.cpu().numpy()


def _histories(
    scorer: Neighbours | ItemWeights | WalkScorer, users: Indices, device: torch.device
) -> Tensor:
    """The histories of some users as columns of ones [n_items, n]."""
    rows, items = pairs_of(scorer.histories, users)
    places = torch.from_numpy(items.astype(np.int64) * len(users) + rows).to(device)
    columns = torch.zeros((scorer.n_items, len(users)), device=device)
    columns.view(-1)[places] = 1
    return columns


def _transposed(pairs: Pairs, values: FloatMatrix, n_items: int, device: torch.device) -> Matrix:
    """The transpose of a sparse matrix with these rows."""
    import scipy.sparse

    shape = (len(pairs.indptr) - 1, n_items)
    rows = scipy.sparse.csr_array((values, pairs.indices, pairs.indptr), shape=shape).T.tocsr()
    return Matrix(
        rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data, shape[0], device
    )


def _walk(scorer: WalkScorer, device: torch.device) -> Score:
    """Both steps of the walk as products with the pairs."""
    graph = scorer.graph
    assert graph is not None
    a, b, c = scorer.exponents.astype(np.float64)
    degrees, lengths = np.maximum(scorer.item_degrees, 1).astype(np.float64), np.diff(graph.indptr)
    of_users = np.repeat(np.maximum(lengths, 1) ** -b, lengths)
    if scorer.pair_weights is not None:
        of_users = of_users * scorer.pair_weights
    source, target = degrees[graph.indices] ** -a, degrees[graph.indices] ** -c
    start, end = source.astype(np.float32), (of_users * target).astype(np.float32)
    forth = Matrix(graph.indptr, graph.indices, start, scorer.n_items, device)
    on = _transposed(graph, end, scorer.n_items, device)
    back = np.bincount(graph.indices, source * of_users * target, minlength=scorer.n_items)
    way_back = torch.from_numpy(back.astype(np.float32)).to(device).unsqueeze(-1)

    def score(users: Indices) -> Tensor:
        histories = _histories(scorer, users, device)
        return (on.multiply(forth.multiply(histories)) - way_back * histories).T

    return score


def _filter(scorer: GraphFilterScorer, device: torch.device) -> Score:
    walk, linear = _walk(scorer.walk, device), float(scorer.linear_gain[0])
    inputs, outputs = (torch.from_numpy(part).to(device) for part in scorer.low_rank_factors)

    def score(users: Indices) -> Tensor:
        vectors = inputs.T @ _histories(scorer.walk, users, device)
        return linear * walk(users) + (outputs @ vectors).T

    return score


def _blend(scorer: Blend, device: torch.device) -> Score:
    """Joined members by one product, as the blend has them; the others one by one."""
    weights = scorer.weights.tolist()
    others = [
        (scores_on(member, device), weight)
        for member, weight in zip(scorer.members, weights, strict=True)
        if not isinstance(member, Factored)
    ]
    joined = _joined(scorer, device) if len(others) < len(weights) else None

    def score(users: Indices) -> Tensor:
        total = torch.zeros((len(users), scorer.n_items), device=device)
        if joined is not None:
            total += joined(users)
        for member, weight in others:
            total += standardised(member(users)).mul_(weight)
        return total

    return score


def _joined(scorer: Blend, device: torch.device) -> Score:
    """The members that are inner products as one, narrowed where the blend is (theory: G3)."""
    parts, centred = [], []
    for member, weight in zip(scorer.members, scorer.weights.tolist(), strict=True):
        if isinstance(member, Factored):
            items = torch.from_numpy(np.ascontiguousarray(member.item_vectors)).to(device)
            items = items - items.mean(0)
            parts.append((member, weight, items.T @ items / len(items)))
            centred.append(items)
    maps = None
    if scorer.narrowing is not None:
        maps = [torch.from_numpy(np.ascontiguousarray(m)).to(device) for m in scorer.narrowing]
    items = torch.cat(centred, 1) if maps is None else torch.cat(centred, 1) @ maps[1]

    def score(users: Indices) -> Tensor:
        vectors = []
        for member, weight, spread in parts:
            some = torch.from_numpy(np.ascontiguousarray(member.user_vectors(users))).to(device)
            sigma = ((some @ spread) * some).sum(1, keepdim=True).clamp_min(0).sqrt()
            vectors.append(some * (weight / sigma.where(sigma > 0, torch.inf)))
        joined = torch.cat(vectors, 1)
        return (joined if maps is None else joined @ maps[0]) @ items.T

    return score


def standardised(scores: Tensor) -> Tensor:
    """Each row less its mean, over its standard deviation; 0 where all of it is alike."""
    scores = scores - scores.mean(1, keepdim=True)
    scores = scores / scores.abs().amax(1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)
    sigma = scores.square().mean(1, keepdim=True).sqrt()
    return scores / sigma.where(sigma > _LEAST_SPREAD, torch.inf)


@dataclass(frozen=True)
class GpuTopK:
    """Ranks on `device`; scores may differ from those of `Exact` in the last digit."""

    k: int
    device: Device
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
        device = torch.device(str(self.device))
        score = scores_on(scorer, device)
        n_rows = max(1, int(self.memory_mb * 2**20) // (_BYTES_PER_SCORE * scorer.n_items))
        for start in range(0, len(users), n_rows):
            block = users[start : start + n_rows]
            scores = score(block).contiguous()
            if seen is not None:
                rows, columns = pairs_of(seen, block)
                places = torch.from_numpy(rows * scorer.n_items + columns).to(device)
                scores.view(-1)[places] = -torch.inf
            yield _best(scores, block, self.k)
            if progress is not None:
                progress(start + len(block), len(users))


def _best(scores: Tensor, users: Indices, k: int) -> Ranking:
    """The k largest of each row, of equal ones the first; filled up with -1."""
    k = min(k, scores.shape[1])
    last = scores.topk(k).values[:, -1:]
    above, tied = scores > last, scores == last
    room = k - above.sum(1, keepdim=True)
    chosen = above | (tied & (tied.cumsum(1, dtype=torch.int32) <= room))
    items = chosen.nonzero()[:, 1].view(len(users), k)
    values, order = scores.gather(1, items).sort(dim=1, descending=True, stable=True)
    items = items.gather(1, order).masked_fill(values == -torch.inf, -1)
    return Ranking(users, items.cpu().numpy(), values.cpu().numpy())
