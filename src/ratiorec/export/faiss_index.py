"""An index of FAISS over inner products.

A score is an inner product, not a distance: the best item may be a long vector far away. Both
kinds of approximate index are built for that. HNSW links items by inner products themselves. IVF
gives every item one more coordinate, √(M² − ‖v‖²) with M the length of the longest, so that all
are equally long and the nearest cell by angle is the right one; queries get a zero there inside
the index, which changes no score. docs/export.md has what either way found; neither is believed
but measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from ratiorec.errors import require_extra
from ratiorec.export.arrays import ITEM_IDS, write_ids, write_readme, write_users
from ratiorec.export.vectors import Judge, Measured, Vectors
from ratiorec.scorers import FloatMatrix, Indices

INDEX = "index.faiss"
_MOST_VALUES_OF_FLAT = 2**19
"""Up to so many numbers, reading all of them takes about as long as following links."""

_MOST_ITEMS_OF_HNSW = 2**20
"""Beyond, the links of a graph, 256 bytes an item, and the time to build it weigh too much."""


class Index(Protocol):
    """A kind of index with its settings; `strengths` are those of a search, weakest first."""

    @property
    def strengths(self) -> tuple[int, ...]: ...

    def build(self, faiss: Any, items: FloatMatrix) -> Any:
        """The index over these items."""
        ...

    def search_with(self, faiss: Any, index: Any, strength: int) -> None:
        """Let searches look at more or fewer items."""
        ...

    def settings(self, strength: int) -> dict[str, Any]:
        """All settings by name."""
        ...


@dataclass(frozen=True)
class Flat:
    """Every item is looked at: exact."""

    strengths: ClassVar[tuple[int, ...]] = (0,)

    def build(self, faiss: Any, items: FloatMatrix) -> Any:
        index = faiss.IndexFlatIP(items.shape[1])
        index.add(items)
        return index

    def search_with(self, faiss: Any, index: Any, strength: int) -> None:
        """There is nothing to choose."""

    def settings(self, strength: int) -> dict[str, Any]:
        return {"index": "flat"}


@dataclass(frozen=True)
class Hnsw:
    """A graph in which a search goes from item to better item."""

    n_links: int = 32
    ef_construction: int = 100
    strengths: tuple[int, ...] = (64, 128, 256, 512, 1024)

    def build(self, faiss: Any, items: FloatMatrix) -> Any:
        index = faiss.IndexHNSWFlat(items.shape[1], self.n_links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        index.add(items)
        return index

    def search_with(self, faiss: Any, index: Any, strength: int) -> None:
        index.hnsw.efSearch = strength

    def settings(self, strength: int) -> dict[str, Any]:
        return {
            "index": "hnsw",
            "n_links": self.n_links,
            "ef_construction": self.ef_construction,
            "ef_search": strength,
        }


@dataclass(frozen=True)
class Ivf:
    """Cells of items of like direction, of which a search looks into the nearest."""

    n_lists: int
    strengths: tuple[int, ...]

    @classmethod
    def for_items(cls, n_items: int, parts: tuple[int, ...]) -> Ivf:
        """4√n cells, of which a search looks into one in so many."""
        n_lists = max(1, round(4 * sqrt(n_items)))
        return cls(n_lists, tuple(max(1, n_lists // part) for part in parts))

    def build(self, faiss: Any, items: FloatMatrix) -> Any:
        dimension = items.shape[1]
        cells = faiss.IndexFlatIP(dimension + 1)
        inner = faiss.IndexIVFFlat(cells, dimension + 1, self.n_lists, faiss.METRIC_INNER_PRODUCT)
        inner.cp.spherical = True
        inner.cp.min_points_per_centroid = 1  # fewer than it likes are measured, not warned of
        equally_long = _equally_long(items)
        inner.train(equally_long)
        inner.add(equally_long)
        longer = faiss.RemapDimensionsTransform(dimension, dimension + 1, False)
        index = faiss.IndexPreTransform(longer, inner)
        for part in (inner, longer):  # the index frees them from now on
            part.this.disown()
        index.own_fields = True
        cells.this.disown()
        inner.own_fields = True
        return index

    def search_with(self, faiss: Any, index: Any, strength: int) -> None:
        faiss.extract_index_ivf(index).nprobe = strength

    def settings(self, strength: int) -> dict[str, Any]:
        return {"index": "ivf", "n_lists": self.n_lists, "n_probes": strength}


def indices_for(n_items: int, dimension: int) -> tuple[Index, ...]:
    """The kinds of index that fit so many items, to be tried in turn.

    Few cells are quickest where vectors lie in groups, as those of a trained model do; where they
    do not, a graph is, unless items are too many for one.

    >>> indices_for(1_000, 64), indices_for(4_000_000, 64)[0].n_lists
    ((Flat(),), 8000)
    """
    if n_items * dimension <= _MOST_VALUES_OF_FLAT:
        return (Flat(),)
    if n_items <= _MOST_ITEMS_OF_HNSW:
        return Ivf.for_items(n_items, (64, 32, 16, 8)), Hnsw()
    return (Ivf.for_items(n_items, (64, 32, 16, 8, 4, 2)),)


@dataclass(frozen=True)
class Faiss:
    """An index with ids beside it; the kinds to try follow from the size unless given."""

    indices: tuple[Index, ...] | None = None

    name: ClassVar[str] = "faiss"

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
        faiss = require_extra("faiss", "ann", where="--to faiss")
        built: list[Any] = []  # the last one, which is the one that found enough

        def tries() -> Iterator[tuple[dict[str, Any], Indices]]:
            for kind in self.indices or indices_for(vectors.n_items, vectors.dimension):
                built[:] = [kind.build(faiss, vectors.items)]
                for strength in kind.strengths:
                    kind.search_with(faiss, built[0], strength)
                    yield (
                        kind.settings(strength),
                        judge.lists(lambda v, k: built[0].search(v, k)[1]),
                    )

        measured = judge.first_that_reaches(tries())
        _write(faiss, built[0], folder / INDEX)
        write_users(vectors, folder)
        write_ids(vectors.item_ids, folder / ITEM_IDS)
        write_readme(
            folder,
            f"scores, items = faiss.read_index('{INDEX}').search(rows of user_vectors.npy, k)",
            "items are places in item_ids.json, -1 for none; rows are places in user_ids.json.",
            "Items that a user has already are among the best: ask for more and drop them.",
        )
        return measured


def _equally_long(items: FloatMatrix) -> FloatMatrix:
    """Items with one more coordinate, by which all have the length of the longest."""
    squares = np.einsum("nd,nd->n", items, items, dtype=np.float64)
    missing = np.sqrt(np.maximum(squares.max() - squares, 0))
    return np.column_stack([items, missing.astype(np.float32)])


def _write(faiss: Any, index: Any, path: Path) -> None:
    # through a handle of our own, so that a full disk is an OSError with its reason
    with path.open("wb") as handle:
        faiss.write_index(index, faiss.PyCallbackIOWriter(handle.write))
