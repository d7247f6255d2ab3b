"""Linear regression of every item on its nearest items, by many small solutions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.kernels.blocks import cut, for_each_block
from ratiorec.machine import Device
from ratiorec.scorers import FloatMatrix, Neighbours
from ratiorec.solvers.ease import require_solved
from ratiorec.solvers.neighbours import (
    CommonRows,
    CountedUsers,
    Nearest,
    find_nearest,
    item_blocks,
    most_neighbours,
    neighbour_bytes,
    walk_weights,
)
from ratiorec.solvers.settings import LocalEASE
from ratiorec.solvers.solver import OneSweep, require_memory

_BYTES_OF_SYSTEMS = 2**30  # a pass over all common users fills so many at once
_LEAST_SYSTEMS = 64  # what is solved in one go
_BYTES_PER_NEIGHBOUR = 48  # the table of neighbours, its order, and the solutions

Table = NDArray[np.int64]


def start_local_ease(
    data: Interactions,
    settings: LocalEASE,
    *,
    device: Device,
    memory_mb: float,
    common_users: CountedUsers,
) -> OneSweep:
    """Local EASE before its neighbours are found."""
    n = max(1, min(settings.n_neighbours, data.n_items - 1))
    kept = neighbour_bytes(data, n) + _BYTES_PER_NEIGHBOUR * n * data.n_items
    least = 3 * 4 * n * n * _LEAST_SYSTEMS
    require_memory(
        kept + least,
        memory_mb=memory_mb,
        solver=settings.name,
        n_items=data.n_items,
        instead="fewer solver.n_neighbours, item-knn or walk",
    )
    # a ridge that is lost beside the degree it is added to leaves equal items equal
    smallest = np.finfo(np.float32).eps * data.item_degrees
    require_solved(bool((settings.ridges(data.item_degrees) > smallest).all()), settings)
    room = min(_BYTES_OF_SYSTEMS, memory_mb * 2**20 - kept - least)
    n_at_once = max(_LEAST_SYSTEMS, int(room / (4 * n * n)))

    def solve() -> Neighbours:
        weights = data.relative_weights
        if device.type == "cuda" and weights is None:
            from ratiorec.solvers.local_ease_gpu import fits_whole, solve_by_whole_matrix

            if fits_whole(data.n_items, device):
                return solve_by_whole_matrix(data, settings, n, device)
        targets = common = common_users(data, settings.activity_exponent)
        if weights is not None:
            targets = common_users(data, settings.activity_exponent, weighted=True)
        nearest = find_nearest(data, targets, walk_weights(data, 0.5, 0.5), n)
        problem = _Problem(data, common, settings, nearest, n)
        solved = np.empty((data.n_items, n), np.float32)
        # one buffer for all blocks: memory that is new to the process costs more than to fill it
        buffer = np.empty((min(n_at_once, data.n_items), n, n), np.float32)
        for items in cut(data.n_items, n_at_once):
            problem.solve(items, buffer, solved[items])
        found = solved[problem.is_neighbour]
        return nearest._replace(similarities=found).as_scorer(data)

    return OneSweep(solve)


class _Problem:
    """The regressions of all items, of which a block is set up and solved at a time."""

    def __init__(
        self,
        data: Interactions,
        common: CommonRows,
        settings: LocalEASE,
        nearest: Nearest,
        n: int,
    ) -> None:
        self._common = common
        self._settings = settings
        self._row_blocks = item_blocks(most_neighbours(data))
        self.is_neighbour = np.arange(n) < nearest.n_neighbours[:, None]
        # an item with fewer neighbours has the one after the last, of which nothing is known
        self._table = np.full((data.n_items, n), data.n_items)
        self._table[self.is_neighbour] = nearest.neighbours
        self._cosines = np.zeros((data.n_items, n), np.float32)
        self._cosines[self.is_neighbour] = nearest.similarities
        degrees = np.maximum(data.item_degrees, 1).astype(np.float64)
        self._lengths = np.append(np.sqrt(degrees), 1).astype(np.float32)
        self._popularity = np.append(settings.popularity(data.item_degrees), np.float32(1))
        self._ridges = np.append(settings.ridges(data.item_degrees), np.float32(1))

    def solve(self, items: slice, buffer: FloatMatrix, out: FloatMatrix) -> None:
        """Fill `out` with the weights of each item's neighbours [n_items, n]."""
        table = self._table[items]
        systems = buffer[: len(table)]
        self._gather(table, systems.reshape(-1, table.shape[1]))
        systems.reshape(len(table), -1)[:, :: table.shape[1] + 1] += self._ridges[table]
        targets = self._cosines[items] * self._lengths[items, None] * self._lengths[table]

        def one_block(rows: slice) -> None:
            out[rows] = np.linalg.solve(systems[rows], targets[rows][..., None])[..., 0]

        for_each_block(one_block, cut(len(table), _LEAST_SYSTEMS))
        if self._settings.popularity_exponent:
            out *= self._popularity[table] / self._popularity[items, None]

    def _gather(self, table: Table, systems: FloatMatrix) -> None:
        """Fill in what the common users of any two neighbours of an item weigh [n_items·n, n].

        A row of all items at a time is spread out and read at the neighbours of every item that
        has the row's among its own: reading from what is in the cache is what makes it fast.
        """
        n_items, n = len(self._table), table.shape[1]
        order = np.argsort(table, axis=None, kind="stable")
        ends = np.searchsorted(table.ravel()[order], np.arange(n_items + 2))
        systems[order[ends[n_items] :]] = 0

        def one_block(rows: slice) -> None:
            products = self._common.rows(rows)
            row = np.zeros(n_items + 1, np.float32)
            for place, item in enumerate(range(rows.start, rows.stop)):
                asked = order[ends[item] : ends[item + 1]]
                if len(asked):
                    entries = slice(products.indptr[place], products.indptr[place + 1])
                    row[products.indices[entries]] = products.data[entries]
                    systems[asked] = row[table[asked // n]]
                    row[products.indices[entries]] = 0

        for_each_block(one_block, self._row_blocks)
