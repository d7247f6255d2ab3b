"""Columns of attributes: a number, category, tags, text or vector for each item (or user)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.texts import StoredTexts
from ratiorec.scorers.scorer import require_fit

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["number", "category", "tags", "text", "vector"]
Value = float | str | list[str] | list[float] | None
"""The attribute of one item in plain types; None where it is missing, [] where it has no tags."""
Arrays = dict[str, NDArray[Any]]

MISSING = -1  # the code of a category that is not known


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers, NaN where one is missing; true and false are 1 and 0."""

    kind: ClassVar[Kind] = "number"
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    def value(self, index: int) -> Value:
        """The number, a whole one without a fraction."""
        return _plain(float(self.values[index]))

    def plain(self) -> list[Value]:
        """All values in plain types."""
        return [_plain(number) for number in self.values.tolist()]

    def flat(self) -> NDArray[Any]:
        """One value for each row of a flat table."""
        return self.values

    def to_arrow(self) -> pyarrow.Array:
        """The column for Arrow."""
        import pyarrow

        return pyarrow.array(self.values, from_pandas=True)

    def take(self, indices: NDArray[np.int64]) -> Numbers:
        """These rows; those at -1 are missing."""
        found = np.full(len(indices), np.nan)
        known = indices >= 0
        found[known] = self.values[indices[known]]
        return Numbers(found)

    def followed_by(self, other: Numbers) -> Numbers:
        """These rows, then those."""
        return Numbers(np.concatenate([self.values, other.values]))

    def arrays(self) -> Arrays:
        """For a model folder."""
        return {"values": self.values}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Numbers:
        """The column again."""
        return cls(np.asarray(arrays["values"], np.float64))


@dataclass(frozen=True, eq=False)
class Categories:
    """One of a few texts, as an index into `names`; `MISSING` where it is not known."""

    kind: ClassVar[Kind] = "category"
    codes: NDArray[np.int32]
    names: NDArray[np.object_]

    def __post_init__(self) -> None:
        top = int(self.codes.max(initial=MISSING))
        require_fit("codes of categories", top < len(self.names), True, "each has a name")

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> Categories:
        """From texts; names are in alphabetical order."""
        listed = list(texts)
        names = sorted({text for text in listed if text is not None})
        place = {name: code for code, name in enumerate(names)}
        codes = [MISSING if text is None else place[text] for text in listed]
        return cls(np.array(codes, np.int32), _as_objects(names))

    def __len__(self) -> int:
        return len(self.codes)

    def value(self, index: int) -> Value:
        """The text, or None."""
        code = int(self.codes[index])
        return None if code == MISSING else str(self.names[code])

    def plain(self) -> list[Value]:
        """All values in plain types."""
        return [None if code == MISSING else self.names[code] for code in self.codes.tolist()]

    def flat(self) -> NDArray[Any]:
        """One value for each row of a flat table."""
        return _as_objects(self.plain())

    def to_arrow(self) -> pyarrow.Array:
        """The column for Arrow."""
        return _texts_for_arrow(self.flat())

    def take(self, indices: NDArray[np.int64]) -> Categories:
        """These rows; those at -1 are missing."""
        found = np.full(len(indices), MISSING, np.int32)
        known = indices >= 0
        found[known] = self.codes[indices[known]]
        return Categories(found, self.names)

    def followed_by(self, other: Categories) -> Categories:
        """These rows, then those, over the names of both."""
        names, *places = _united(self.names, other.names)
        parts = [
            np.append(place, MISSING)[one.codes]
            for place, one in zip(places, (self, other), strict=True)
        ]
        return Categories(np.concatenate(parts).astype(np.int32), names)

    def arrays(self) -> Arrays:
        """For a model folder."""
        return {"codes": self.codes} | _packed("names", self.names)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Categories:
        """The column again."""
        return cls(np.asarray(arrays["codes"], np.int32), _unpacked("names", arrays))


