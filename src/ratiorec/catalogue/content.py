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
        encode = _of_numbers(column, teaches)
        return encode(column), encode
    if isinstance(column, OwnVectors):
        return _of_vectors(column), _of_vectors
    count: Encode = _of_words if isinstance(column, Texts) else _of_names(column)
    counts = count(column)
    weigh = _weighing(counts, teaches)
    return weigh(counts), lambda rows: weigh(count(rows))


def _of_numbers(column: Numbers, teaches: Mask) -> Encode:
    """How many standard deviations above the mean, and whether it is missing."""
    import scipy.sparse

    teaching = column.values[teaches & ~np.isnan(column.values)]
    exponent = 1 - np.frexp(np.abs(teaching).max(initial=0))[1]
    known = np.ldexp(teaching, exponent)  # so that nothing overflows
    mean, spread = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)

    def features(rows: Numbers) -> scipy.sparse.csr_array:
        is_missing = np.isnan(rows.values)
        with np.errstate(over="ignore"):  # others may be far away
            above = (np.ldexp(rows.values, exponent) - mean) / (spread or 1)
        above = np.where(is_missing, 0, above.clip(-_FARTHEST, _FARTHEST))
        return scipy.sparse.csr_array(np.column_stack([above, is_missing]))

    return features


def _of_vectors(column: OwnVectors) -> scipy.sparse.csr_array:
    """Vectors at length 1; zeros where one is missing."""
    import scipy.sparse

    values = np.where(column.is_known[:, None], column.values, 0).astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return scipy.sparse.csr_array(values / np.where(lengths > 0, lengths, 1))


def _of_names(column: Categories | Tags) -> Encode:
    """One column for each category or tag, hashed where these are too many.

    Names that this column has not come behind, each in a column of its own.
    """
    import scipy.sparse

    n_names = len(column.names)
    place_of = {name: place for place, name in enumerate(column.names.tolist())}

    def counts(rows: Categories | Tags) -> scipy.sparse.csr_array:
        if isinstance(rows, Tags):
            at, codes = rows.rows(), rows.codes
        else:
            at = np.flatnonzero(rows.codes != MISSING)
            codes = rows.codes[at]
        used, which = np.unique(codes, return_inverse=True)
        names, n_columns = rows.names[used].tolist(), n_names
        if n_names > MOST_COLUMNS:
            places, n_columns = [hashed(name) for name in names], MOST_COLUMNS
        else:
            places = [place_of.get(name, n_names + n) for n, name in enumerate(names)]
            n_columns = max([n_names, *(place + 1 for place in places)])
        where = np.array(places, np.int64)[which]
        return scipy.sparse.csr_array((np.ones(len(at)), (at, where)), shape=(len(rows), n_columns))

    return counts


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


def _weighing(counts: Any, teaches: Mask) -> Encode:
    """Counts times log((1 + n) / (1 + n_c)) + 1, each row at length 1; n_c teach that have it.

    Columns behind these are of what none has: they make a row longer and are left out.
    """
    import scipy.sparse

    counts.sum_duplicates()
    n_columns = counts.shape[1]
    taught = counts[np.flatnonzero(teaches)]
    n_having = np.bincount(taught.indices, minlength=n_columns)
    rarity = np.log((1 + int(teaches.sum())) / (1 + n_having)) + 1
    rarest = np.log(1 + int(teaches.sum())) + 1

    def weighed(counts: Any) -> scipy.sparse.csr_array:
        counts.sum_duplicates()
        of_all = np.append(rarity, np.full(counts.shape[1] - n_columns, rarest))
        values = counts.data * of_all[counts.indices]
        rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        lengths = np.sqrt(np.bincount(rows, np.square(values), minlength=counts.shape[0]))
        values = values / np.where(lengths > 0, lengths, 1)[rows]
        found = scipy.sparse.csr_array((values, counts.indices, counts.indptr), shape=counts.shape)
        return found if found.shape[1] == n_columns else found[:, :n_columns]

    return weighed
