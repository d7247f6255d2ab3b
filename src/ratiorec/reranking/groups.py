"""Groups of items by the values of an attribute, as limits, places apart and shares need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.columns import MISSING, Categories, Column, Numbers, OwnVectors, Tags, Texts
from ratiorec.errors import ConfigError, unknown_choice
from ratiorec.scorers import Indices
from ratiorec.scorers.scorer import UserItems, pairs_of


class Groups(NamedTuple):
    """The groups that each item is in; after the last item stands a row without any."""

    of_items: UserItems
    n_groups: int

    @classmethod
    def of(cls, column: Column, *, where: str) -> Groups:
        """One group for each category, tag or number; what is missing is in none.

        Raises:
            ConfigError: It is a column of free text, or of vectors.
        """
        if isinstance(column, Texts | OwnVectors):
            raise ConfigError(
                "free text and vectors have no values to count",
                where=where,
                found=f"a column of kind {column.kind}",
                wanted="a column of categories, tags or numbers",
            )
        if isinstance(column, Tags):
            rows = UserItems(np.append(column.indptr, column.indptr[-1]), column.codes)
            return cls(rows, len(column.names))
        codes, n_groups = _codes(column)
        ends = np.cumsum(np.append(codes >= 0, False))
        return cls(UserItems(np.append(0, ends), codes[codes >= 0]), n_groups)

    def with_missing(self) -> Groups:
        """The same with one group more, of the items that are in no other."""
        lengths = np.diff(self.of_items.indptr)
        lonely = np.flatnonzero(lengths[:-1] == 0)
        codes = np.insert(self.of_items.indices, self.of_items.indptr[lonely], self.n_groups)
        lengths[lonely] = 1
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return Groups(UserItems(indptr, codes), self.n_groups + 1)

    @property
    def n_items(self) -> int:
        return self.of_items.n_users - 1

    def memberships(self, items: Indices) -> tuple[Indices, NDArray[np.int32]]:
        """Each place in `items` with each group of the item there; -1 is no item."""
        return pairs_of(self.of_items, np.where(items < 0, self.n_items, items))


def _codes(column: Categories | Numbers) -> tuple[NDArray[np.int32], int]:
    """The group of each item, -1 for none, and how many groups there are."""
    if isinstance(column, Categories):
        return column.codes, len(column.names)
    values, codes = np.unique(column.values, return_inverse=True)
    return np.where(np.isnan(column.values), MISSING, codes).astype(np.int32), len(values)


def grouped_by(columns: Mapping[str, Column], name: str, *, where: str) -> Groups:
    """The groups of a column.

    Raises:
        ConfigError: There is no such column, or it is free text.
    """
    if name not in columns:
        raise unknown_choice("no such attribute of items", name, columns, where=where)
    return Groups.of(columns[name], where=where)
