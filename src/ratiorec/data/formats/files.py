"""Files of pairs, by their endings, and the columns that are read from them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType

from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, DataNotFoundError

# The usual names, the surest first, in small letters and digits only: `User-ID` is `userid`.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "user": (
            *("userid", "user", "uid", "username", "useridx", "userindex", "customerid"),
            *("customer", "visitorid", "visitor", "memberid", "member", "accountid", "account"),
            *("clientid", "client", "reviewerid", "reviewer", "personid", "sessionid", "session"),
        ),
        "item": (
            *("itemid", "item", "iid", "itemidx", "itemindex", "productid", "product", "sku"),
            *("movieid", "movie", "parentasin", "asin", "isbn", "bookid", "book", "trackid"),
            *("track", "songid", "song", "artistid", "artist", "articleid", "article", "newsid"),
            *("videoid", "video", "gameid", "game", "businessid", "venueid", "locationid"),
            *("contentid", "documentid", "docid", "poi"),
        ),
        "weight": (
            *("weight", "rating", "ratings", "stars", "overall", "count", "counts", "score"),
            *("playcount", "plays", "nplays", "listens", "quantity", "qty", "strength"),
            *("confidence", "frequency"),
        ),
        "timestamp": (
            *("timestamp", "ts", "eventtimestamp", "eventtime", "unixtime", "unixtimestamp"),
            *("unixreviewtime", "time", "datetime", "date", "eventdate", "createdat"),
        ),
    }
)

_ATOMIC_TYPE = re.compile(r":(token|float)(_seq)?$")


Positions = dict[str, int]
"""Where each role stands in a row, from 0; a role that the table lacks is not in it."""


@dataclass(frozen=True)
class Columns:
    """The column of each role, by name or by position from 0.

    None looks for the usual names, whatever their case and punctuation; an empty name leaves
    the weight or the timestamp out. Text that is no name but a number counts as a position.
    """

    user: str | int | None = None
    item: str | int | None = None
    weight: str | int | None = None
    timestamp: str | int | None = None

    @property
    def has_names(self) -> bool:
        """Whether a column is given by a name, so that there must be a header."""
        given = (getattr(self, field.name) for field in fields(self))
        return any(isinstance(column, str) and column and not column.isdigit() for column in given)

    def among(self, names: Sequence[str], *, where: str) -> Positions:
        """The position of each role in a table with these column names."""
        roles = {role: self._position(role, names, where) for role in ALIASES}
        for role in ("user", "item"):
            if roles[role] is None:
                raise DataError(
                    f"no {role} column",
                    where=where,
                    found=f"the columns {_listed(names)}",
                    wanted=f"a usual name such as {ALIASES[role][0]!r} or {ALIASES[role][1]!r}, "
                    f"or the {role} column by name or position",
                )
        return _distinct(roles, where)

    def in_order(self, n_columns: int, *, where: str, usable: Sequence[bool]) -> Positions:
        """The position of each role where there is no header: user, item, weight, timestamp.

        A third or fourth column that was not asked for is taken only where it is `usable`.
        """
        names = [f"column {position}" for position in range(n_columns)]
        given = {role: self._position(role, names, where, aliases=False) for role in ALIASES}
        taken = {position for position in given.values() if position is not None}
        for default, role in enumerate(ALIASES):
            free = default < n_columns and default not in taken and usable[default]
            if getattr(self, role) is None and free:
                given[role] = default
        for role in ("user", "item"):
            if given[role] is None:
                raise DataError(
                    f"no {role} column",
                    where=where,
                    found=f"{n_columns} columns without names, other columns given",
                    wanted=f"the position of the {role} column",
                )
        return _distinct(given, where)

    def _position(
        self, role: str, names: Sequence[str], where: str, *, aliases: bool = True
    ) -> int | None:
        column = getattr(self, role)
        if column == "":
            return None
        if column is None:
            return _by_alias(role, names) if aliases else None
        position = _by_name(column, names) if isinstance(column, str) else column
        if position is None or not 0 <= position < len(names):
            raise DataError(
                f"no such {role} column",
                where=where,
                found=f"the columns {_listed(names)}",
                wanted=f"{column!r} among them, or a position from 0 to {len(names) - 1}",
            )
        return int(position)


def is_header(cells: Sequence[str]) -> bool:
    """Whether one of the cells is a usual name of a user or item column."""
    return any(_by_alias(role, cells) is not None for role in ("user", "item"))


def without_type(name: str) -> str:
    """A column name without the type that RecBole's atomic files write behind it."""
    return _ATOMIC_TYPE.sub("", name.strip())


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", without_type(name).lower())


