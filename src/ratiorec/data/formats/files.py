"""Files of pairs, by their endings, and the columns that are read from them."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ratiorec.data.formats.reading import BadRows, OnBadRows, Repeats, lack_of_memory_is_told
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

EVENT_ALIASES = (
    *("event", "eventtype", "eventkind", "eventname", "kind", "action", "actiontype", "activity"),
    *("activitytype", "behavior", "behaviour", "behaviortype", "behaviourtype", "interactiontype"),
    *("feedbacktype", "transactiontype", "type"),
)
"""Usual names of a column of kinds of event: told where it is not used, never used unasked."""

_ATOMIC_TYPE = re.compile(r":(token|float)(_seq)?$")


Positions = dict[str, int]
"""Where each role stands in a row, from 0; a role that the table lacks is not in it."""


@dataclass(frozen=True)
class Columns:
    """The column of each role, by name or by position from 0.

    None looks for the usual names, whatever their case and punctuation; an empty name leaves
    the weight or the timestamp out. Text that is no name but a number counts as a position.
    The column of kinds of event is read only where it is given.
    """

    user: str | int | None = None
    item: str | int | None = None
    weight: str | int | None = None
    timestamp: str | int | None = None
    event: str | int | None = None

    @property
    def has_names(self) -> bool:
        """Whether a column is given by a name, so that there must be a header."""
        given = (getattr(self, field.name) for field in fields(self))
        return any(isinstance(column, str) and column and not column.isdigit() for column in given)

    def among(self, names: Sequence[str], *, where: str) -> Positions:
        """The position of each role in a table with these column names."""
        roles = {role: self._position(role, names, where) for role in (*ALIASES, "event")}
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
        given = {
            role: self._position(role, names, where, aliases=False) for role in (*ALIASES, "event")
        }
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

    def unused_event(self, names: Sequence[str], positions: Positions) -> str | None:
        """A column that looks like kinds of event, where nobody said whether to use it."""
        if self.event is not None:
            return None
        plain = [_plain(str(name)) for name in names]
        found = [plain.index(alias) for alias in EVENT_ALIASES if alias in plain]
        free = (place for place in found if place not in positions.values())
        return next((str(names[place]) for place in free), None)

    def _position(
        self, role: str, names: Sequence[str], where: str, *, aliases: bool = True
    ) -> int | None:
        column = getattr(self, role)
        if column == "":
            return None
        if column is None:
            return by_alias(ALIASES[role], names) if aliases and role in ALIASES else None
        position = by_name(column, names) if isinstance(column, str) else column
        if position is None or not 0 <= position < len(names):
            plain = [without_type(str(name)) for name in names]
            near = difflib.get_close_matches(str(column), plain, n=1)
            raise DataError(
                f"no such {role} column",
                where=where,
                found=f"the columns {_listed(names)}",
                wanted=f"{column!r} among them, or a position from 0 to {len(names) - 1}"
                + (f"; did you mean {near[0]}?" if near else ""),
            )
        return int(position)


# Parts of names in several languages: enough for a guess, not for a decision
_HINTS = {
    "user": ("user", "cust", "client", "kund", "nutzer", "usuari", "utilis", "klant", "buyer"),
    "item": ("item", "prod", "art", "sku", "movie", "film", "song", "book", "buch", "thing"),
}


def guessed_columns(names: Sequence[str], below: Sequence[Sequence[str]]) -> str:
    """The likely columns of user and item: by parts of their names, else by most distinct values.

    >>> guessed_columns(["land", "kunde", "artikel"], [["DE", "DE"], ["K1", "K2"], ["A1", "A2"]])
    "user='kunde', item='artikel'"
    """
    plain = [_plain(name) for name in names]
    others = {by_alias(ALIASES[role], names) for role in ("weight", "timestamp")}
    free = [place for place in range(len(names)) if place not in others] or [0]

    def merit(role: str, place: int) -> tuple[bool, bool, int]:
        rival = _HINTS["item" if role == "user" else "user"]
        return (
            plain[place] in ALIASES[role] or any(hint in plain[place] for hint in _HINTS[role]),
            not any(hint in plain[place] for hint in rival),
            len(set(below[place])),
        )

    user = max(free, key=lambda place: merit("user", place))
    rest = [place for place in range(len(names)) if place != user]
    item = max([place for place in rest if place in free] or rest, key=lambda n: merit("item", n))
    return f"user={names[user]!r}, item={names[item]!r}"


def is_header(cells: Sequence[str]) -> bool:
    """Whether one of the cells is a usual name of a user or item column."""
    return any(by_alias(ALIASES[role], cells) is not None for role in ("user", "item"))


def without_type(name: str) -> str:
    """A column name without the type that RecBole's atomic files write behind it."""
    return _ATOMIC_TYPE.sub("", name.strip())


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", without_type(name).lower())


