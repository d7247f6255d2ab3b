"""Folders in LightGCN form: `train.txt` and `test.txt`, one line a user, the earliest item first.

Lines have no timestamps; their order is all that is known of time, so it is read and written.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.reading import lack_of_memory_is_told, require_memory
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, DataNotFoundError
from ratiorec.files import atomic_write, make_folder, read_regular

_HEADER = ("org_id", "remap_id")  # of an id list
_BLANKS = re.compile(rb"[ \t\r]")
_MOST_DIGITS = 10
_BYTES_A_BYTE = 12  # of memory for a byte of text, at least
_SPARSE, _SMALL = 16, 1_000_000  # an index beyond 16 per number in the file is no dense index


@dataclass(frozen=True)
class _Lines:
    """The pairs of one file, and the largest user, with or without items."""

    path: Path
    users: NDArray[np.int64]
    items: NDArray[np.int64]
    n_users: int
    n_items: int


def read_lightgcn(
    folder: str | os.PathLike[str], *, n_users: int | None = None, n_items: int | None = None
) -> Dataset:
    """Read a folder in LightGCN form; `test.txt` may be missing.

    Args:
        folder: The folder with `train.txt`.
        n_users: How many users there must be at most; the largest index decides when not given.
        n_items: The same for items.

    Raises:
        DataError: A line is not one of indices, or an index is out of range.
    """
    with lack_of_memory_is_told(str(folder)):
        return _read_folder(Path(folder), n_users, n_items)


def _read_folder(folder: Path, n_users: int | None, n_items: int | None) -> Dataset:
    parts = [_read_lines(folder / "train.txt")]
    if (folder / "test.txt").exists():
        parts.append(_read_lines(folder / "test.txt"))
    users = _vocabulary(folder, "user", n_users, max(part.n_users for part in parts))
    items = _vocabulary(folder, "item", n_items, max(part.n_items for part in parts))
    for part in parts:
        _refuse_out_of_range(part, len(users), len(items))
    train, *rest = (
        Interactions.from_indices(
            users, items, part.users, part.items, order=np.arange(len(part.items), dtype=np.int32)
        )
        for part in parts
    )
    return Dataset(folder.resolve().name, train, rest[0] if rest else None)


def write_lightgcn(dataset: Dataset, folder: str | os.PathLike[str]) -> None:
    """Write a data set in LightGCN form; each file is replaced whole or not at all.

    Files of an older data set that this one lacks (a test part, id lists) are removed.
    """
    folder = Path(folder)
    contents = _contents(dataset)
    make_folder(folder)
    stale = {"test.txt", "user_list.txt", "item_list.txt"} - contents.keys()
    with contextlib.ExitStack() as stack:
        # All are on disk before the first takes its place; what is entered first is done last.
        handles = [stack.enter_context(atomic_write(folder / "train.txt"))]
        stack.enter_context(_removed_on_success([folder / name for name in stale]))
        handles += [stack.enter_context(atomic_write(folder / name)) for name in list(contents)[1:]]
        for handle, content in zip(handles, contents.values(), strict=True):
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())


@contextlib.contextmanager
def _removed_on_success(paths: list[Path]) -> Iterator[None]:
    yield
    for path in paths:
        path.unlink(missing_ok=True)


def _contents(dataset: Dataset) -> dict[str, bytes]:
    """The text of each file by name, `train.txt` first."""
    contents = {"train.txt": _lines_of(dataset.train, with_all_users=True)}
    if dataset.test is not None:
        is_bare = not dataset.test.n_pairs  # a file without lines would look cut short
        contents["test.txt"] = _lines_of(dataset.test, with_all_users=is_bare)
    if not dataset.train.users.is_dense:
        contents["user_list.txt"] = id_list(dataset.train.users)
    degrees = dataset.train.item_degrees.copy()
    if dataset.test is not None:
        degrees += dataset.test.item_degrees
    if not dataset.train.items.is_dense or (len(degrees) and not degrees[-1]):
        contents["item_list.txt"] = id_list(dataset.train.items)  # else the last item is lost
    return contents


def _lines_of(data: Interactions, *, with_all_users: bool) -> bytes:
    indices = data.indices if data.moments is None else data.indices[data.by_moment()]
    lines = [
        " ".join(map(str, [user, *indices[start:stop].tolist()]))
        for user, (start, stop) in enumerate(itertools.pairwise(data.indptr.tolist()))
        if with_all_users or stop > start
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _read_lines(path: Path) -> _Lines:
    """Parse a whole file at once; Python looks at single lines only to explain a fault."""
    try:
        content = _content(path)
    except FileNotFoundError:
        raise DataNotFoundError(
            "no such file",
            where=str(path),
            found=f"no {path.name} in the folder" if path.parent.is_dir() else "no such folder",
            wanted="a folder in LightGCN form (train.txt, one line a user), or a folder of CSV, "
            "Parquet or Arrow files",
        ) from None
    content = content.rstrip()
    if not content:
        raise DataError(
            "the file is empty", where=str(path), found="no line", wanted="lines `user item item …`"
        )
    numbers, starts_line = _tokens(content, path)
    line_of_token = np.cumsum(starts_line) - 1
    owners = numbers[starts_line][line_of_token]
    users, items = owners[~starts_line], numbers[~starts_line]
    return _Lines(path, users, items, int(owners.max()) + 1, int(items.max(initial=-1)) + 1)


def _content(path: Path) -> bytes:
    """The bytes of a file that can be parsed in the memory that is left."""
    try:
        require_memory(
            _BYTES_A_BYTE * path.stat().st_size, where=str(path), found="a file of that size"
        )
        return read_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(
            "the file cannot be read",
            where=str(path),
            found=str(error),
            wanted="a plain file, one line a user",
        ) from error


def _tokens(content: bytes, path: Path) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Every number in the file, and whether it is the first of its line."""
    text = np.frombuffer(content, dtype=np.uint8)
    is_digit = (text >= ord("0")) & (text <= ord("9"))
    is_blank = (text == ord(" ")) | (text == ord("\t")) | (text == ord("\r"))
    is_end = text == ord("\n")
    before = np.concatenate(([True], is_end[:-1]))  # is this byte the first of its line
    starts = np.flatnonzero(is_digit & np.concatenate(([True], ~is_digit[:-1])))
    ends = np.flatnonzero(is_digit & np.concatenate((~is_digit[1:], [True])))
    too_long = len(starts) and int((ends - starts).max()) >= _MOST_DIGITS
    if not (is_digit | is_blank | is_end).all() or not is_digit[before].all() or too_long:
        raise _foreign_line(content, path)
    numbers = np.fromstring(content, dtype=np.int64, sep=" ")  # any blanks, line ends too
    largest = int(numbers.max())
    if largest > _SPARSE * len(numbers) + _SMALL:
        raise DataError(
            "these are not dense indices",
            where=str(path),
            found=f"the index {largest} among {len(numbers)} numbers",
            wanted="indices from 0 without large gaps; read other ids from a table of pairs",
        )
    return numbers, before[starts]


