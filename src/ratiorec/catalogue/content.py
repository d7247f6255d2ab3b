"""Content: attributes as rows of features, from which a ridge regression can learn."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
Encode = Callable[[Any], "scipy.sparse.csr_array"]
"""What makes features of any column of a kind."""


@dataclass(frozen=True, eq=False)
class Content:
    """Rows of features; `block_of` says of each feature which attribute it comes from.

    `lacks` says which attributes a row is without, unless that is a feature of its own. `encoders`
    make features of each attribute, of which those stay that are `kept`.
    """

    features: scipy.sparse.csr_array  # [n_rows, p]
    block_of: NDArray[np.int64]
    names: tuple[str, ...]
    lacks: NDArray[np.bool_]  # [n_rows, n_attributes]
    encoders: tuple[Encode, ...]
    kept: NDArray[np.int64]

    @classmethod
    def of(cls, table: Attributes, teaches: Mask) -> Content:
        """Attributes as features, each a block of rows of length 1 at most (theory: K1).

        Means, inverse document frequencies and the choice of columns are those of the rows that
        teach: a feature that none of them has says nothing, and of more than `MOST_FEATURES` those
        stay that most of them have.
        """
        import scipy.sparse

        made = [_block(column, teaches) for column in table.columns.values()]
        blocks, encoders = [block for block, _ in made], tuple(encode for _, encode in made)
        if not blocks:
            nothing, none = scipy.sparse.csr_array((table.n_rows, 0)), np.zeros(0, np.int64)
            return cls(nothing, none, (), _lacks(table, ()), (), none)
        features = scipy.sparse.hstack(blocks, format="csr")
        taught = features[np.flatnonzero(teaches)]
        n_having = np.bincount(taught.indices[taught.data != 0], minlength=features.shape[1])
        best = np.argsort(-n_having, kind="stable")[:MOST_FEATURES]
        kept = np.sort(best[n_having[best] > 0])
        block_of = np.repeat(np.arange(len(blocks)), [block.shape[1] for block in blocks])
        names = tuple(table.columns)
        lacks = _lacks(table, names)
        return cls(features[:, kept].tocsr(), block_of[kept], names, lacks, encoders, kept)

    def of_others(self, table: Attributes) -> Content:
        """The same features of other rows, which teach nothing; the table has these attributes."""
        import scipy.sparse

        lacks = _lacks(table, self.names)
        if not self.names:
            return replace(self, features=scipy.sparse.csr_array((table.n_rows, 0)), lacks=lacks)
        columns = [table.columns[name] for name in self.names]
        blocks = [encode(column) for encode, column in zip(self.encoders, columns, strict=True)]
        features = scipy.sparse.hstack(blocks, format="csr")[:, self.kept].tocsr()
        return replace(self, features=features, lacks=lacks)

    def rows(self, start: int, end: int | None = None) -> Content:
        """Some of the rows."""
        return replace(self, features=self.features[start:end], lacks=self.lacks[start:end])

    def weighted(self, weights: Mapping[str, float]) -> scipy.sparse.csr_array:
        """The features, each attribute times its weight; 1 for one without."""
        import scipy.sparse

        of_blocks = np.array([weights.get(name, 1.0) for name in self.names])
        scale = of_blocks[self.block_of] if len(self.names) else np.zeros(0)
        scaled = self.features @ scipy.sparse.diags_array(scale)
        return scipy.sparse.csr_array(scaled)


def _lacks(table: Attributes, names: tuple[str, ...]) -> NDArray[np.bool_]:
    found = np.zeros((table.n_rows, len(names)), bool)
    for place, name in enumerate(names):
        if table.columns[name].kind != "number":
            found[:, place] = missing(table, name)
    return found


def _block(column: Column, teaches: Mask) -> tuple[scipy.sparse.csr_array, Encode]:
    """The features of a column, and what makes the same of other rows."""
    if isinstance(column, Numbers):
        encode = _Standardised.of(column, teaches)
        return encode(column), encode
    if isinstance(column, OwnVectors):
        return _of_vectors(column), _of_vectors
    count: Encode = _of_words if isinstance(column, Texts) else _Names.of(column)
    counts = count(column)
    weighed = _Weighed.of(count, counts, teaches)
    return weighed.rows(counts), weighed


@dataclass(frozen=True)
class _Standardised:
    """How many standard deviations above the mean, and whether it is missing.

    Both are of the numbers times a power of two, so that none of those that teach overflows.
    """

    exponent: int
    mean: float
    spread: float

    @classmethod
    def of(cls, column: Numbers, teaches: Mask) -> _Standardised:
        teaching = column.values[teaches & ~np.isnan(column.values)]
        exponent = 1 - int(np.frexp(np.abs(teaching).max(initial=0))[1])
        known = np.ldexp(teaching, exponent)
        if not len(known):
            return cls(0, 0.0, 1.0)
        return cls(exponent, float(known.mean()), float(known.std()) or 1.0)

    def __call__(self, column: Numbers) -> scipy.sparse.csr_array:
        import scipy.sparse

        is_missing = np.isnan(column.values)
        with np.errstate(over="ignore"):  # what does not teach may be far away
            above = (np.ldexp(column.values, self.exponent) - self.mean) / self.spread
        above = np.where(is_missing, 0, above.clip(-_FARTHEST, _FARTHEST))
        return scipy.sparse.csr_array(np.column_stack([above, is_missing]))


def _of_vectors(column: OwnVectors) -> scipy.sparse.csr_array:
    """Vectors at length 1; zeros where one is missing."""
    import scipy.sparse

    values = np.where(column.is_known[:, None], column.values, 0).astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return scipy.sparse.csr_array(values / np.where(lengths > 0, lengths, 1))


@dataclass(frozen=True)
class _Names:
    """One column for each category or tag, hashed where these are too many.

    Names that are not among these come behind them, each in a column of its own.
    """

    places: Mapping[str, int]

    @classmethod
    def of(cls, column: Categories | Tags) -> _Names:
        return cls({name: place for place, name in enumerate(column.names.tolist())})

    def __call__(self, column: Categories | Tags) -> scipy.sparse.csr_array:
        import scipy.sparse

        if isinstance(column, Tags):
            rows, codes = column.rows(), column.codes
        else:
            rows = np.flatnonzero(column.codes != MISSING)
            codes = column.codes[rows]
        used, which = np.unique(codes, return_inverse=True)
        names, n_known = column.names[used].tolist(), len(self.places)
        if n_known > MOST_COLUMNS:
            places, n_columns = [hashed(name) for name in names], MOST_COLUMNS
        else:
            places = [self.places.get(name, n_known + n) for n, name in enumerate(names)]
            n_columns = max([n_known, *(place + 1 for place in places)])
        cells = rows, np.array(places, np.int64)[which]
        return scipy.sparse.csr_array((np.ones(len(rows)), cells), shape=(len(column), n_columns))


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


@dataclass(frozen=True, eq=False)
class _Weighed:
    """Counts times log((1 + n) / (1 + n_c)) + 1, each row at length 1; n_c teach that have it.

    Columns behind these are of what none has: they make a row longer and are left out.
    """

    count: Encode
    rarity: NDArray[np.float64]
    rarest: float

    @classmethod
    def of(cls, count: Encode, counts: Any, teaches: Mask) -> _Weighed:
        counts.sum_duplicates()
        taught, n = counts[np.flatnonzero(teaches)], int(teaches.sum())
        n_having = np.bincount(taught.indices, minlength=counts.shape[1])
        return cls(count, np.log((1 + n) / (1 + n_having)) + 1, float(np.log(1 + n)) + 1)

    def __call__(self, column: Column) -> scipy.sparse.csr_array:
        return self.rows(self.count(column))

    def rows(self, counts: Any) -> scipy.sparse.csr_array:
        """The counts of some rows, weighed."""
        import scipy.sparse

        counts.sum_duplicates()
        n_more = counts.shape[1] - len(self.rarity)
        rarity = np.append(self.rarity, np.full(n_more, self.rarest))
        values = counts.data * rarity[counts.indices]
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        lengths = np.sqrt(np.bincount(rows, np.square(values), minlength=counts.shape[0]))
        values = values / np.where(lengths > 0, lengths, 1)[rows]
        found = scipy.sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
        return found[:, : len(self.rarity)] if n_more else found
