"""Nearest neighbours among items, by the users they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ratiorec.blocks import for_each_block
from ratiorec.data.interactions import Interactions
from ratiorec.scorers import Neighbours
from ratiorec.seen import SeenItems
from ratiorec.solvers.budget import require_memory
from ratiorec.solvers.common_users import (
    CommonUsers,
    item_blocks,
    most_neighbours,
    working_bytes,
)
from ratiorec.solvers.protocol import OneSweep
from ratiorec.solvers.ranges import require_at_least

_BYTES_PER_NEIGHBOUR = 40  # what is kept, once by item and once by neighbour


class _Nearest(NamedTuple):
    """The nearest items of a few consecutive ones, best first."""

    n_neighbours: NDArray[np.int64]  # of each item
    neighbours: NDArray[np.int32]
    similarities: NDArray[np.float32]


@dataclass(frozen=True)
class ItemKNN:
    """s(u,i) = Σ sim(i,j) over what user u has among the `n_neighbours` nearest of item i.

    sim(i,j) = Σ_{u ∈ U_i⁺ ∩ U_j⁺} |I_u⁺|^−β / (√(|U_i⁺||U_j⁺|) + shrinkage), with β the
    `user_exponent`: who has many items says less about any two of them (theory: N2). β = 0 is
    the shrunk cosine. Of equally near items the one with the smaller index counts as nearer.
    """

    n_neighbours: int = 200
    shrinkage: float = 20.0
    user_exponent: float = 0.5

    def __post_init__(self) -> None:
        require_at_least(1, n_neighbours=self.n_neighbours)
        require_at_least(0, shrinkage=self.shrinkage, user_exponent=self.user_exponent)

    @property
    def n_sweeps(self) -> int:
        return 1

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> OneSweep:
        """Solved on the processor, whatever the device: the work is sparse."""
        del rng, device
        n_entries = most_neighbours(data)
        n_kept = int(np.minimum(n_entries, self.n_neighbours).sum())
        working = working_bytes(data, longest_row=int(n_entries.max(initial=0)))
        require_memory(
            working + _BYTES_PER_NEIGHBOUR * n_kept,
            memory_mb=memory_mb,
            solver="item-knn",
            n_items=data.n_items,
            instead="fewer solver.n_neighbours, wmf or dregn-cf",
        )
        return OneSweep(lambda: self._solve(data, item_blocks(n_entries)))

    def _solve(self, data: Interactions, blocks: list[slice]) -> Neighbours:
        import scipy.sparse

        weights = np.maximum(data.user_degrees, 1) ** -float(self.user_exponent)
        common = CommonUsers(data, weights)
        found: dict[int, _Nearest] = {}

        def one_block(items: slice) -> None:
            found[items.start] = self._nearest(common, items, data.item_degrees)

        for_each_block(one_block, blocks)
        parts = [found.pop(items.start) for items in blocks]
        n_neighbours, neighbours, similarities = map(np.concatenate, zip(*parts, strict=True))
        indptr = np.concatenate([[0], np.cumsum(n_neighbours)])
        of_items = scipy.sparse.csr_array(
            (similarities, neighbours, indptr), shape=(data.n_items, data.n_items)
        )
        # a history is looked up by what it holds: by neighbour
        rows = of_items.T.tocsr()
        return Neighbours(
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            rows.data,
            SeenItems.of(data),
        )

    def _nearest(self, common: CommonUsers, items: slice, degrees: NDArray[np.int64]) -> _Nearest:
        """The `n_neighbours` most similar of all items that share a user with one of these."""
        products = common.rows(items)
        indptr = products.indptr.astype(np.int64)
        neighbours = products.indices.astype(np.int32)
        places = np.repeat(np.arange(items.stop - items.start), np.diff(indptr))
        norms = np.sqrt(degrees[places + items.start] * degrees[neighbours])
        similarities = (products.data / (norms + self.shrinkage)).astype(np.float32)
        similarities[neighbours == places + items.start] = 0
        order = _first_of_each(places, similarities, neighbours, indptr, self.n_neighbours)
        order = order[similarities[order] > 0]
        n_neighbours = np.bincount(places[order], minlength=items.stop - items.start)
        return _Nearest(n_neighbours, neighbours[order], similarities[order])


def _first_of_each(
    rows: NDArray[np.int64],
    values: NDArray[np.float32],
    columns: NDArray[np.int32],
    indptr: NDArray[np.int64],
    n: int,
) -> NDArray[np.int64]:
    """Where the n largest values of each row are, largest first, then smallest column first.

    Values are 0 or more, so their bits have their order. One sort of plain numbers finds the
    n-th largest of every row; only what reaches it is put into order.
    """
    bits = values.view(np.uint32)
    keys = rows.astype(np.uint64) << np.uint64(32) | (~bits).astype(np.uint64)
    last = np.minimum(indptr[:-1] + n, indptr[1:]) - 1
    bounds = np.sort(keys)[last] if len(keys) else keys
    few = np.flatnonzero(keys <= bounds[rows])
    few = few[np.lexsort((columns[few], keys[few]))]
    ranks = np.arange(len(few)) - np.searchsorted(rows[few], rows[few])
    kept: NDArray[np.int64] = few[ranks < n]
    return kept
