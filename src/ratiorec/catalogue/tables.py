"""Tables of items and users: ids, titles and attributes, from files, data frames and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import COLUMNS, Column, Kind, Numbers, OwnVectors, Texts
from ratiorec.catalogue.conditions import missing
from ratiorec.catalogue.kinds import column_of
from ratiorec.catalogue.raw import RawTable, UnusableError, raw_table
from ratiorec.data.formats.files import ALIASES, by_alias, by_name
from ratiorec.data.formats.identifiers import encode_ids, id_faults
from ratiorec.data.formats.reading import (
    BadRows,
    Fault,
    Faults,
    OnBadRows,
    counted,
    lack_of_memory_is_told,
)
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, unknown_choice
from ratiorec.scorers.table import flat_names

Side = Literal["item", "user"]

TITLES = (
    *("title", "itemtitle", "itemname", "name", "producttitle", "productname", "movietitle"),
    *("booktitle", "tracktitle", "trackname", "songtitle", "songname", "artistname"),
    *("articletitle", "headline", "displayname", "label"),
)
"""The usual names of a column of titles, the surest first."""


@dataclass(frozen=True, eq=False)
class IdTable:
    """What is known of items, or of users: ids with titles and attributes, in the order of a file.

    `roles` are the columns of ids and titles as the source calls them; `left_out` says which others
    could not be attributes, and what is in them.
    """

    ids: NDArray[Any]
    titles: NDArray[np.object_] | None
    attributes: Attributes
    kind: Side = "item"
    origin: str = "given"
    roles: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    n_dropped: int = 0

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        kind: Side = "item",
        id_column: str | None = None,
        title_column: str | None = None,
        column_kinds: Mapping[str, Kind] | None = None,
        delimiter: str | None = None,
        on_bad_rows: OnBadRows = "stop",
    ) -> IdTable:
        """A table of a file, a data frame or a dictionary of columns.

        Args:
            source: A path (CSV, TSV, Parquet, Arrow; a folder or pattern of parts of one table; `-`
                for text on standard input), a pandas or polars frame, an Arrow table, or a
                dictionary of columns.
            kind: Whether it tells of items or of users.
            id_column: The column of ids, by name; usual names are found without it.
            title_column: The column of titles, in the same way; users have none unless named.
            column_kinds: "number", "category", "tags", "text" or "vector" by the name of a column;
                the kinds of the others are found from all their values.
            delimiter: What stands between the cells of a text file, found out when not given.
            on_bad_rows: Whether rows without an id, with one that was there already, or with a
                number that cannot be read stop the reading or are left out.

        Raises:
            DataError: The table, or a row of it, cannot be used.
            MemoryBudgetError: It would need more memory than is left.
        """
        bad = BadRows(on_bad_rows)
        forced = _require_kinds(column_kinds or {})
        with lack_of_memory_is_told(str(source) if isinstance(source, str) else f"{kind}s"):
            raw = raw_table(source, delimiter=delimiter, holds=f"{kind}s")
            return _read(raw, _Roles.of(raw, kind, id_column, title_column), forced, bad)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.int64]) -> IdTable:
        """These rows alone."""
        titles = None if self.titles is None else self.titles[rows]
        return replace(
            self, ids=self.ids[rows], titles=titles, attributes=self.attributes.take(rows)
        )

    def lines(self) -> list[str]:
        """The report for people: what was taken for what."""
        roles = ", ".join(f"{role} = {column!r}" for role, column in self.roles.items())
        dropped = f", {self.n_dropped:,} dropped" if self.n_dropped else ""
        told = [
            f"read {self.origin}: {roles}; {counted(len(self) + self.n_dropped, 'row')}{dropped}"
        ]
        told.append("columns: " + (described(self.attributes) or "none but these"))
        for name, why in self.left_out.items():
            told.append(f"note: the column {name!r} is left out: {why}")
        names = list(self.attributes.columns)
        for name, flat in zip(names, flat_names(names), strict=True):
            if self.kind == "item" and flat != name:
                told.append(f"note: the attribute {name!r} is called {flat!r} in tables of lists")
        return told


_SHOWN = 3


def overview(table: Attributes) -> list[list[str]]:
    """A heading and a row for each column: its kind, missing values, and what is in it."""
    rows = [["attribute", "kind", "missing", "values"]]
    for name, column in table.columns.items():
        n_missing = int(missing(table, name).sum())
        rows.append([name, column.kind, f"{n_missing:,}", _values(column)])
    return rows


def _values(column: Column) -> str:
    if isinstance(column, Numbers):
        known = column.values[~np.isnan(column.values)]
        return f"{known.min():g} to {known.max():g}" if len(known) else "none"
    if isinstance(column, OwnVectors):
        return f"{column.values.shape[1]:,} numbers each"
    if isinstance(column, Texts):
        return counted(len({text for text in column.texts if text is not None}), "text")
    used, counts = np.unique(column.codes[column.codes >= 0], return_counts=True)
    usual = column.names[used[np.argsort(-counts, kind="stable")]].tolist()
    more = f", … ({len(usual):,})" if len(usual) > _SHOWN else ""
    return ", ".join(usual[:_SHOWN]) + more or "none"


def described(table: Attributes) -> str:
    """The kind of each column, and how many of its values are missing."""
    told = []
    for name, kind in table.kinds.items():
        n_missing = int(missing(table, name).sum())
        told.append(f"{name} ({kind}{f', {n_missing:,} missing' if n_missing else ''})")
    return ", ".join(told)


@dataclass(frozen=True)
class _Roles:
    """Where the ids and the titles stand in a table."""

    kind: Side
    id: int
    title: int | None

    @classmethod
    def of(
        cls, raw: RawTable, kind: Side, id_column: str | None, title_column: str | None
    ) -> _Roles:
        _require_each_once(raw)
        place = _named(id_column, raw, "--id-column") if id_column else None
        if place is None:
            place = by_alias(_id_names(kind), raw.names)
        if place is None:
            listed = ", ".join(map(repr, raw.names[:20]))
            raise DataError(
                f"no column of {kind} ids",
                where=raw.origin,
                found=f"the columns {listed}" if listed else "no column",
                wanted=f"a usual name such as {ALIASES[kind][0]!r} or 'id', or --id-column NAME",
            )
        title = _named(title_column, raw, "--title-column") if title_column else None
        if title is None and kind == "item":
            others = [name if at != place else "" for at, name in enumerate(raw.names)]
            title = by_alias(TITLES, others)
        if title == place:
            raise DataError(
                "one column cannot be both id and title",
                where=raw.origin,
                found=repr(raw.names[place]),
                wanted="another column for --title-column",
            )
        return cls(kind, place, title)

    def names(self, raw: RawTable) -> dict[str, str]:
        """The columns as the source calls them."""
        named: dict[str, str] = {self.kind: raw.names[self.id]}
        return named if self.title is None else named | {"title": raw.names[self.title]}


def _id_names(kind: Side) -> Sequence[str]:
    """The usual names of ids, the surest first: «artist» comes late, as it may be an attribute."""
    first, *others = ALIASES[kind]
    nouns = [name for name in others if f"{name}id" in ALIASES[kind]]
    return first, "id", *(name for name in others if name not in nouns), *nouns


def _named(column: str, raw: RawTable, option: str) -> int:
    place = by_name(column, raw.names)
    if place is None or place >= len(raw.names):
        raise unknown_choice("no such column", column, raw.names, where=option)
    return place


def _require_each_once(raw: RawTable) -> None:
    """Refuse names that a database could not tell apart."""
    seen: dict[str, str] = {}
    for name in filter(None, raw.names):
        if (other := seen.get(name.casefold())) is not None:
            raise DataError(
                "two columns have one name",
                where=raw.origin,
                found=f"{other!r} and {name!r}",
                wanted="each name once, whatever its capitals",
            )
        seen[name.casefold()] = name


def _require_kinds(kinds: Mapping[str, str]) -> dict[str, Kind]:
    for name, kind in kinds.items():
        if kind not in COLUMNS:
            raise unknown_choice(
                f"no such kind for the column {name}", kind, COLUMNS, where="--column-kind"
            )
    return dict(kinds)  # type: ignore[arg-type]


def _read(raw: RawTable, roles: _Roles, forced: Mapping[str, Kind], bad: BadRows) -> IdTable:
    """The table of the rows that can be used, once the others may be left out."""
    if not raw.n_rows and not raw.ragged:
        raise DataError(
            "there are no rows",
            where=raw.origin,
            found=f"column names only: {', '.join(raw.names)}",
            wanted="a row for each id",
        )
    names = roles.names(raw)
    ids, faults = _ids(raw, roles)
    titles = None if roles.title is None else _titles(raw, roles.title)
    columns: dict[str, Column] = {}
    left_out = {"": "it has no name"} if "" in raw.names else {}
    for name, at in _attributes(raw, roles, forced).items():
        try:
            columns[name], found = _column(raw, at, forced.get(name))
        except UnusableError as unusable:
            left_out[name] = f"it holds {unusable}"
        else:
            faults = {row: _in(name, fault) for row, fault in found.items()} | faults
    faults |= ids.repeats(raw, faults, roles.kind)
    _settle(raw, faults, bad)
    good = np.flatnonzero(_is_good(raw, faults))
    table = Attributes(raw.n_rows, columns)
    return IdTable(
        ids.of(good),
        None if titles is None else titles[good],
        table.take(good) if faults else table,
        roles.kind,
        raw.origin,
        names,
        left_out,
        len(faults) + len(raw.ragged),
    )


def _titles(raw: RawTable, at: int) -> NDArray[np.object_]:
    try:
        column, _ = _column(raw, at, "text")
    except UnusableError as unusable:
        raise DataError(
            "titles cannot be read",
            where=f"{raw.origin}, column {raw.names[at]}",
            found=str(unusable),
            wanted="text, or another column as --title-column",
        ) from None
    assert isinstance(column, Texts)
    return column.texts


def _in(name: str, fault: Fault) -> Fault:
    return fault._replace(what=f"column {name}: {fault.what}")


def _attributes(raw: RawTable, roles: _Roles, forced: Mapping[str, Kind]) -> dict[str, int]:
    """Where each attribute stands."""
    taken = (roles.id, roles.title)
    found = {name: at for at, name in enumerate(raw.names) if name and at not in taken}
    for name in forced:
        if name not in found:
            raise unknown_choice("no such column to have a kind", name, found, where=raw.origin)
    return found


def _column(raw: RawTable, at: int, kind: Kind | None) -> tuple[Column, Faults]:
    """A column of a table, which does not keep it: the memory is needed for the next."""
    cells, raw.columns[at] = raw.as_cells(raw.columns[at]), None
    return column_of(cells, kind, is_text=raw.is_text)


@dataclass(frozen=True, eq=False)
class _PlacedIds:
    """The id of each row that has one, as a place among all ids; -1 for the other rows."""

    vocabulary: Vocabulary
    places: NDArray[np.int64]

    def of(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of some rows."""
        return np.asarray(self.vocabulary.ids[self.places[rows]])

    def repeats(self, raw: RawTable, faults: Faults, kind: Side) -> Faults:
        """The rows whose id an earlier row without a fault has."""
        rows = np.flatnonzero(_is_good(raw, faults))
        found = self.places[rows]
        first = np.zeros(len(self.vocabulary), np.int64)
        first[found[::-1]] = rows[::-1]  # the earliest is written last
        again = {}
        for row in rows[first[found] != rows].tolist():
            place = self.places[row]
            where = raw.place(int(raw.keys[first[place]])).removeprefix(f"{raw.origin}, ")
            shown = f"{self.vocabulary.ids[place]!r}, as in {where}"
            again[row] = Fault(f"{kind} id is there twice", shown, "each id once")
        return again