def by_alias(aliases: Iterable[str], names: Sequence[str]) -> int | None:
    """The first column with one of these names, whatever its case and punctuation."""
    plain = [_plain(str(name)) for name in names]
    return next((plain.index(alias) for alias in aliases if alias in plain), None)


def by_name(column: str, names: Sequence[str]) -> int | None:
    """The column with this name, its case aside, or at this position."""
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
PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
STDIN = "-"


def read(
    path: str | os.PathLike[str],
    *,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    delimiter: str | None = None,
    header: bool | None = None,
    event_weights: Mapping[Any, float] | None = None,
    half_life: str | float | None = None,
    repeats: Repeats | None = None,
    on_bad_rows: OnBadRows = "stop",
    bad_rows_file: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Read the pairs of a file, or of several that are parts of one table.

    The suffix says the format: .csv, .tsv, .txt, .dat, .data and RecBole's .inter (each also
    packed: .gz, .bz2, .xz, .zst), .parquet, Arrow's .arrow, .feather and .ipc, or a scipy sparse
    matrix in .npz. `reading` of the result says which columns were taken and what became of the
    rows.

    Args:
        path: The file; a folder or a pattern such as `logs/*.parquet` for parts of one format and
            with the same columns; or `-` for text on standard input.
        columns: Which column is what; the usual names are found without it. A text file
            without header holds user and item, then weight and timestamp where they fit.
        delimiter: What stands between the cells of a text file, found out when not given.
        header: Whether a text file begins with column names, found out when not given.
        event_weights: The weight of each kind of event in the column `Columns.event`; 0 leaves its
            rows out. A negative one takes back what others gave: pairs whose weights sum to 0 or
            less are removed.
        half_life: The age at which a row weighs half as much as the latest, as "90d" (units s, m,
            h, d, w) or as a number in the unit of the timestamps.
        repeats: Whether the weights of a pair's rows are added ("sum"), the largest is taken
            ("max"), or each pair counts once ("once"). If left, they are added where rows have
            weights, and else each pair counts once.
        on_bad_rows: Whether rows that cannot be used stop the reading or are left out.
        bad_rows_file: Where to write the rows that are left out.

    Raises:
        DataError: The file, or a row of it, cannot be used.
        MemoryBudgetError: It would need more memory than is left.
        ConfigError: The weights of events, the half-life or the repeats cannot be.
    """
    from ratiorec.data.formats.merging import Weighting

    weighting = Weighting(event_weights, half_life, repeats)
    weighting.require_event_column(columns.event, spelt="columns=Columns(event='NAME')")
    bad = BadRows(on_bad_rows, None if bad_rows_file is None else Path(bad_rows_file))
    origin = "standard input" if str(path) == STDIN else str(path)
    paths = [Path(STDIN)] if str(path) == STDIN else parts_of(path)
    suffix = ".csv" if str(path) == STDIN else suffix_of(paths[0])
    rules: dict[str, Any] = {"weighting": weighting, "bad": bad, "origin": origin}
    with lack_of_memory_is_told(origin):
        if suffix in TEXT_SUFFIXES:
            from ratiorec.data.formats.delimited import read_delimited

            return read_delimited(
                paths, columns=columns, delimiter=delimiter, header=header, **rules
            )
        from ratiorec.data.formats.binary import read_arrow, read_npz, read_parquet

        if suffix == ".parquet":
            return read_parquet(paths, columns, **rules)
        if suffix in ARROW_SUFFIXES:
            return read_arrow(paths, columns, **rules)
        if suffix == ".npz" and len(paths) == 1:
            weighting.refuse_for(origin, "a sparse matrix", allowed=("sum", "once"))
            data = read_npz(paths[0])
            return replace(data, weights=None) if repeats == "once" else data
    raise _unknown_format(paths[0])


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a pattern for several files."""
    return any(letter in str(path) for letter in "*?[")


