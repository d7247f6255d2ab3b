"""Tables of items and users, aligned with the ids of a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.tables import IdTable
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError
from ratiorec.model.artifact import Artifact
from ratiorec.model.foldin.intake import require_one_kind

_IDS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Aligned:
    """A table beside the ids of a model: `n_known` ids are in both, `unknown` are the rows without
    a pair in training, and `n_missing` ids with pairs are not in the table.
    """

    table: IdTable
    n_known: int
    unknown: IdTable
    n_missing: int

    def line(self) -> str:
        """The counts for people."""
        kind = self.table.kind
        return (
            f"{kind}s: {self.n_known:,} known, {len(self.unknown):,} without pairs, "
            f"{self.n_missing:,} of the model without a row"
        )

    def to_json(self) -> dict[str, Any]:
        """The counts and the kinds of the columns."""
        return {
            "known": self.n_known,
            "unknown": len(self.unknown),
            "missing": self.n_missing,
            "columns": self.table.attributes.kinds,
        }


@dataclass(frozen=True, eq=False)
class Attached:
    """What became of the tables that a model was given, each None where there was none."""

    items: Aligned | None = None
    users: Aligned | None = None

    def __iter__(self) -> Iterator[Aligned]:
        return (side for side in (self.items, self.users) if side is not None)

    def to_json(self) -> dict[str, Any]:
        """Both sides, under "items" and "users" where there is such a table."""
        return {f"{side.table.kind}s": side.to_json() for side in self}


def attach(
    model: Artifact, items: IdTable | None = None, users: IdTable | None = None
) -> tuple[Artifact, Attached]:
    """The model with these tables in place of its own, and what became of their rows.

    Items and users without a row have no attributes, and items without a title their id for a name;
    where a table has no titles, the model keeps the names that it has. Rows without pairs become
    cold items and new users, in place of those that came so before.

    Raises:
        DataError: A table has none of the model's ids.
    """
    attached = []
    if items is not None:
        model = model.without_cold_items()
        rows, aligned = _aligned(items, model.items)
        names = None if items.titles is None else names_by_rows(items.titles, rows, model.items)
        model = model.with_items(items.attributes.take(rows), names)
        model = model.with_cold_items(aligned.unknown)
        attached.append(aligned)
    if users is not None:
        rows, aligned = _aligned(users, model.users)
        model = model.with_users(users.attributes.take(rows)).with_new_users(aligned.unknown)
        attached.append(aligned)
    return model, Attached(**{f"{side.table.kind}s": side for side in attached})


def require_known(table: IdTable, vocabulary: Vocabulary) -> None:
    """Refuse a table without a single id of the vocabulary, as one of another shop is.

    So are new items whose ids are of another kind: they could not become cold items.
    """
    _require_some(table, vocabulary)
    if table.kind == "item":
        new = table.ids[vocabulary.indices(table.ids, on_unknown="skip") < 0]
        require_one_kind(vocabulary, new, where=table.origin)


def _require_some(table: IdTable, vocabulary: Vocabulary) -> None:
    for start in range(0, len(table), _IDS_AT_ONCE):  # as a rule one of the first is known
        ids = table.ids[start : start + _IDS_AT_ONCE]
        if (vocabulary.indices(ids, on_unknown="skip") >= 0).any():
            return
    kind, shown = table.kind, ", ".join(map(repr, vocabulary.ids[:3].tolist()))
    column = f" in {table.roles[kind]!r}" if kind in table.roles else ""
    raise DataError(
        f"the table has none of the model's {kind}s",
        where=table.origin,
        found=f"{', '.join(map(repr, table.ids[:3].tolist()))}, …{column}",
        wanted=f"ids such as {shown}; if they are in another column, --id-column NAME",
    )


def same_tables(a: Artifact, b: Artifact) -> bool:
    """Whether two models have the same ids, names and attributes of their items and users."""
    return (
        a.items.same_as(b.items)
        and _same(a.item_table, b.item_table)
        and _same(a.user_table, b.user_table)
        and np.array_equal(_named(a.items), _named(b.items))
        and _same_users(a.new_users, b.new_users)
    )


def _aligned(table: IdTable, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], Aligned]:
    """The row of each id of the vocabulary, -1 where there is none; and the counts."""
    require_known(table, vocabulary)
    places = vocabulary.indices(table.ids, on_unknown="skip")
    rows = np.full(len(vocabulary), -1)
    known = np.flatnonzero(places >= 0)
    rows[places[known]] = known
    n_known = int((rows >= 0).sum())
    unknown = table.take(np.flatnonzero(places < 0))
    return rows, Aligned(table, n_known, unknown, len(vocabulary) - n_known)


def names_by_rows(titles: NDArray[Any], rows: NDArray[np.int64], items: Vocabulary) -> list[str]:
    """The titles in these rows as names of items; the id where there is none, as in row -1."""
    given = [titles[row] if row >= 0 else None for row in rows.tolist()]
    ids = map(str, items.ids.tolist())
    return [title or identifier for title, identifier in zip(given, ids, strict=True)]


def _named(items: Vocabulary) -> NDArray[Any]:
    return np.zeros(0, object) if items.names is None else items.names


def _same_users(a: IdTable | None, b: IdTable | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a.ids, b.ids) and _same(a.attributes, b.attributes)


def _same(a: Attributes, b: Attributes) -> bool:
    ours, theirs = a.arrays(""), b.arrays("")
    return a.describe() == b.describe() and all(
        np.array_equal(array, theirs[name], equal_nan=array.dtype.kind == "f")
        for name, array in ours.items()
    )
