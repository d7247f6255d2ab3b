"""Matrix products whose rows have the same bits, whatever they are computed with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ratiorec.scorers.protocol import FloatMatrix

# A matrix product takes other instructions at the edge of a matrix, for a single row, and where
# it is cut for another thread, and then the last digit differs. So every product here has one
# shape: 8 users by 64 items. In that shape each of numpy's BLAS kernels treats all rows and
# columns alike, and it is small enough to stay on one core. Cores are used by ranking several
# blocks of users at once, and together that is no slower than one large product.
_TILE_USERS = 8
_TILE_ITEMS = 64
_ONE_CORE = 2**18  # OpenBLAS keeps a product of at most this many multiplications on one core
_SLAB_BYTES = 2**20  # items multiplied in one go stay in the cache nearest to a core


@dataclass(frozen=True, eq=False)
class Tiled:
    """Vectors of items, cut into tiles [n_tiles, dimension, items of a tile] of one width."""

    tiles: FloatMatrix
    n_items: int

    @classmethod
    def of(cls, items: FloatMatrix) -> Tiled:
        """The items [n_items, dimension], filled up with zeros to whole tiles."""
        n_items, dimension = items.shape
        width = min(_TILE_ITEMS, max(16, _ONE_CORE // (_TILE_USERS * dimension) // 16 * 16))
        padded = np.zeros((-(-n_items // width) * width, dimension), np.float32)
        padded[:n_items] = items
        tiles = padded.reshape(-1, width, dimension).transpose(0, 2, 1)
        return cls(np.ascontiguousarray(tiles), n_items)

    def products(self, vectors: FloatMatrix, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The inner products of each vector with every item's [n, n_items]."""
        n_vectors, (_, dimension, width) = len(vectors), self.tiles.shape
        if out is None:
            out = np.empty((n_vectors, self.n_items), np.float32)
        padded = np.zeros((-(-n_vectors // _TILE_USERS), _TILE_USERS, dimension), np.float32)
        padded.reshape(-1, dimension)[:n_vectors] = vectors
        whole = n_vectors // _TILE_USERS
        for tiles in self._slabs():
            columns = slice(tiles.start * width, min(tiles.stop * width, self.n_items))
            for rows in (slice(0, whole), slice(whole, len(padded))):
                part = out[rows.start * _TILE_USERS : rows.stop * _TILE_USERS, columns]
                if part.size:
                    _multiply(padded[rows], self.tiles[tiles], part)
        return out

    def _slabs(self) -> Iterator[slice]:
        """Tiles that are multiplied in one go; one that is not full stands alone."""
        n_tiles, dimension, width = self.tiles.shape
        step = max(1, _SLAB_BYTES // (4 * dimension * width))
        n_full = self.n_items // width
        for start in range(0, n_full, step):
            yield slice(start, min(start + step, n_full))
        if n_full < n_tiles:
            yield slice(n_full, n_tiles)


def _multiply(vectors: FloatMatrix, tiles: FloatMatrix, out: FloatMatrix) -> None:
    """Fill `out` with all products [a, 8, d] × [b, d, w]; what stands over the edge is dropped."""
    (a, height, _), (b, _, width) = vectors.shape, tiles.shape
    if out.shape == (a * height, b * width):
        target = out.reshape(a, height, b, width).transpose(0, 2, 1, 3)
        np.matmul(vectors[:, None], tiles[None], out=target)
    else:
        product = np.matmul(vectors[:, None], tiles[None]).transpose(0, 2, 1, 3)
        out[...] = product.reshape(a * height, b * width)[: len(out), : out.shape[1]]
