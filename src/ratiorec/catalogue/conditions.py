"""Conditions: what an expression asks of one column, and how conditions are joined."""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import MISSING, Categories, Kind, Numbers, OwnVectors, Tags, Texts

T = TypeVar("T")
Mask = NDArray[np.bool_]
Steps = Generator[None, None, T]
"""Work that may rest before each condition, and what comes of it."""
Operator = Literal["==", "!=", "<", "<=", ">", ">="]

KEYWORDS = frozenset(
    ("and", "or", "not", "in", "has", "any", "all", "contains", "is", "missing", "true", "false")
)
PLAIN_NAME = re.compile(r"[^\W\d](?:[\w.-]*\w)?")  # what a column may be called without quotes
_COMPARED: Mapping[str, Callable[[NDArray[np.float64], float], Mask]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
_TEXTUAL: tuple[Kind, ...] = ("category", "text")


@dataclass(frozen=True)
class Condition(ABC):
    """What is asked of one column; `at` is where its name stands in the text of the expression."""

    column: str
    at: int = field(default=0, compare=False, kw_only=True)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of column that can answer; none at all where any can."""
        return ()

    @property
    @abstractmethod
    def asked(self) -> str:
        """The condition behind the name of the column, in the one form that it has."""

    @abstractmethod
    def mask(self, table: Attributes) -> Mask:
        """Which rows answer it with yes."""

    def __str__(self) -> str:
        return f"{quoted_name(self.column)} {self.asked}"


@dataclass(frozen=True)
class Among(Condition):
    """`kind == "tea"` or `kind in ["tea", "jam"]`; `is_not` turns it round for what is known."""

    values: tuple[float, ...] | tuple[str, ...]
    is_not: bool = False

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if not self.values:
            return ("number", *_TEXTUAL)
        return ("number",) if isinstance(self.values[0], float) else _TEXTUAL

    @property
    def asked(self) -> str:
        if len(self.values) == 1:
            return f"{'!=' if self.is_not else '=='} {written(self.values[0])}"
        return f"{'not ' * self.is_not}in {_list_of(self.values)}"

    def mask(self, table: Attributes) -> Mask:
        column, values = table.columns[self.column], frozenset(self.values)
        if isinstance(column, Numbers):
            found = np.isin(column.values, np.array(self.values, np.float64))
        elif isinstance(column, Categories):
            found = _by_code(column, lambda name: name in values)
        else:
            assert isinstance(column, Texts)
            found = np.fromiter((text in values for text in column.texts), bool, len(column))
        return found if not self.is_not else ~found & ~missing(table, self.column)


@dataclass(frozen=True)
class Compared(Condition):
    """`price < 50`."""

    operator: Operator
    value: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return ("number",)

    @property
    def asked(self) -> str:
        return f"{self.operator} {written(self.value)}"

    def mask(self, table: Attributes) -> Mask:
        column = table.columns[self.column]
        assert isinstance(column, Numbers)
        return _COMPARED[self.operator](column.values, self.value)  # false of NaN


@dataclass(frozen=True)
class Has(Condition):
    """`labels has "organic"`, `has any ["organic", "fair"]` or, with `every`, `has all [...]`."""

    tags: tuple[str, ...]
    every: bool = False

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return ("tags",)

    @property
    def asked(self) -> str:
        if len(self.tags) == 1:
            return f"has {written(self.tags[0])}"
        return f"has {'all' if self.every else 'any'} {_list_of(self.tags)}"

    def mask(self, table: Attributes) -> Mask:
        column, wanted = table.columns[self.column], frozenset(self.tags)
        assert isinstance(column, Tags)
        is_wanted = np.fromiter((name in wanted for name in column.names), bool, len(column.names))
        until = np.concatenate([[0], np.cumsum(is_wanted[column.codes])])
        n_found = until[column.indptr[1:]] - until[column.indptr[:-1]]
        found: Mask = n_found >= (len(wanted) if self.every else 1)
        return found


@dataclass(frozen=True)
class Contains(Condition):
    """`title contains "green tea"`, without regard to capitals."""

    part: str

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return _TEXTUAL

    @property
    def asked(self) -> str:
        return f"contains {written(self.part)}"

    def mask(self, table: Attributes) -> Mask:
        column, part = table.columns[self.column], self.part.casefold()
        if isinstance(column, Categories):
            return _by_code(column, lambda name: part in name.casefold())
        assert isinstance(column, Texts)
        in_each = (text is not None and part in text for text in column.casefolded)
        return np.fromiter(in_each, bool, len(column))


@dataclass(frozen=True)
class IsMissing(Condition):
    """`price is missing`; tags are missing where there is none."""

    is_not: bool = False

    @property
    def asked(self) -> str:
        return f"is {'not ' * self.is_not}missing"

    def mask(self, table: Attributes) -> Mask:
        found = missing(table, self.column)
        return ~found if self.is_not else found


@dataclass(frozen=True)
class Named:
    """`@in_stock`: an expression that is known by a name."""

    name: str
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"@{quoted_name(self.name)}"


@dataclass(frozen=True)
class Not:
    """True where its part is false."""

    part: Node

    def __str__(self) -> str:
        return f"not ({self.part})" if isinstance(self.part, AllOf | AnyOf) else f"not {self.part}"


@dataclass(frozen=True)
class AllOf:
    """`and` between two parts or more."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " and ".join(f"({p})" if isinstance(p, AnyOf) else str(p) for p in self.parts)


@dataclass(frozen=True)
class AnyOf:
    """`or` between two parts or more; `and` binds them more closely."""

    parts: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Node = Condition | Named | Not | AllOf | AnyOf


def joined(join: type[AllOf] | type[AnyOf], parts: list[Node]) -> Node:
    """The parts as one; those that are joined alike already are taken in.

    >>> str(joined(AllOf, [IsMissing("a"), AllOf((IsMissing("b"), IsMissing("c")))]))
    'a is missing and b is missing and c is missing'
    """
    if len(parts) == 1:
        return parts[0]
    return join(tuple(one for p in parts for one in (p.parts if isinstance(p, join) else (p,))))


def mask_of(node: Node, table: Attributes) -> Mask:
    """Which rows a node is true of; no name may be left in it."""
    return finished(mask_in_steps(node, table))


def mask_in_steps(node: Node, table: Attributes) -> Steps[Mask]:
    """The same, condition by condition."""
    if isinstance(node, Not):
        return ~(yield from mask_in_steps(node.part, table))
    if isinstance(node, AllOf | AnyOf):
        found = (yield from mask_in_steps(node.parts[0], table)).copy()
        join = np.logical_and if isinstance(node, AllOf) else np.logical_or
        for part in node.parts[1:]:
            join(found, (yield from mask_in_steps(part, table)), out=found)
        return found
    assert isinstance(node, Condition)
    yield
    return node.mask(table)


def finished(steps: Steps[T]) -> T:
    """What comes of all the steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(T, end.value)


def leaves(node: Node) -> Iterator[Condition | Named]:
    """All conditions and names in a node, from left to right."""
    if isinstance(node, Not):
        yield from leaves(node.part)
    elif isinstance(node, AllOf | AnyOf):
        for part in node.parts:
            yield from leaves(part)
    else:
        yield node


def depth_of(node: Node) -> int:
    """How deep nodes lie in one another."""
    parts = (node.part,) if isinstance(node, Not) else getattr(node, "parts", ())
    return 1 + max(map(depth_of, parts), default=0)


def replaced(node: Node, named: Mapping[str, Node]) -> Node:
    """The node with expressions in the place of their names."""
    if isinstance(node, Named):
        return named[node.name]
    if isinstance(node, Not):
        return Not(replaced(node.part, named))
    if isinstance(node, AllOf | AnyOf):
        return joined(type(node), [replaced(part, named) for part in node.parts])
    return node


def missing(table: Attributes, name: str) -> Mask:
    """Which rows of a column hold nothing."""
    column, found = table.columns[name], np.zeros(table.n_rows, bool)
    if isinstance(column, Numbers):
        np.isnan(column.values, out=found)
    elif isinstance(column, Categories):
        np.equal(column.codes, MISSING, out=found)
    elif isinstance(column, Tags):
        np.equal(column.indptr[1:], column.indptr[:-1], out=found)
    elif isinstance(column, OwnVectors):
        np.logical_not(column.is_known, out=found)
    else:
        found[:] = [text is None for text in column.texts]
    return found


def _by_code(column: Categories, is_so: Callable[[str], bool]) -> Mask:
    """Which rows have a category of which it is so: each name is looked at once."""
    of_names = np.fromiter(map(is_so, column.names), bool, len(column.names))
    found: Mask = np.append(of_names, False)[column.codes]  # the last, at -1, is for the missing
    return found


def quoted_name(name: str) -> str:
    """A name as an expression has it.

    >>> quoted_name("price"), quoted_name("unit price"), quoted_name("in")
    ('price', '`unit price`', '`in`')
    """
    if PLAIN_NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def written(value: float | str) -> str:
    r"""A value as an expression has it.

    >>> written(50.0), written(0.5), written('a "b" \\')
    ('50', '0.5', '"a \\"b\\" \\\\"')
    """
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _list_of(values: tuple[float, ...] | tuple[str, ...]) -> str:
    return f"[{', '.join(map(written, values))}]"