def _foreign_line(content: bytes, path: Path) -> DataError:
    for number, line in enumerate(content.split(b"\n"), start=1):
        shown = repr(line[:60].decode(errors="replace"))
        if not line[:1].strip():
            what, found = "a line without user", shown
        else:
            tokens = filter(None, _BLANKS.split(line))
            bad = next((token for token in tokens if not _is_index(token)), None)
            if bad is None:
                continue
            token = bad.decode(errors="replace")
            is_negative = token[:1] == "-" and token[1:].isdigit()
            what = "a negative index" if is_negative else "not a line of indices"
            found = f"{token!r} in {shown}"
        return DataError(
            what,
            where=f"{path}, line {number}",
            found=found,
            wanted="`user item item …`, whole numbers from 0",
        )
    raise AssertionError("every line is one of indices")


def _is_index(token: bytes) -> bool:
    return token.isdigit() and len(token) <= _MOST_DIGITS


def _vocabulary(folder: Path, kind: str, n_given: int | None, n_seen: int) -> Vocabulary:
    path = folder / f"{kind}_list.txt"
    if path.exists():
        return read_id_list(path, kind=kind)
    return Vocabulary.dense(n_seen if n_given is None else n_given, kind=kind)


def _refuse_out_of_range(part: _Lines, n_users: int, n_items: int) -> None:
    for kind, n_seen, n in (("user", part.n_users, n_users), ("item", part.n_items, n_items)):
        if n_seen > n:
            raise DataError(
                f"{kind} index out of range",
                where=f"{part.path}, line {_line_with(part.path, kind, n)}",
                found=f"{kind} {n_seen - 1} at most",
                wanted=f"0 to {n - 1}",
            )


def _line_with(path: Path, kind: str, n: int) -> int:
    """The first line with an index from n upwards."""
    for number, line in enumerate(_content(path).split(b"\n"), start=1):
        tokens = line.split()
        if any(int(token) >= n for token in (tokens[:1] if kind == "user" else tokens[1:])):
            return number
    raise AssertionError(f"every {kind} is below {n}")


def id_list(vocabulary: Vocabulary) -> bytes:
    """The text of an id list, `user_list.txt` or `item_list.txt`: one id and its index a line."""
    ids = [str(identifier) for identifier in vocabulary.ids.tolist()]
    broken = next((identifier for identifier in ids if "\n" in identifier), None)
    if broken is not None:
        raise DataError(
            f"{vocabulary.kind} id does not fit on a line",
            where=f"{vocabulary.kind} ids",
            found=repr(broken),
            wanted="ids without line breaks for this format; Parquet holds any",
        )
    lines = [" ".join(_HEADER), *(f"{identifier} {index}" for index, identifier in enumerate(ids))]
    return "".join(f"{line}\n" for line in lines).encode()


def read_id_list(path: Path, *, kind: str) -> Vocabulary:
    """The vocabulary of an id list; integers where every id is printed as one."""
    from ratiorec.data.formats.identifiers import as_integers

    try:
        header, *lines = _content(path).decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(
            "the text is not UTF-8",
            where=f"{path}, byte {error.start}",
            found=repr(error.object[error.start : error.end]),
            wanted="UTF-8",
        ) from error
    names = header.split()
    if tuple(names[:2]) != _HEADER:
        raise _fault(path, 1, header)
    n_cells_behind_id = len(names) - 1  # some lists carry further columns
    ids = np.empty(len(lines), dtype=object)
    for number, line in enumerate(lines, start=2):
        identifier, *cells = line.rstrip("\r").rsplit(" ", n_cells_behind_id)
        is_whole = len(cells) == n_cells_behind_id and cells[0].isdigit()
        if not is_whole or int(cells[0]) >= len(lines) or ids[int(cells[0])] is not None:
            raise _fault(path, number, line)
        ids[int(cells[0])] = identifier
    numbers = as_integers(ids.tolist())
    return Vocabulary(ids if numbers is None else numbers, kind)


def _fault(path: Path, line_number: int, line: str) -> DataError:
    return DataError(
        "not a line of an id list",
        where=f"{path}, line {line_number}",
        found=repr(line[:80]),
        wanted="the header `org_id remap_id`, then one id and its index a line, each index once",
    )
