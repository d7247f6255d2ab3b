"""A training set as a folder: one .npy file for each array, and a manifest that is written last.

manifest.json                        format, counts, origin, and the SHA-256 of each file
users.ids.npy                        whole numbers, or
users.text.npy, users.offsets.npy    text in UTF-8, and where each id ends
users.by_id.npy                      the users in ascending order of their ids
items.…                              the same of the items
train.indptr.npy, train.indices.npy  the pairs as compressed sparse rows; what else there is of
train.weights.npy, …                 a pair (weights, timestamps, order, earliest) beside them
test.…                               the same of the held-out pairs, in a split training set
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ratiorec.data.formats.reading import Reading
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.texts import StoredTexts
from ratiorec.data.vocabulary import MergedPairs, Vocabulary
from ratiorec.errors import DataError
from ratiorec.files import read_regular, sha256_of, write_json

MANIFEST = "manifest.json"
FORMAT = "ratiorec-training-set"
VERSION = 1
KINDS = ("user", "item")
BESIDE = ("weights", "timestamps", "order", "earliest")
"""What there may be of a pair beside its user and item."""

_MOST_OF_A_MANIFEST = 2**22
_TYPES = {
    "indptr": ("<i8",),
    "indices": ("<i4",),
    "weights": ("<f4",),
    "timestamps": ("<i8", "<f8"),
    "order": ("<i4",),
    "earliest": ("<i8", "<f8"),
}


class Manifest(TypedDict):
    """What the folder says of itself."""

    format: str
    version: int
    name: str
    users: int
    items: int
    pairs: dict[str, int]
    reading: dict[str, Any] | None
    split: dict[str, Any] | None
    files: dict[str, dict[str, Any]]


class Pairs(Protocol):
    """Compressed sparse rows of some users: `Interactions` or `MergedPairs`."""

    @property
    def indptr(self) -> NDArray[np.int64]: ...
    @property
    def indices(self) -> NDArray[np.int32]: ...


def is_stored(folder: Path) -> bool:
    """Whether a folder is a training set, or the remains of one."""
    return any((folder / name).is_file() for name in (MANIFEST, "train.indptr.npy"))


def foreign(folder: Path) -> str | None:
    """What a folder holds that is no training set; None where there is nothing such."""
    names = sorted(path.name for path in folder.iterdir())
    return None if not names or MANIFEST in names else f"{names[0]} and no {MANIFEST}"


# Writing


class ArrayWriter:
    """A .npy file of one dimension that grows at its end."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.path, self.dtype, self.length = path, np.dtype(dtype), 0
        self._file = path.open("xb")
        self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        """Write more values."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Say in the header how many values there are; it was written with room for that."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        kind = npy.dtype_to_descr(self.dtype)
        header = {"descr": kind, "fortran_order": False, "shape": (self.length,)}
        npy.write_array_header_1_0(self._file, header)


class PartWriter:
    """The pairs of one part, written user range by user range."""

    def __init__(self, folder: Path, part: str) -> None:
        self._folder, self._part = folder, part
        self._indptr = ArrayWriter(folder / f"{part}.indptr.npy", "<i8")
        self._indptr.append(np.zeros(1, np.int64))
        self._columns: dict[str, ArrayWriter] = {}
        self._has_earliest = False

    @property
    def n_pairs(self) -> int:
        """The pairs so far."""
        return self._columns["indices"].length if self._columns else 0

    def append(self, pairs: Pairs) -> None:
        """Write the pairs of the users who follow."""
        columns = {name: getattr(pairs, name) for name in ("indices", *BESIDE)}
        self._has_earliest |= columns["earliest"] is not None
        if columns["earliest"] is None:
            columns["earliest"] = columns["timestamps"]
        self._indptr.append(self.n_pairs + pairs.indptr[1:] - pairs.indptr[0])
        for name, values in columns.items():
            if values is not None:
                self._writer(name, values.dtype).append(values)

    def close(self) -> int:
        """Complete the files; of earliest moments none is kept where no pair has come again."""
        for writer in (self._indptr, *self._columns.values()):
            writer.close()
        if "earliest" in self._columns and not self._has_earliest:
            self._columns["earliest"].path.unlink()
        return self.n_pairs

    def _writer(self, name: str, dtype: Any) -> ArrayWriter:
        if name not in self._columns:
            path = self._folder / f"{self._part}.{name}.npy"
            self._columns[name] = ArrayWriter(path, dtype)
        return self._columns[name]


def write_manifest(
    folder: Path,
    *,
    name: str,
    n_users: int,
    n_items: int,
    n_pairs: Mapping[str, int],
    reading: Mapping[str, Any] | None,
    split: Mapping[str, Any] | None,
) -> Manifest:
    """Write the manifest of the arrays that lie in the folder; it completes the training set."""
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        name=name,
        users=n_users,
        items=n_items,
        pairs=dict(n_pairs),
        reading=None if reading is None else dict(reading),
        split=None if split is None else dict(split),
        files={
            path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(folder.glob("*.npy"))
        },
    )
    write_json(folder / MANIFEST, manifest)
    return manifest


# Reading


@dataclass(frozen=True)
class StoredPart:
    """The pairs of one part, read user range by user range and never mapped: what is mapped counts
    as memory of the process, and a budget is a budget.
    """

    folder: Path
    name: str = "train"

    def array(self, column: str) -> NDArray[Any]:
        """A whole column."""
        found: NDArray[Any] = np.load(self._path(column), allow_pickle=False)
        return found

    def has(self, column: str) -> bool:
        """Whether it has something beside its pairs."""
        return self._path(column).is_file()

    def values(self, column: str, start: int, end: int) -> NDArray[Any]:
        """A piece of a column."""
        return piece_of(self._path(column), start, end)

    def pieces(self, column: str, n_at_once: int) -> Iterator[NDArray[Any]]:
        """A column from its beginning to its end."""
        length = len_of(self._path(column))
        for start in range(0, length, n_at_once):
            yield self.values(column, start, min(start + n_at_once, length))

    def rows(self, indptr: NDArray[np.int64]) -> MergedPairs:
        """The pairs of the users whose ends these are."""
        span = int(indptr[0]), int(indptr[-1])
        beside = (self.values(name, *span) if self.has(name) else None for name in BESIDE)
        return MergedPairs(indptr - indptr[0], self.values("indices", *span), *beside)

    def _path(self, column: str) -> Path:
        return self.folder / f"{self.name}.{column}.npy"


def piece_of(path: Path, start: int, end: int) -> NDArray[Any]:
    """The values from `start` to before `end` of a .npy file."""
    with path.open("rb") as file:
        npy.read_magic(file)
        _, _, dtype = npy.read_array_header_1_0(file)
        file.seek(start * dtype.itemsize, 1)
        found: NDArray[Any] = np.fromfile(file, dtype, end - start)
    return found


def len_of(path: Path) -> int:
    """The number of values in a .npy file."""
    with path.open("rb") as file:
        npy.read_magic(file)
        (length,), _, _ = npy.read_array_header_1_0(file)
    return int(length)


def open_stored(folder: Path) -> Dataset:
    """The training set of a folder, its arrays mapped into memory: what is used is read.

    Raises:
        DataError: It is incomplete, altered, or of another version.
    """
    manifest = verified_manifest(folder)
    try:
        users, items = (_vocabulary(folder, kind, manifest) for kind in KINDS)
        reading = None if manifest["reading"] is None else Reading(**manifest["reading"])
        parts = {
            part: _interactions(folder, part, users, items, n_pairs, reading)
            for part, n_pairs in manifest["pairs"].items()
        }
        train, test = parts["train"], parts.get("test")
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise _refused(folder, "the training set cannot be used", str(error)) from error
    return Dataset(str(manifest["name"]), train, test)


def verified_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, once all its files are there as it says."""
    path = folder / MANIFEST
    try:
        manifest: Manifest = json.loads(read_regular(path, most_bytes=_MOST_OF_A_MANIFEST))
        found = (manifest["format"], manifest["version"])
        files = {str(name): dict(facts) for name, facts in manifest["files"].items()}
    except FileNotFoundError:
        raise _refused(folder, "the training set is incomplete", f"no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(path, "the manifest cannot be read", repr(error)[:200]) from error
    if found != (FORMAT, VERSION):
        what = "this is no training set of this version"
        raise _refused(path, what, f"format {found[0]!r}, version {found[1]!r}")
    for name, facts in files.items():
        file = folder / Path(name).name
        size = file.stat().st_size if file.is_file() else None
        if size != facts.get("bytes"):
            told = "no such file" if size is None else f"{size:,} bytes, not {facts.get('bytes')}"
            raise _refused(file, "a part of the training set is missing or cut short", told)
        if (sha256 := sha256_of(file)) != facts.get("sha256"):
            raise _refused(file, "a part of the training set is altered", f"sha256 {sha256}")
    return manifest


def _refused(path: Path, what: str, found: str) -> DataError:
    wanted = f"a folder as ratiorec data prepare wrote it, version {VERSION}; prepare it again"
    return DataError(what, where=str(path), found=found, wanted=wanted)


def _mapped(path: Path, *types: str) -> NDArray[Any]:
    """An array of a file. What is written to it stays in memory: torch warns of read-only ones."""
    is_empty = not len_of(path)
    found: NDArray[Any] = np.load(path, mmap_mode=None if is_empty else "c", allow_pickle=False)
    if found.dtype not in [np.dtype(name) for name in types]:
        raise ValueError(f"{path.name} holds {found.dtype}, not {' or '.join(types)}")
    return found.view(np.ndarray)


def _vocabulary(folder: Path, kind: str, manifest: Manifest) -> Vocabulary:
    side = f"{kind}s"
    n = int(manifest[side])  # type: ignore[literal-required]
    by_id = _mapped(folder / f"{side}.by_id.npy", "<i4")
    if f"{side}.ids.npy" in manifest["files"]:
        ids: Any = _mapped(folder / f"{side}.ids.npy", "<i8")
    else:
        files = (folder / f"{side}.{name}.npy" for name in ("text", "offsets"))
        ids = StoredTexts(_mapped(next(files), "u1"), _mapped(next(files), "<i8"))
        _require_ends(ids.offsets, len(ids.text), f"{side}.offsets.npy")
    _require(len(ids) == len(by_id) == n, f"{len(ids)} ids of {n} {side}")
    _require_range(by_id, n, f"{side}.by_id.npy")
    return Vocabulary(ids, kind, by_id=by_id)


def _interactions(
    folder: Path,
    part: str,
    users: Vocabulary,
    items: Vocabulary,
    n_pairs: int,
    reading: Reading | None,
) -> Interactions:
    columns = {
        name: _mapped(path, *types)
        for name, types in _TYPES.items()
        if (path := folder / f"{part}.{name}.npy").is_file()
    }
    indptr, indices = columns.pop("indptr"), columns.pop("indices")
    _require(len(indptr) == len(users) + 1, f"{part}.indptr.npy has {len(indptr)} values")
    _require_ends(indptr, n_pairs, f"{part}.indptr.npy")
    _require_range(indices, len(items), f"{part}.indices.npy")
    for name, values in {"indices": indices, **columns}.items():
        _require(len(values) == n_pairs, f"{part}.{name}.npy has {len(values)} values")
    return Interactions(users, items, indptr, indices, **columns, reading=reading)


def _require_ends(ends: NDArray[Any], n: int, name: str) -> None:
    is_right = len(ends) and ends[0] == 0 and ends[-1] == n and not (ends[1:] < ends[:-1]).any()
    _require(bool(is_right), f"the ends in {name} are not those of {n} values")


def _require_range(indices: NDArray[Any], n: int, name: str) -> None:
    is_right = not len(indices) or (indices.min() >= 0 and indices.max() < n)
    _require(bool(is_right), f"{name} has indices that are not below {n}")


def _require(is_right: bool, otherwise: str) -> None:
    if not is_right:
        raise ValueError(otherwise)