def _by_alias(role: str, names: Sequence[str]) -> int | None:
    plain = [_plain(str(name)) for name in names]
    return next((plain.index(alias) for alias in ALIASES[role] if alias in plain), None)


def _by_name(column: str, names: Sequence[str]) -> int | None:
    for spelling in (str, without_type, lambda name: without_type(name).lower()):
        spelt = [spelling(str(name)) for name in names]
        if spelling(column) in spelt:
            return spelt.index(spelling(column))
    return int(column) if column.isdigit() else None


def _distinct(roles: Mapping[str, int | None], where: str) -> Positions:
    found = {role: position for role, position in roles.items() if position is not None}
    owner: dict[int, str] = {}
    for role, position in found.items():
        if position in owner:
            raise DataError(
                "one column cannot be two things",
                where=where,
                found=f"column {position} as {owner[position]} and as {role}",
                wanted="another column for each",
            )
        owner[position] = role
    return found


def _listed(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".data", ".inter")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")


def read(
    path: str | os.PathLike[str],
    *,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    delimiter: str | None = None,
    header: bool | None = None,
) -> Interactions:
    """Read the pairs of a file.

    The suffix says the format: .csv, .tsv, .txt, .dat, .data and RecBole's .inter (each also
    with .gz behind), .parquet, Arrow's .arrow, .feather and .ipc, or a scipy sparse matrix
    in .npz.

    Args:
        path: The file.
        columns: Which column is what; the usual names are found without it. A text file
            without header holds user and item, then weight and timestamp where they fit.
        delimiter: What stands between the cells of a text file, found out when not given.
        header: Whether a text file begins with column names, found out when not given.

    Raises:
        DataError: The file, or a row of it, cannot be used.
    """
    # Arrow is loaded with these two, and only where a file is read
    from ratiorec.data.formats.delimited import read_delimited
    from ratiorec.data.formats.tables import read_arrow, read_parquet

    path = Path(path)
    _require_file(path)
    suffix = _suffix(path)
    if suffix in TEXT_SUFFIXES:
        return read_delimited(path, columns=columns, delimiter=delimiter, header=header)
    if suffix == ".parquet":
        return read_parquet(path, columns)
    if suffix in ARROW_SUFFIXES:
        return read_arrow(path, columns)
    if suffix == ".npz":
        return _read_npz(path)
    raise _unknown_format(path)


def _suffix(path: Path) -> str:
    """The suffix of the format: the last, or the one before .gz where that is text."""
    *before, last = ["", *(suffix.lower() for suffix in path.suffixes)]
    return before[-1] if last == ".gz" and before[-1] in TEXT_SUFFIXES else last


def _unknown_format(path: Path) -> DataError:
    known = (*TEXT_SUFFIXES, ".parquet", *ARROW_SUFFIXES, ".npz")
    return DataError(
        "unknown file format",
        where=str(path),
        found=f"the suffix {_suffix(path)!r}",
        wanted=f"one of {', '.join(known)}; text may be gzipped (.csv.gz)",
    )


def _require_file(path: Path) -> None:
    if not path.exists():
        raise DataNotFoundError(
            "no such file",
            where=str(path),
            found="nothing at this path",
            wanted="a file with pairs",
        )
    if not path.is_file():
        raise DataError(
            "this is not a file",
            where=str(path),
            found="a folder" if path.is_dir() else "a device or pipe",
            wanted="a file; a folder in LightGCN form is read by read_lightgcn",
        )
    if not path.stat().st_size:
        raise DataError(
            "the file is empty", where=str(path), found="0 bytes", wanted="rows of pairs"
        )


def _read_npz(path: Path) -> Interactions:
    import zipfile

    import scipy.sparse

    try:
        matrix = scipy.sparse.load_npz(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            "the file cannot be read as a sparse matrix",
            where=str(path),
            found=str(error).splitlines()[0][:200] if str(error) else type(error).__name__,
            wanted="a file written by scipy.sparse.save_npz",
        ) from error
    return Interactions.from_csr(matrix)
