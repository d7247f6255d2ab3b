"""How a text file is written, found out from its first lines."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiorec.data.sources.columns import Columns, is_header
from ratiorec.errors import DataError, NoPairsError

# The surest first. A space comes last: names and dates have spaces in them, too.
DELIMITERS = ("\t", ",", ";", "|", "::", " ")


@dataclass(frozen=True)
class Dialect:
    """The delimiter, the quotes and the header of a text file.

    `usable` says of each column whether it may serve in its usual place where there is no
    header: ids always, the third and fourth only when all of the first lines hold numbers
    or, for the fourth, dates.
    """

    delimiter: str
    has_quotes: bool
    has_header: bool
    first_row: tuple[str, ...]
    usable: tuple[bool, ...]

    @property
    def n_columns(self) -> int:
        return len(self.first_row)

    @property
    def csv_options(self) -> dict[str, Any]:
        """The same for Python's own reader, which knows one-letter delimiters only."""
        return _csv_options(self.delimiter, has_quotes=self.has_quotes)


def inspect(
    sample: str, *, columns: Columns, delimiter: str | None, header: bool | None, path: Path
) -> Dialect:
    """The dialect of a file that begins with this text; what is given is not guessed."""
    has_quotes = ".inter" not in path.suffixes  # RecBole writes every character as it is
    lines = [line for line in io.StringIO(sample, newline="") if line.strip("\r\n")]
    if not lines:
        raise DataError(
            "the file is empty", where=str(path), found="no line of text", wanted="rows of pairs"
        )
    if delimiter == "":
        raise DataError(
            "the delimiter is empty", where="delimiter", found="''", wanted="one character or more"
        )
    delimiter = delimiter or _sniffed(lines, path, has_quotes=has_quotes)
    rows = _rows(lines, delimiter, has_quotes=has_quotes)
    if len(rows[0]) < 2:
        raise _one_column(lines, delimiter, path, has_quotes=has_quotes)
    has_header = _looks_like_a_header(rows, columns) if header is None else header
    if has_header and len(rows) == 1:
        raise NoPairsError(
            "there are no rows",
            where=str(path),
            found=f"column names only: {', '.join(rows[0])}",
            wanted="at least one row with a user and an item",
        )
    body = rows[has_header:]
    usable = tuple(_is_usable(position, body) for position in range(len(rows[0])))
    return Dialect(delimiter, has_quotes, has_header, tuple(rows[0]), usable)


def _csv_options(delimiter: str, *, has_quotes: bool) -> dict[str, Any]:
    return {
        "delimiter": delimiter if len(delimiter) == 1 else "\x1f",
        "quoting": csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    }


def _rows(lines: list[str], delimiter: str, *, has_quotes: bool) -> list[list[str]]:
    options = _csv_options(delimiter, has_quotes=has_quotes)
    spelt = (line.replace(delimiter, options["delimiter"]) for line in lines)
    return [row for row in csv.reader(spelt, **options) if row]


def _sniffed(lines: list[str], path: Path, *, has_quotes: bool) -> str:
    """The delimiter that cuts most lines into equally many columns, two or more.

    Among equals more columns win (a decimal comma makes two, the semicolons around it more),
    but a space wins only where nothing else cuts.
    """

    def merit(delimiter: str) -> tuple[float, bool, int]:
        widths = Counter(map(len, _rows(lines, delimiter, has_quotes=has_quotes)))
        width, n_lines = widths.most_common(1)[0]
        return (n_lines / widths.total() if width > 1 else 0.0, delimiter != " ", width)

    usual = "\t" if {".tsv", ".inter"} & set(path.suffixes) else ","
    best = max(sorted(DELIMITERS, key=lambda delimiter: delimiter != usual), key=merit)
    if merit(best)[0] > 0:
        return best
    raise _one_column(lines, None, path, has_quotes=has_quotes)


def _one_column(
    lines: list[str], delimiter: str | None, path: Path, *, has_quotes: bool
) -> DataError:
    likely = [
        repr(other)
        for other in DELIMITERS
        if other != delimiter and len(_rows(lines, other, has_quotes=has_quotes)[0]) > 1
    ]
    how = "each usual delimiter" if delimiter is None else f"the delimiter {delimiter!r}"
    return DataError(
        "the rows have one column only",
        where=str(path),
        found=f"{lines[0].strip()[:80]!r} with {how}",
        wanted="a user and an item in each row"
        + (f"; the delimiter may be {' or '.join(likely)}" if likely else ", and a delimiter"),
    )


def _looks_like_a_header(rows: list[list[str]], columns: Columns) -> bool:
    """Names were asked for, or are usual ones, or stand above a column of numbers."""
    if columns.has_names or is_header(rows[0]):
        return True
    body = rows[1:]
    return any(
        not _is_number(cell)
        and bool(body)
        and all(_is_number(row[position]) for row in body if position < len(row))
        for position, cell in enumerate(rows[0])
    )


def _is_usable(position: int, rows: list[list[str]]) -> bool:
    if position < 2:
        return True
    cells = [row[position] for row in rows if position < len(row)]
    return all(map(_is_number, cells)) or (position == 3 and all(map(_is_date, cells)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _is_date(cell: str) -> bool:
    return len(cell) >= 10 and cell[:4].isdigit() and cell[4] == "-" and cell[7] == "-"
