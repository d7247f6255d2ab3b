"""The product of a sparse matrix and a table, in the fastest form for the device."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ratiorec.kernels.blocks import even_blocks, for_each_block


class Adjacency(NamedTuple):
    """A sparse matrix in compressed rows; entry e of a row is `scale[row]·scale[indices[e]]`.

    Values are products of one number per node, so whoever multiplies may scale nodes instead.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    scale: NDArray[np.float32]

    @property
    def values(self) -> NDArray[np.float32]:
        """Every entry written out."""
        values = self.scale[self.indices]
        values *= np.repeat(self.scale, np.diff(self.indptr))
        return values


# enough to be worth handing to another core, and few enough to share the work evenly
ENTRIES_PER_BLOCK = 2**15


class SparseRows(Protocol):
    """A sparse matrix that multiplies from the left."""

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        """The product; it is also added to `total`, where there is one."""


def sparse_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[np.float32],
    *,
    n_columns: int,
    device: torch.device,
) -> SparseRows:
    """The matrix in the fastest form for the device."""
    if device.type == "cpu":
        return Bags(indptr, indices, values)
    return Matrix(indptr, indices, values, n_columns, device)


class Bags:
    """On a CPU: a row is a weighted sum of vectors, which torch calls a bag.

    It takes half the time of torch's product with a sparse matrix or less, as
    `ratiorec bench propagation` shows, and exists for every CPU. Rows are independent, so
    blocks of them run on several cores and the result does not depend on how many.
    """

    def __init__(
        self, indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float32]
    ) -> None:
        self.n_rows = len(indptr) - 1
        self._rows = even_blocks(indptr, ENTRIES_PER_BLOCK)
        self._parts = {}
        for rows in self._rows:
            pairs = slice(int(indptr[rows.start]), int(indptr[rows.stop]))
            bags = (indptr[rows] - pairs.start).astype(np.int32)
            parts = indices[pairs], bags, values[pairs]
            self._parts[rows.start] = tuple(torch.from_numpy(part) for part in parts)

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        result = table.new_empty(self.n_rows, table.shape[1])

        def one_block(rows: slice) -> None:
            entries, bags, weights = self._parts[rows.start]
            result[rows] = functional.embedding_bag(
                entries, table, bags, mode="sum", per_sample_weights=weights.to(table.dtype)
            )
            if total is not None:
                total[rows] += result[rows]

        for_each_block(one_block, self._rows)
        return result


class Matrix:
    """On a GPU: the whole matrix in compressed form."""

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[np.float32],
        n_columns: int,
        device: torch.device,
    ) -> None:
        with warnings.catch_warnings():
            # torch calls the whole format a beta; of it only this product is used, and tested
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            # said by some releases even where the checks are asked for, as below
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
            self._matrix = torch.sparse_csr_tensor(
                torch.from_numpy(indptr.astype(np.int32)),
                torch.from_numpy(indices),
                torch.from_numpy(values),
                size=(len(indptr) - 1, n_columns),
                device=device,
                check_invariants=True,  # a wrong index would be a crash later, not an error
            )

    def multiply(self, table: Tensor, *, total: Tensor | None = None) -> Tensor:
        product = self._matrix.to(table.dtype) @ table
        if total is not None:
            total += product
        return product


def mean_of_powers(matrix: SparseRows, table: Tensor, n: int) -> Tensor:
    """(X + ÂX + … + ÂⁿX)/(n + 1)."""
    total = table.clone()
    for _ in range(n):
        table = matrix.multiply(table, total=total)
    return total.div_(n + 1)
