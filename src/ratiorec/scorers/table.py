"""Results as tables, in memory and in files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, DataError, MissingExtraError, require_extra
from ratiorec.files import atomic_write
from ratiorec.plain import html_table
from ratiorec.scorers.topk import Ranking

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ratiorec.catalogue.attributes import Attributes
    from ratiorec.catalogue.columns import Column


_ROWS_IN_A_GROUP = 2**17
_ROWS_SHOWN = 10
KINDS = ("personal", "cold", "fallback")
"""How an item came into a list: ranked for this user; ranked, though without pairs, by its content;
popular, as nothing is known of the user."""
_PERSONAL, _COLD, _FALLBACK = range(3)
TABLE_SUFFIXES = (".parquet", ".csv", ".arrow")
_OWN = frozenset(("user_id", "item_id", "similar_id", "item_name", "similar_name"))
_OWN |= {"score", "rank", "kind"}
_NEEDS_QUOTES = re.compile(r'[",\r\n]|\A\Z')


@dataclass(frozen=True, eq=False)
class Recommendations:
    """Ranked items: columns user_id, item_id, score, rank, kind; item_name where items have names.

    Rows of one user stand together, best first, and rank starts at 1. A user for whom there are
    fewer items than asked for has fewer rows; `n_users` counts those without any row too.
    Similar items are such a table as well, with `query` "item" and `answer` "similar", and have
    no kind. `kinds` holds places in `KINDS`. Where attributes are given, `answers` are the rows of
    the listed items in them.
    """

    query_ids: NDArray[Any]
    answer_ids: NDArray[Any]
    scores: NDArray[np.float32]
    ranks: NDArray[np.int64]
    n_users: int
    answer_names: NDArray[np.object_] | None = None
    kinds: NDArray[np.int8] | None = None
    query: str = "user"
    answer: str = "item"
    answers: NDArray[np.int64] | None = None
    attributes: Attributes | None = None

    @classmethod
    def of(
        cls,
        ranking: Ranking,
        query_ids: NDArray[Any],
        items: Vocabulary,
        *,
        cold: NDArray[np.bool_] | None = None,
        attributes: Attributes | None = None,
        query: str = "user",
        answer: str = "item",
    ) -> Recommendations:
        """The rows of a ranking without its empty places; `query_ids` has one id for each row.

        Rows have a kind where `cold` says which items are ranked by their content alone, and these
        attributes of all items where there are some.
        """
        rows, places = np.nonzero(ranking.items >= 0)
        listed = ranking.items[rows, places]
        return cls(
            query_ids[rows],
            items.ids[listed],
            ranking.scores[rows, places],
            places + 1,
            len(query_ids),
            None if items.names is None else items.names[listed],
            None if cold is None else _kinds(ranking.users[rows], cold[listed]),
            query,
            answer,
            listed if attributes else None,
            attributes or None,
        )

    def __len__(self) -> int:
        return len(self.ranks)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns by name, in order; tags are lists, and a missing text is None."""
        columns = self._own_columns()
        return columns | {name: column.flat() for name, column in self._described().items()}

    def _own_columns(self) -> dict[str, NDArray[Any]]:
        columns = {f"{self.query}_id": self.query_ids, f"{self.answer}_id": self.answer_ids}
        if self.answer_names is not None:
            columns[f"{self.answer}_name"] = self.answer_names
        columns |= {"score": self.scores, "rank": self.ranks}
        return columns if self.kinds is None else columns | {"kind": _KIND_NAMES[self.kinds]}

    def _described(self) -> dict[str, Column]:
        """The attributes of the listed items, under the names that they have in a flat table."""
        if self.attributes is None or self.answers is None:
            return {}
        columns = self.attributes.take(self.answers).columns
        return dict(zip(flat_names(columns), columns.values(), strict=True))

    def to_arrow(self) -> pyarrow.Table:
        """The table for Arrow (extra `arrow`)."""
        pyarrow = require_extra("pyarrow", "arrow", where="to_arrow()")
        own = {name: arrow_column(values) for name, values in self._own_columns().items()}
        return pyarrow.table(
            own | {name: one.to_arrow() for name, one in self._described().items()}
        )

    def to_pandas(self) -> pandas.DataFrame:
        """The table for pandas."""
        frame: pandas.DataFrame = _optional("pandas").DataFrame(self.columns())
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table for polars."""
        frame: polars.DataFrame = _optional("polars").from_arrow(self.to_arrow())
        return frame

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain dictionaries, ready for JSON; attributes are one inside each."""
        columns = self._own_columns()
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        if self.attributes is not None and self.answers is not None:
            for row, values in zip(found, self.attributes.rows(self.answers), strict=True):
                row["attributes"] = values
        return found

    def _rows(self) -> list[tuple[str, ...]]:
        shown = {name: _as_text(values[:_ROWS_SHOWN]) for name, values in self.columns().items()}
        return [tuple(shown), *zip(*shown.values(), strict=True)]

    def _repr_html_(self) -> str:
        return html_table(self._rows(), caption=f"{len(self):,} rows")

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        if len(self) > _ROWS_SHOWN:
            lines.append(f"… {len(self) - _ROWS_SHOWN:,} more rows")
        return "\n".join(lines)


_KIND_NAMES = np.array(KINDS, object)