def has_tables(folder: Path) -> bool:
    """Whether a folder holds files of pairs, at any depth; text without a suffix of its own
    (.txt, .dat) is not enough.
    """
    suffixes = (".csv", ".tsv", ".inter", *_TABLE_SUFFIXES)
    return any(
        suffix_of(file) in suffixes for file in folder.rglob("*") if file.name[0] not in "._"
    )


def parts_of(path: str | os.PathLike[str], *, holds: str = "pairs") -> list[Path]:
    """The files of a path, in the order of their names: itself, or all of a folder or pattern.

    Files whose name begins with a dot or an underscore, as Spark writes them, do not count.

    Raises:
        DataError: There is no file, or there are files of several formats.
    """
    folder = Path(path)
    if is_pattern(path) and not folder.exists():
        found = sorted(Path(folder.anchor).glob(str(folder.relative_to(folder.anchor))))
    elif folder.is_dir():
        found = sorted(folder.rglob("*"))
    else:
        _require_file(folder, holds)
        return [folder]
    files = [file for file in found if file.is_file() and file.name[0] not in "._"]
    known = [file for file in files if suffix_of(file) in (*TEXT_SUFFIXES, *_TABLE_SUFFIXES)]
    formats = sorted({suffix_of(file) for file in known})
    if len(formats) == 1 and (files == known or not is_pattern(path)):
        return [file for file in known if file.stat().st_size] or known[:1]
    raise DataError(
        "no parts of a table" if not formats else "the parts are of several formats",
        where=str(path),
        found=", ".join(formats) or (f"{len(files)} other files" if files else "no file"),
        wanted=f"files of one format, one of {', '.join((*TEXT_SUFFIXES, *_TABLE_SUFFIXES))}",
    )


_TABLE_SUFFIXES = (".parquet", *ARROW_SUFFIXES)


def suffix_of(path: Path) -> str:
    """The suffix of the format: the last, or the one before .gz and its kin where that is text."""
    *before, last = ["", *(suffix.lower() for suffix in path.suffixes)]
    is_packed = last in PACKED_SUFFIXES and before[-1] in TEXT_SUFFIXES
    return before[-1] if is_packed else last


def _unknown_format(path: Path) -> DataError:
    known = (*TEXT_SUFFIXES, *_TABLE_SUFFIXES, ".npz")
    return DataError(
        "unknown file format",
        where=str(path),
        found=f"the suffix {suffix_of(path)!r}",
        wanted=f"one of {', '.join(known)}; text may be packed ({', '.join(PACKED_SUFFIXES)})",
    )


def _require_file(path: Path, holds: str) -> None:
    if not path.exists():
        raise DataNotFoundError(
            "no such file",
            where=str(path),
            found="nothing at this path",
            wanted=f"a file with {holds}",
        )
    if not path.is_file():
        raise DataError(
            "this is not a file",
            where=str(path),
            found="a device or pipe",
            wanted="a file; streams are read from standard input only, as -",
        )
    if not path.stat().st_size:
        raise DataError(
            "the file is empty", where=str(path), found="0 bytes", wanted=f"rows of {holds}"
        )
