"""Dialect of a text file: its delimiter, its quotes, and whether its first line is a header."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ratiorec.data.formats.cells import first_rows
from ratiorec.data.formats.files import Columns, guessed_columns, is_header
from ratiorec.errors import DataError, NoPairsError

# The surest first. A space comes last: names and dates have spaces in them, too.
DELIMITERS = ("\t", ",", ";", "|", "::", " ")

_MOST = 0.95  # of the cells of a column agree
_FEW = 3  # cells of one length are chance
_LONG = 12  # letters: a name has so many seldom, a hash always


@dataclass(frozen=True)
class Dialect:
    """The delimiter, the quotes and the header of a text file.

    `usable` says of each column whether it may serve in its usual place where there is no
    header: ids always, the third and fourth only when all of the first lines hold numbers
    or, for the fourth, dates. `guess` names the likely columns where the header is not known.
    """

    delimiter: str
    has_quotes: bool
    has_header: bool
    first_row: tuple[str, ...]
    usable: tuple[bool, ...]
    guess: str = ""

    @property
    def n_columns(self) -> int:
        return len(self.first_row)


def inspect(
    start: bytes,
    *,
    columns: Columns,
    delimiter: str | None,
    header: bool | None,
    where: str,
    is_all: bool,
) -> Dialect:
    """The dialect of a text by its start, which may be all of it; what is given is not guessed."""
    if not start.strip(b"\r\n"):
        raise DataError(
            "the file is empty", where=where, found="no line of text", wanted="rows of pairs"
        )
    if delimiter == "":
        raise DataError(
            "the delimiter is empty", where="delimiter", found="''", wanted="one character or more"
        )
    has_quotes = ".inter" not in Path(where).suffixes  # RecBole writes every character as it is
    rows_by = functools.cache(
        functools.partial(first_rows, start, has_quotes=has_quotes, is_last=is_all)
    )
    delimiter = delimiter or sniffed(rows_by, where)
    rows = rows_by(delimiter) if delimiter else []
    if not rows or len(rows[0]) < 2:
        raise _one_column(rows_by, start, delimiter, where)
    has_header = _has_header(rows, columns, where) if header is None else header
    if has_header and len(rows) == 1 and is_all:
        raise NoPairsError(
            "there are no rows",
            where=where,
            found=f"column names only: {', '.join(rows[0])}",
            wanted="at least one row with a user and an item",
        )
    body = rows[has_header:]
    usable = tuple(_is_usable(position, body) for position in range(len(rows[0])))
    guess = guessed_columns(rows[0], _below(rows)) if has_header else ""
    return Dialect(delimiter, has_quotes, has_header, tuple(rows[0]), usable, guess)


_RowsBy = Callable[[str], list[list[str]]]
"""The first rows as a delimiter cuts them."""


def sniffed(rows_by: _RowsBy, where: str) -> str:
    """The delimiter that cuts most lines into equally many columns, two or more.

    Among equals more columns win (a decimal comma makes two, the semicolons around it more),
    but a space wins only where nothing else cuts.
    """

    def merit(delimiter: str) -> tuple[float, bool, int]:
        widths = Counter(map(len, rows_by(delimiter)))
        [(width, n_lines)] = widths.most_common(1) or [(0, 0)]
        return (n_lines / widths.total() if width > 1 else 0.0, delimiter != " ", width)

    usual = "\t" if {".tsv", ".inter"} & set(Path(where).suffixes) else ","
    best = max(sorted(DELIMITERS, key=lambda delimiter: delimiter != usual), key=merit)
    return best if merit(best)[0] > 0 else ""


def _one_column(rows_by: _RowsBy, start: bytes, delimiter: str, where: str) -> DataError:
    others = [other for other in DELIMITERS if other != delimiter]
    likely = [repr(other) for other in others if len((rows_by(other) or [[]])[0]) > 1]
    how = f"the delimiter {delimiter!r}" if delimiter else "each usual delimiter"
    line = start.strip(b"\r\n").partition(b"\n")[0].strip()[:80].decode(errors="replace")
    return DataError(
        "the rows have one column only",
        where=where,
        found=f"{line!r} with {how}",
        wanted="a user and an item in each row"
        + (f"; the delimiter may be {' or '.join(likely)}" if likely else ", and a delimiter"),
    )


def _has_header(rows: list[list[str]], columns: Columns, where: str) -> bool:
    """Whether names were asked for, or are usual ones, or stand out from what is below them.

    Raises:
        DataError: The first line may be either, so that taking it for a row could be wrong.
    """
    first = rows[0]
    if columns.has_names or is_header(first):
        return True
    if any(map(_is_number, first)):
        return False
    below = _below(rows)
    if any(cells and all(map(_is_number, cells)) for cells in below):
        return True
    if any(cell in cells for cell, cells in zip(first, below, strict=True)):
        return False  # a name would not come again as a value
    votes = {_stands_out(cell, cells) for cell, cells in zip(first, below, strict=True)} - {None}
    if len(votes) == 1:
        return votes == {True}
    raise DataError(
        "the first line may be column names or a row",
        where=f"{where}, line 1",
        found=f"{', '.join(map(repr, first))}: no known name of a column, and no value that "
        "comes again below",
        wanted=f"columns=Columns({guessed_columns(first, below)}) if they are names, "
        "header=False if they are a row",
    )


def _below(rows: list[list[str]]) -> list[list[str]]:
    """The cells of each column below the first row."""
    return [[row[n] for row in rows[1:] if n < len(row)] for n in range(len(rows[0]))]


def _stands_out(cell: str, cells: list[str]) -> bool | None:
    """Whether a cell differs from those below it as a name would; None if it cannot be told."""
    looks: tuple[tuple[Callable[[str], int], Callable[[int], bool]], ...] = (
        (lambda text: any(map(str.isdigit, text)), bool),
        (lambda text: "@" in text, bool),
        (lambda text: text[:1].isupper(), lambda _: False),
        (len, lambda usual: usual >= _LONG),
    )
    for look, is_telling in looks:
        [(usual, n)] = Counter(map(look, cells)).most_common(1) or [(0, -1)]
        if n < max(_MOST * len(cells), _FEW if look is len else 0):
            continue
        if look(cell) != usual:
            return True
        if is_telling(usual):
            return False
    return None


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
