"""Kinds of columns, found from all of their values or asked for, and the columns made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.columns import (
    Categories,
    Column,
    Kind,
    Numbers,
    OwnVectors,
    Tags,
    Texts,
)
from ratiorec.catalogue.raw import Cells, Raw, UnusableError, is_held, vectors
from ratiorec.data.formats.reading import Fault, Faults

SEPARATORS = ("|", ";")
_FEW = 20  # distinct values are few, however short the table
_SHARE_OF_SEVERAL = 0.05  # of the cells have several tags, at least
_LONGEST_TAG, _LONGEST_CATEGORY = 40, 100  # characters
_A_NUMBER = "a number such as 9.5, true, false, or nothing"
_BOOLEANS: Mapping[str, float] = MappingProxyType({"true": 1.0, "false": 0.0})
_BETWEEN_NUMBERS = re.compile(r"[\[\](),;|]")
_WHOLE = re.compile(r"[+-]?\d+")
_HAS_ZEROS = re.compile(r"[+-]?0\d")


def column_of(raw: Raw, kind: Kind | None, *, is_text: bool) -> tuple[Column, Faults]:
    """The column of a kind, or of the kind that is found, and the rows that it cannot hold.

    In a text file numbers are text, so that text may turn out to be numbers; elsewhere text is text
    unless asked for.
    """
    if isinstance(raw, OwnVectors):
        if kind not in (None, "vector"):
            raise UnusableError(f"lists of numbers, which are no {kind}")
        return raw, {}
    if isinstance(raw, Numbers):
        if kind in (None, "number"):
            return raw, _not_finite(raw.values)
        raw = _printed(raw.values)
    elif isinstance(raw, Tags):
        if kind in (None, "tags"):
            return raw, {}
        raw = [SEPARATORS[0].join(map(str, raw.value(n))) or None for n in range(len(raw))]  # type: ignore[arg-type]
    return _MAKERS[kind or found_kind(raw, is_text=is_text)](raw)


def found_kind(cells: Cells, *, is_text: bool) -> Kind:
    """What the cells hold: numbers, tags, few short texts, or free text.

    >>> found_kind(["1", "2.5", "true", None], is_text=True)
    'number'
    >>> found_kind(["Action|Comedy", "Comedy", "Drama"], is_text=True)
    'tags'
    """
    distinct = set(cells) - {None}
    if is_text and distinct and all(_is_plain_number(text) for text in distinct):
        return "number"
    n_known = len(cells) - cells.count(None)
    if _separator(cells, n_known) is not None:
        return "tags"
    is_short = max((len(text) for text in distinct if text), default=0) <= _LONGEST_CATEGORY
    return "category" if is_short and _are_few(len(distinct), n_known) else "text"


def _are_few(n_distinct: int, n: int) -> bool:
    return n_distinct <= max(_FEW, n // 2)


def _separator(cells: Cells, n_known: int) -> str | None:
    """What stands between the tags of a cell, where there are some that come again."""
    for mark in SEPARATORS:
        n_several = sum(mark in cell for cell in cells if cell is not None)
        if not n_several or n_several < _SHARE_OF_SEVERAL * n_known:
            continue
        distinct, n_tags = set[str](), 0
        for cell in cells:
            tags = _split(cell, mark)
            n_tags += len(tags)
            distinct.update(tags)
        longest = max(map(len, distinct), default=0)
        if longest <= _LONGEST_TAG and _are_few(len(distinct), n_tags):
            return mark
    return None


def _split(cell: str | None, mark: str) -> list[str]:
    return [] if cell is None else [tag for part in cell.split(mark) if (tag := part.strip())]


def _number(text: str) -> float | None:
    """The finite number that a text spells, in the digits of ASCII and without underscores."""
    if (truth := _BOOLEANS.get(text.lower())) is not None:
        return truth
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _is_plain_number(text: str | None) -> bool:
    """Whether it is a number and no code, such as 007 or more digits than a number can have."""
    if text is None or _number(text) is None or _HAS_ZEROS.match(text):
        return False
    return not _WHOLE.fullmatch(text) or is_held(int(text))


def _numbers(cells: Cells) -> tuple[Column, Faults]:
    found: dict[str | None, float | None] = {
        text: None if text is None else _number(text) for text in set(cells)
    }
    values = np.array([found[cell] for cell in cells], np.float64)  # None is NaN
    faults = Faults()
    if any(text is not None and number is None for text, number in found.items()):
        for row, cell in enumerate(cells):
            if cell is not None and found[cell] is None:
                faults[row] = Fault("a number cannot be read", repr(cell[:80]), _A_NUMBER)
    return Numbers(values), faults


def _not_finite(values: NDArray[np.float64]) -> Faults:
    bad = np.flatnonzero(np.isinf(values)).tolist()
    what = "a number is not finite"
    return {row: Fault(what, repr(float(values[row])), _A_NUMBER) for row in bad}


def _printed(values: NDArray[np.float64]) -> Cells:
    """Numbers as text, whole ones without a fraction."""
    return [
        None if number != number else str(int(number)) if number.is_integer() else repr(number)
        for number in values.tolist()
    ]


def _tags(cells: Cells) -> tuple[Column, Faults]:
    mark = next((m for m in (*SEPARATORS, ",") if any(m in c for c in cells if c)), SEPARATORS[0])
    return Tags.of(_split(cell, mark) for cell in cells), {}


def _categories(cells: Cells) -> tuple[Column, Faults]:
    return Categories.of(cells), {}


def _texts(cells: Cells) -> tuple[Column, Faults]:
    return Texts(np.array([*cells, None], object)[:-1]), {}


def _vectors(cells: Cells) -> tuple[Column, Faults]:
    """Vectors of text such as "[0.5, 1]" or "0.5 1"."""
    split = [None if cell is None else _BETWEEN_NUMBERS.sub(" ", cell).split() for cell in cells]
    return vectors(split), {}


_MAKERS: Mapping[Kind, Callable[[Cells], tuple[Column, Faults]]] = MappingProxyType(
    {
        "number": _numbers,
        "category": _categories,
        "tags": _tags,
        "text": _texts,
        "vector": _vectors,
    }
)
