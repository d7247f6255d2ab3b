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
        return [self.row(int(index)) for index in indices]

    def asked_for(self, names: Sequence[str], *, where: str) -> Attributes:
        """The columns of these names; "all" are all of them.

        Raises:
            UnknownChoiceError: There is no such column.
        """
        if "all" in names:
            return self
        for name in names:
            if name not in self.columns:
                known = list(self.columns) or ["none: the model has no such table"]
                raise unknown_choice("no such attribute", name, known, where=where)
        return Attributes(self.n_rows, {name: self.columns[name] for name in names})

    def take(self, indices: NDArray[np.int64]) -> Attributes:
        """The rows at these indices; those at -1 are missing in every column."""
        taken = {name: column.take(indices) for name, column in self.columns.items()}
        return Attributes(len(indices), taken)

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
