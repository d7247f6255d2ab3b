"""Columns of attributes: a number, category, tags, text or vector for each item (or user)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.texts import StoredTexts
from ratiorec.scorers.scorer import require_fit

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
        """The number, whole ones without a fraction in JSON."""
        found = float(self.values[index])
        return None if np.isnan(found) else found

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

    def rows(self) -> NDArray[np.int64]:
        """The row of each code."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def take(self, indices: NDArray[np.int64]) -> Tags:
        """These rows; those at -1 have no tags."""
        known = indices >= 0
        lengths = np.where(known, np.diff(self.indptr)[np.where(known, indices, 0)], 0)
        if not len(self):
            lengths = np.zeros(len(indices), np.int64)
        indptr = np.zeros(len(indices) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        starts = np.repeat(self.indptr[:-1][indices[known]], lengths[known])
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


def _as_objects(texts: Sequence[str]) -> NDArray[np.object_]:
    found = np.empty(len(texts), object)
    found[:] = list(texts)
    return found


def _packed(name: str, texts: NDArray[np.object_]) -> Arrays:
    stored = StoredTexts.of(texts.tolist())
    return {f"{name}.text": stored.text, f"{name}.offsets": stored.offsets}


def _unpacked(name: str, arrays: Arrays) -> NDArray[np.object_]:
    stored = StoredTexts(arrays[f"{name}.text"], arrays[f"{name}.offsets"])
    return stored.astype(object)