@dataclass(frozen=True, eq=False)
class Tags:
    """Any texts for each row: `codes[indptr[i]:indptr[i + 1]]`, ascending and without repeats."""

    kind: ClassVar[Kind] = "tags"
    indptr: NDArray[np.int64]
    codes: NDArray[np.int32]
    names: NDArray[np.object_]

    @classmethod
    def of(cls, rows: Iterable[Iterable[str]]) -> Tags:
        """From lists of texts; names are in alphabetical order."""
        listed = [sorted(set(row)) for row in rows]
        names = sorted({tag for row in listed for tag in row})
        place = {name: code for code, name in enumerate(names)}
        indptr = np.zeros(len(listed) + 1, np.int64)
        np.cumsum([len(row) for row in listed], out=indptr[1:])
        codes = np.array([place[tag] for row in listed for tag in row], np.int32)
        return cls(indptr, codes, _as_objects(names))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def value(self, index: int) -> Value:
        """The tags; [] where there are none."""
        start, end = self.indptr[index : index + 2].tolist()
        return [str(name) for name in self.names[self.codes[start:end]]]

    def plain(self) -> list[Value]:
        """All values in plain types."""
        tags, ends = self.names[self.codes].tolist(), self.indptr.tolist()
        return [tags[start:end] for start, end in pairwise(ends)]

    def flat(self) -> NDArray[Any]:
        """One value for each row of a flat table."""
        return _as_objects(self.plain())

    def to_arrow(self) -> pyarrow.Array:
        """The column for Arrow."""
        import pyarrow

        return pyarrow.array(self.plain(), pyarrow.list_(pyarrow.string()))

    def rows(self) -> NDArray[np.int64]:
        """The row of each code."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def take(self, indices: NDArray[np.int64]) -> Tags:
        """These rows; those at -1 have no tags."""
        known = indices >= 0
        starts, ends = self.indptr[indices[known]], self.indptr[indices[known] + 1]
        lengths = np.zeros(len(indices), np.int64)
        lengths[known] = ends - starts
        indptr = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        starts = np.repeat(starts, ends - starts)
        within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
        return Tags(indptr, self.codes[starts + within], self.names)

    def followed_by(self, other: Tags) -> Tags:
        """These rows, then those, over the names of both."""
        names, own, others = _united(self.names, other.names)
        indptr = np.concatenate([self.indptr, self.indptr[-1] + other.indptr[1:]])
        codes = np.concatenate([own[self.codes], others[other.codes]]).astype(np.int32)
        return Tags(indptr, codes, names)

    def arrays(self) -> Arrays:
        """For a model folder."""
        arrays: Arrays = {"indptr": self.indptr, "codes": self.codes}
        return arrays | _packed("names", self.names)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Tags:
        """The column again."""
        indptr = np.asarray(arrays["indptr"], np.int64)
        return cls(indptr, np.asarray(arrays["codes"], np.int32), _unpacked("names", arrays))


@dataclass(frozen=True, eq=False)
class Texts:
    """Free text, None where it is missing: to be searched and learnt from, not compared."""

    kind: ClassVar[Kind] = "text"
    texts: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def casefolded(self) -> list[str | None]:
        """The texts without capitals, to be searched."""
        return [None if text is None else text.casefold() for text in self.texts]

    def value(self, index: int) -> Value:
        """The text, or None."""
        found: Value = self.texts[index]
        return found

    def plain(self) -> list[Value]:
        """All values in plain types."""
        found: list[Value] = self.texts.tolist()
        return found

    def flat(self) -> NDArray[Any]:
        """One value for each row of a flat table."""
        return self.texts

    def to_arrow(self) -> pyarrow.Array:
        """The column for Arrow."""
        return _texts_for_arrow(self.texts)

    def take(self, indices: NDArray[np.int64]) -> Texts:
        """These rows; those at -1 are missing."""
        found = np.full(len(indices), None, object)
        known = indices >= 0
        found[known] = self.texts[indices[known]]
        return Texts(found)

    def followed_by(self, other: Texts) -> Texts:
        """These rows, then those."""
        return Texts(np.concatenate([self.texts, other.texts]))

    def arrays(self) -> Arrays:
        """For a model folder."""
        is_known = np.array([text is not None for text in self.texts], bool)
        filled = _as_objects([text or "" for text in self.texts])
        return {"is_known": is_known} | _packed("texts", filled)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Texts:
        """The column again."""
        texts = _unpacked("texts", arrays)
        texts[~np.asarray(arrays["is_known"], bool)] = None
        return cls(texts)


@dataclass(frozen=True, eq=False)
class OwnVectors:
    """A vector of somebody's own for each row, such as of an image or a text; NaN where missing."""

    kind: ClassVar[Kind] = "vector"
    values: NDArray[np.float32]  # [n, d]

    def __post_init__(self) -> None:
        found = (self.values.ndim, str(self.values.dtype))
        require_fit("vectors of attributes", found, (2, "float32"), "one row of numbers for each")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Which rows have a vector."""
        return np.asarray(np.isfinite(self.values).all(axis=1))

    def value(self, index: int) -> Value:
        """The numbers, or None."""
        found: list[float] = self.values[index].tolist()
        return found if np.isfinite(found).all() else None

    def plain(self) -> list[Value]:
        """All values in plain types."""
        return [self.value(row) for row in range(len(self))]

    def flat(self) -> NDArray[Any]:
        """One value for each row of a flat table."""
        return _as_objects(self.plain())

    def to_arrow(self) -> pyarrow.Array:
        """The column for Arrow."""
        import pyarrow

        return pyarrow.array(self.plain(), pyarrow.list_(pyarrow.float32()))

    def take(self, indices: NDArray[np.int64]) -> OwnVectors:
        """These rows; those at -1 are missing."""
        found = np.full((len(indices), self.values.shape[1]), np.nan, np.float32)
        known = indices >= 0
        found[known] = self.values[indices[known]]
        return OwnVectors(found)

    def followed_by(self, other: OwnVectors) -> OwnVectors:
        """These rows, then those."""
        widths = self.values.shape[1], other.values.shape[1]
        require_fit("length of vectors", widths[1], widths[0], "as long as those that are there")
        return OwnVectors(np.concatenate([self.values, other.values]))

    def arrays(self) -> Arrays:
        """For a model folder."""
        return {"values": self.values}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> OwnVectors:
        """The column again."""
        return cls(np.asarray(arrays["values"], np.float32))


Column = Numbers | Categories | Tags | Texts | OwnVectors
COLUMNS: dict[str, type[Column]] = {
    one.kind: one for one in (Numbers, Categories, Tags, Texts, OwnVectors)
}


_LARGEST_WHOLE = 2.0**53  # beyond, a float64 is not every whole number


def _plain(number: float) -> Value:
    if number != number:
        return None
    return int(number) if number.is_integer() and abs(number) <= _LARGEST_WHOLE else number


def _texts_for_arrow(texts: NDArray[Any]) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(texts, pyarrow.string())


def _united(
    names: NDArray[np.object_], others: NDArray[np.object_]
) -> tuple[NDArray[np.object_], NDArray[np.int64], NDArray[np.int64]]:
    """All names in alphabetical order, and where those of either side are among them."""
    found = _as_objects(sorted({*names.tolist(), *others.tolist()}))
    place = {name: code for code, name in enumerate(found.tolist())}
    own, theirs = (
        np.array([place[name] for name in some.tolist()], np.int64) for some in (names, others)
    )
    return found, own, theirs


def _as_objects(values: Sequence[Any]) -> NDArray[np.object_]:
    found = np.empty(len(values), object)
    found[:] = list(values)
    return found


def _packed(name: str, texts: NDArray[np.object_]) -> Arrays:
    stored = StoredTexts.of(texts.tolist())
    return {f"{name}.text": stored.text, f"{name}.offsets": stored.offsets}


def _unpacked(name: str, arrays: Arrays) -> NDArray[np.object_]:
    stored = StoredTexts(arrays[f"{name}.text"], arrays[f"{name}.offsets"])
    return stored.astype(object)
