"""Content: attributes as rows of features, from which a ridge regression can learn."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import MISSING, Categories, Column, Numbers, OwnVectors, Tags, Texts
from ratiorec.catalogue.conditions import missing

if TYPE_CHECKING:
    import scipy.sparse

MOST_COLUMNS = 2**11
"""The columns that words of a text, or names that are more, are hashed into."""
MOST_FEATURES = 2**12
_WORD = re.compile(r"\w+")
_FARTHEST = 3.0  # standard deviations of a number: an error of the source must not outweigh all
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Content:
    """Rows of features; `block_of` says of each feature which attribute it comes from.

    `lacks` says which attributes a row is without, unless that is a feature of its own.
    """

    features: scipy.sparse.csr_array  # [n_rows, p]
    block_of: NDArray[np.int64]
    names: tuple[str, ...]
    lacks: NDArray[np.bool_]  # [n_rows, n_attributes]

    @classmethod
    def of(cls, table: Attributes, teaches: Mask) -> Content:
        """Attributes as features, each a block of rows of length 1 at most (theory: K1).

        Means, inverse document frequencies and the choice of columns are those of the rows that
        teach: a feature that none of them has says nothing, and of more than `MOST_FEATURES` those
        stay that most of them have.
        """
        import scipy.sparse

        blocks = [_block(column, teaches) for column in table.columns.values()]
        if not blocks:
            nothing = scipy.sparse.csr_array((table.n_rows, 0))
            return cls(nothing, np.zeros(0, np.int64), (), np.zeros((table.n_rows, 0), bool))
        features = scipy.sparse.hstack(blocks, format="csr")
        taught = features[np.flatnonzero(teaches)]
        n_having = np.bincount(taught.indices[taught.data != 0], minlength=features.shape[1])
        best = np.argsort(-n_having, kind="stable")[:MOST_FEATURES]
        kept = np.sort(best[n_having[best] > 0])
        block_of = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
        lacks = [
            missing(table, name) & (column.kind != "number")
            for name, column in table.columns.items()
        ]
        names, of_rows = tuple(table.columns), np.column_stack(lacks)
        return cls(features[:, kept].tocsr(), block_of[kept], names, of_rows)

    def weighted(self, weights: Mapping[str, float]) -> scipy.sparse.csr_array:
        """The features, each attribute times its weight; 1 for one without."""
        import scipy.sparse

        of_blocks = np.array([weights.get(name, 1.0) for name in self.names])
        scale = of_blocks[self.block_of] if len(self.names) else np.zeros(0)
        scaled = self.features @ scipy.sparse.diags_array(scale)
        return scipy.sparse.csr_array(scaled)


def _block(column: Column, teaches: Mask) -> scipy.sparse.csr_array:
    if isinstance(column, Numbers):
        return _of_numbers(column, teaches)
    if isinstance(column, OwnVectors):
        return _of_vectors(column)
    if isinstance(column, Texts):
        return _weighed(_of_words(column), teaches)
    return _weighed(_of_names(column), teaches)


def _of_numbers(column: Numbers, teaches: Mask) -> scipy.sparse.csr_array:
    """How many standard deviations above the mean, and whether it is missing."""
    import scipy.sparse

    is_missing = np.isnan(column.values)
    teaching = teaches & ~is_missing
    largest = np.abs(column.values[teaching]).max(initial=0)
    with np.errstate(over="ignore"):  # what teaches no longer overflows, and others are far away
        values = np.ldexp(column.values, 1 - np.frexp(largest)[1])
        known = values[teaching]
        mean, spread = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        above = (values - mean) / (spread or 1)
    above = np.where(is_missing, 0, above.clip(-_FARTHEST, _FARTHEST))
    return scipy.sparse.csr_array(np.column_stack([above, is_missing]))


def _of_vectors(column: OwnVectors) -> scipy.sparse.csr_array:
    """Vectors at length 1; zeros where one is missing."""
    import scipy.sparse

    values = np.where(column.is_known[:, None], column.values, 0).astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return scipy.sparse.csr_array(values / np.where(lengths > 0, lengths, 1))


def _of_names(column: Categories | Tags) -> scipy.sparse.csr_array:
    """One column for each category or tag, hashed where these are too many."""
    import scipy.sparse

    n_names = len(column.names)
    if n_names > MOST_COLUMNS:
        places = np.array([hashed(name) for name in column.names.tolist()], np.int64)
        n_names = MOST_COLUMNS
    else:
        places = np.arange(n_names)
    if isinstance(column, Tags):
        rows, codes = column.rows(), column.codes
    else:
        rows = np.flatnonzero(column.codes != MISSING)
        codes = column.codes[rows]
    ones = np.ones(len(rows))
    return scipy.sparse.csr_array((ones, (rows, places[codes])), shape=(len(column), n_names))


def _of_words(column: Texts) -> scipy.sparse.csr_array:
    """The root of how often a text has each word, in hashed columns."""
    import scipy.sparse

    rows: list[int] = []
    places: list[int] = []
    values: list[float] = []
    for row, text in enumerate(column.texts.tolist()):
        counts = Counter(hashed(word) for word in words(text or ""))
        rows += [row] * len(counts)
        places += counts.keys()
        values += (n**0.5 for n in counts.values())
    return scipy.sparse.csr_array((values, (rows, places)), shape=(len(column), MOST_COLUMNS))


def words(text: str) -> list[str]:
    """The words of a text without capitals.

    >>> words("Women's T-shirt, red")
    ['women', 's', 't', 'shirt', 'red']
    """
    return _WORD.findall(text.casefold())


def hashed(word: str) -> int:
    """The column of a word: the same in every process and version.

    >>> hashed("tea"), hashed("jam")
    (1970, 231)
    """
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) % MOST_COLUMNS


def _weighed(counts: Any, teaches: Mask) -> scipy.sparse.csr_array:
    """Counts times log((1 + n) / (1 + n_c)) + 1, each row at length 1; n_c teach that have it."""
    import scipy.sparse

    counts.sum_duplicates()
    taught = counts[np.flatnonzero(teaches)]
    n_having = np.bincount(taught.indices, minlength=counts.shape[1])
    rarity = np.log((1 + int(teaches.sum())) / (1 + n_having)) + 1
    values = counts.data * rarity[counts.indices]
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, np.square(values), minlength=counts.shape[0]))
    values = values / np.where(lengths > 0, lengths, 1)[rows]
    return scipy.sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
