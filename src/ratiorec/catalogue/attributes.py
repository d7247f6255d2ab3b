"""Attributes: a table with one row for each index of a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.columns import COLUMNS, Column, Value
from ratiorec.errors import unknown_choice
from ratiorec.scorers.scorer import require_fit

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Attributes:
    """Columns by name, each with one value for every index; none at all is a table too.

    >>> from ratiorec.catalogue.columns import Categories, Numbers
    >>> prices = Numbers(np.array([9.5, np.nan]))
    >>> table = Attributes(2, {"price": prices, "kind": Categories.of(["book", None])})
    >>> table.row(0), table.kinds
    ({'price': 9.5, 'kind': 'book'}, {'price': 'number', 'kind': 'category'})
    """

    n_rows: int
    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        for name, column in self.columns.items():
            require_fit(f"attribute {name}", len(column), self.n_rows, "one value for each id")

    def __bool__(self) -> bool:
        return bool(self.columns)

    @classmethod
    def none(cls, n_rows: int) -> Attributes:
        """No attributes."""
        return cls(n_rows, {})

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return {name: column.kind for name, column in self.columns.items()}

    def row(self, index: int) -> dict[str, Value]:
        """The attributes of one index in plain types."""
        return {name: column.value(index) for name, column in self.columns.items()}

    def rows(self, indices: Sequence[int] | NDArray[np.integer]) -> list[dict[str, Value]]:
        """The same of several."""
        taken = self.take(np.asarray(indices, np.int64)).columns
        values = zip(*(column.plain() for column in taken.values()), strict=True)
        return [dict(zip(taken, row, strict=True)) for row in values] or [{} for _ in indices]

    def asked_for(self, names: Sequence[str], *, where: str) -> Attributes:
        """The columns of these names; "all" are all but vectors, which say nothing to people.

        Raises:
            UnknownChoiceError: There is no such column.
        """
        if "all" in names:
            shown = {name: one for name, one in self.columns.items() if one.kind != "vector"}
            return Attributes(self.n_rows, shown)
        for name in names:
            if name not in self.columns:
                raise unknown_choice("no such attribute", name, self.columns, where=where)
        return Attributes(self.n_rows, {name: self.columns[name] for name in names})

    def take(self, indices: NDArray[np.int64]) -> Attributes:
        """The rows at these indices; those at -1 are missing in every column."""
        taken = {name: column.take(indices) for name, column in self.columns.items()}
        return Attributes(len(indices), taken)

    def followed_by(self, other: Attributes) -> Attributes:
        """The rows of this table, then those of the other, missing where one has no such column.

        Raises:
            ModelError: A column is of two kinds.
        """
        columns: dict[str, Column] = {}
        for name in {**self.columns, **other.columns}:
            one, two = self.columns.get(name), other.columns.get(name)
            one = _missing(two, self.n_rows) if one is None else one
            two = _missing(one, other.n_rows) if two is None else two
            require_fit(f"kind of attribute {name}", two.kind, one.kind, "the same in both tables")
            columns[name] = one.followed_by(two)  # type: ignore[arg-type]  # they are of one kind
        return Attributes(self.n_rows + other.n_rows, columns)

    def describe(self) -> list[dict[str, str]]:
        """Names and kinds in the order of the columns, for the header of a model folder."""
        return [{"name": name, "kind": kind} for name, kind in self.kinds.items()]

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """All columns, under names that start with the prefix and the place of the column."""
        return {
            f"{prefix}{place}.{name}": array
            for place, column in enumerate(self.columns.values())
            for name, array in column.arrays().items()
        }

    @classmethod
    def from_arrays(
        cls, n_rows: int, described: Sequence[Mapping[str, str]], arrays: Arrays, prefix: str
    ) -> Attributes:
        """The table again."""
        columns: dict[str, Column] = {}
        for place, one in enumerate(described):
            start = f"{prefix}{place}."
            own = {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}
            columns[one["name"]] = COLUMNS[one["kind"]].from_arrays(own)
        return cls(n_rows, columns)


def _missing(like: Column | None, n_rows: int) -> Column:
    """A column of this kind in which every value is missing."""
    assert like is not None
    return like.take(np.full(n_rows, -1))