def flat_names(names: Iterable[str]) -> list[str]:
    """The names of attributes as columns beside those of a list, which databases must tell apart.

    >>> flat_names(["price", "kind"])
    ['price', 'item_kind']
    """
    found: list[str] = []
    taken = set(_OWN)
    for name in names:
        while name.casefold() in taken:
            name = f"item_{name}"
        taken.add(name.casefold())
        found.append(name)
    return found


def _kinds(users: NDArray[np.int64], is_cold: NDArray[np.bool_]) -> NDArray[np.int8]:
    """The kind of each row; a user of -1 is unknown to the model."""
    return np.where(users < 0, _FALLBACK, np.where(is_cold, _COLD, _PERSONAL)).astype(np.int8)


def arrow_column(values: NDArray[Any]) -> pyarrow.Array:
    """One column for Arrow; ids and names that are not numbers are text, even if there are none."""
    import pyarrow

    return pyarrow.array(values, pyarrow.string() if values.dtype == object else None)


def write_parquet(blocks: Iterable[Recommendations], path: str | Path) -> int:
    """Write blocks as they come into one Parquet file, whole or not at all; the number of rows."""
    from pyarrow import parquet

    groups = _row_groups(blocks)
    first = next(groups, None)
    if first is None:
        raise DataError(
            "there is nothing to write", where=str(path), found="no block", wanted="at least one"
        )
    n_rows = 0
    with atomic_write(path) as handle, parquet.ParquetWriter(handle, first.schema) as writer:
        while first is not None:
            writer.write_table(first)
            n_rows += len(first)
            first = next(groups, None)
    return n_rows


def _row_groups(blocks: Iterable[Recommendations]) -> Iterator[pyarrow.Table]:
    """Small blocks joined: a reader of Parquet pays for every row group."""
    import pyarrow

    waiting: list[pyarrow.Table] = []
    for block in blocks:
        waiting.append(block.to_arrow())
        if sum(map(len, waiting)) >= _ROWS_IN_A_GROUP:
            yield pyarrow.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pyarrow.concat_tables(waiting)


def write_table(columns: Mapping[str, NDArray[Any]], path: str | Path) -> None:
    """Write columns as .csv, .parquet or .arrow, whole or not at all; NaN is a missing value.

    Raises:
        MissingExtraError: All but .csv need the extra `arrow`.
    """
    suffix = require_table_format(path)
    if suffix == ".csv":
        with atomic_write(path) as handle:
            handle.writelines(csv_lines(columns))
        return
    from pyarrow import feather, parquet

    write = parquet.write_table if suffix == ".parquet" else feather.write_feather
    with atomic_write(path) as handle:
        write(arrow_table(columns), handle)


def require_table_format(path: str | Path) -> str:
    """The suffix of a file that `write_table` can write here, before there is a table."""
    suffix = Path(path).suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise ConfigError(
            "no such table format",
            where=str(path),
            found=suffix or "no suffix",
            wanted="a file name that ends in " + ", ".join(TABLE_SUFFIXES),
        )
    if suffix != ".csv":
        require_extra("pyarrow", "arrow", where=str(path))
    return suffix


def arrow_table(columns: Mapping[str, NDArray[Any]]) -> pyarrow.Table:
    """Columns for Arrow, NaN as a missing value."""
    pyarrow = require_extra("pyarrow", "arrow", where="a table for Arrow")
    return pyarrow.table(
        {
            name: arrow_column(values)
            if values.dtype == object
            else pyarrow.array(values, from_pandas=True)
            for name, values in columns.items()
        }
    )


def csv_lines(columns: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    """A header and rows of CSV in UTF-8: quotes where a cell needs them, nothing for NaN."""
    rows = zip(*map(_cells, columns.values()), strict=True)
    yield csv_header(columns)
    for row in rows:
        yield f"{','.join(row)}\n".encode()


def csv_header(names: Iterable[str]) -> bytes:
    """The line of a CSV file that names its columns."""
    return f"{','.join(map(_quoted, names))}\n".encode()


def _cells(values: NDArray[Any]) -> list[str]:
    """A column as text; of a float the shortest that is read as the same."""
    if values.dtype == object:
        texts = map(as_cell, values)
        return ["" if text is None else _quoted(text) for text in texts]
    cells: list[str] = values.astype(str).tolist()
    if values.dtype.kind == "f" and np.isnan(values).any():
        return ["" if cell == "nan" else cell for cell in cells]
    return cells


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


def as_cell(value: Any) -> str | None:
    """A value of text, tags or numbers as the text of one cell; None for what is missing.

    >>> as_cell(["fair", "organic"]), as_cell([])
    ('fair|organic', None)
    """
    if isinstance(value, list):
        return "|".join(map(str, value)) or None
    return None if value is None else str(value)


def _as_text(values: NDArray[Any]) -> list[str]:
    if values.dtype == np.float32:
        return [f"{value:.4f}" for value in values]
    if values.dtype == np.float64:
        return ["" if np.isnan(value) else f"{value:g}" for value in values]
    return [as_cell(value) or "" for value in values]


def _optional(name: str) -> ModuleType:
    """A data frame library, which is the reader's own choice to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is not installed",
            where=f"to_{name}()",
            found=f"no module {name}",
            wanted=f"pip install {name}, or to_arrow()",
        ) from error