def _ids(raw: RawTable, roles: _Roles) -> tuple[_PlacedIds, Faults]:
    """The ids of the rows, and the rows without one."""
    values, kind = raw.as_ids(raw.columns[roles.id]), roles.kind
    raw.columns[roles.id] = None
    faults = {**id_faults(values, kind=kind, is_text=raw.is_text), **raw.faults}
    is_good = _is_good(raw, faults)
    vocabulary, found = encode_ids(values.select(is_good), kind=kind, is_text=raw.is_text)
    places = np.full(raw.n_rows, -1)
    places[is_good] = found
    return _PlacedIds(vocabulary, places), faults


def _is_good(raw: RawTable, faults: Faults) -> NDArray[np.bool_]:
    """Which rows are without a fault."""
    is_good = np.ones(raw.n_rows, bool)
    is_good[list(faults)] = False
    return is_good


def _settle(raw: RawTable, faults: Faults, bad: BadRows) -> None:
    """Refuse the table for its bad rows, or go on without them."""
    rows = {int(raw.keys[row]): fault for row, fault in faults.items()}
    bad.add(rows | raw.ragged, place=raw.place, content=lambda key: "")
    n_rows = raw.n_rows + len(raw.ragged)
    bad.settle(raw.origin, n_rows)
    if bad.n == n_rows:
        told = "; ".join(bad.sentences(raw.origin))
        raise DataError("no row can be used", where=raw.origin, found=told, wanted="rows with ids")
