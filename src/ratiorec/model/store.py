"""Model folders: a JSON header and one file of arrays, replaced as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.texts import StoredTexts
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ModelError
from ratiorec.files import (
    LOCK,
    atomic_write,
    made_folder,
    open_regular,
    refuse_foreign,
    sole_writer,
)

Arrays = Mapping[str, NDArray[Any]]

_TEXTS_AT_A_TIME = 2**14  # a server that loads a model must let its other threads have a turn


def describe(vocabulary: Vocabulary) -> dict[str, Any]:
    """What `unpack` must know to make the vocabulary again."""
    is_number = vocabulary.ids.dtype == np.int64
    return {"ids": "int64" if is_number else "text", "names": vocabulary.names is not None}


def pack(vocabulary: Vocabulary) -> dict[str, NDArray[Any]]:
    """Ids and names as arrays, under names that start with the kind of the vocabulary."""
    kind = vocabulary.kind
    if vocabulary.ids.dtype == np.int64:
        arrays = {f"{kind}.ids": vocabulary.ids}
    else:
        arrays = _pack_text(f"{kind}.ids", vocabulary.ids)
    if vocabulary.names is not None:
        arrays |= _pack_text(f"{kind}.names", vocabulary.names)
    return arrays


def unpack(kind: str, description: Mapping[str, Any], arrays: Arrays) -> Vocabulary:
    """The vocabulary again."""
    if description["ids"] == "text":
        ids: NDArray[Any] = _unpack_text(f"{kind}.ids", arrays)
    else:
        ids = arrays[f"{kind}.ids"]
        if ids.ndim != 1 or ids.dtype != np.int64:
            raise ValueError(f"{kind} ids are no list of int64")
    names = _unpack_text(f"{kind}.names", arrays) if description["names"] else None
    return Vocabulary(ids, kind, names)


def part_of(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start so, under what follows."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _pack_text(name: str, texts: NDArray[Any] | StoredTexts) -> dict[str, NDArray[Any]]:
    """Texts as UTF-8 bytes, and the places where one ends and the next begins."""
    stored = texts if isinstance(texts, StoredTexts) else StoredTexts.of(list(map(str, texts)))
    return {f"{name}.text": stored.text, f"{name}.offsets": stored.offsets}


def _unpack_text(name: str, arrays: Arrays) -> NDArray[np.object_]:
    text, offsets = arrays[f"{name}.text"], arrays[f"{name}.offsets"]
    for array, kind in ((text, np.uint8), (offsets, np.int64)):
        if array.ndim != 1 or array.dtype != kind:
            raise ValueError(f"{name} is no list of bytes and places")
    ends = (0, len(text))
    if not len(offsets) or (offsets[0], offsets[-1]) != ends or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"the places in {name} do not fit its text")
    blob, texts = text.tobytes(), np.empty(len(offsets) - 1, object)
    for start in range(0, len(texts), _TEXTS_AT_A_TIME):
        end = start + _TEXTS_AT_A_TIME
        places = offsets[start : end + 1].tolist()
        texts[start:end] = [blob[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(places)]
    return texts


HEADER = "model.json"
FORMAT = "ratiorec-model"
VERSION = 2  # 1 had other names of settings

_ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_LEFT_OVER = re.compile(r"\.(model\.json|arrays-[0-9a-f]{16}\.safetensors)\.[0-9a-f]+\.tmp")
_SECONDS_OF_A_WRITER = 3600  # without locks a younger file may be someone's who is writing now
_MOST_OF_A_HEADER = 2**22  # bytes: settings and card, no arrays
_MOST_OF_A_LIST = 2**20  # bytes: the names and shapes of arrays, in their file


def write_model(folder: str | Path, content: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model into a new folder, or in place of the model that is there.

    Raises:
        ModelError: `content` holds something that JSON cannot.
        StorageError: The folder is not ours to replace, or the system could not write.
    """
    from safetensors.numpy import save

    path = Path(folder)
    plain = _plain(content)
    blob = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    sha256 = hashlib.sha256(blob).hexdigest()
    file = f"arrays-{sha256[:16]}.safetensors"
    header = {
        "format": FORMAT,
        "version": VERSION,
        "arrays": {"file": file, "size": len(blob), "sha256": sha256},
        **plain,
    }
    header["checksum"] = _checksum(header)
    encoded = json.dumps(header, indent=2).encode() + b"\n"
    if len(encoded) > _MOST_OF_A_HEADER:
        _refuse(
            path / HEADER,
            "settings and card are too large for a model",
            f"{len(encoded):,} bytes",
            f"at most {_MOST_OF_A_HEADER:,}",
        )
    require_replaceable(path)
    with made_folder(path), sole_writer(path) as is_sole:
        before = _named_arrays(path)
        try:
            with atomic_write(path / file) as handle:
                handle.write(blob)
            with atomic_write(path / HEADER) as handle:
                handle.write(encoded)
        finally:  # whatever has happened, the header that is in place now keeps its arrays
            _remove_stale(path, ours={file, before}, is_sole=is_sole)


def require_replaceable(folder: str | Path) -> None:
    """Refuse, before anything is trained, a folder that a model may not be written to."""
    refuse_foreign(folder, "a model", _foreign)


def header_bytes(folder: str | Path) -> bytes | None:
    """What names the model in the folder now; None where there is none."""
    try:
        return _header_in(Path(folder))
    except (OSError, ModelError):
        return None


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The content and the arrays of a model, each checked against its hash.

    Raises:
        ModelError: There is no model, or it is cut short, altered, foreign or of another version.
    """
    path = Path(folder)
    while True:
        header = _read_header(path)
        entry = header["arrays"]
        try:
            blob = _arrays_bytes(path / entry["file"], entry["size"])
        except OSError as error:
            if _read_header(path) == header:
                is_there = not isinstance(error, FileNotFoundError)
                what = "cannot be read" if is_there else "are missing"
                found = error.strerror or str(error)
                _refuse(path / entry["file"], f"the arrays of the model {what}", found)
            continue  # the model was replaced while we were reading: start again with the new one
        if hashlib.sha256(blob).hexdigest() != entry["sha256"]:
            _refuse(path / entry["file"], "the arrays of the model are altered", "another sha256")
        return header, _arrays_in(blob, path / entry["file"])


def _arrays_bytes(path: Path, size: int) -> bytes:
    """The file of arrays, if it has the size that the header says and fits into the memory."""
    from ratiorec.machine import available_memory_mb

    with open_regular(path) as file:
        found = os.fstat(file.fileno()).st_size
        available = available_memory_mb("cpu") * 2**20
        if found == size and 2 * size > available:  # the file, and the arrays in it
            _refuse(
                path,
                "there is not enough memory for the model",
                f"{size:,} bytes of arrays, memory for {available / 2:,.0f}",
                "a smaller model, or more memory",
            )
        blob = file.read(size) if found == size else b""
    if len(blob) != size:
        _refuse(
            path,
            "the arrays of the model are cut short or altered",
            f"{found:,} bytes",
            f"{size:,} bytes",
        )
    return blob


@contextlib.contextmanager
def parts_are_whole(folder: str | Path) -> Iterator[None]:
    """Let whatever is missing or malformed while a model is put together be told as that."""
    try:
        yield
    except ModelError:
        raise
    except MemoryError as error:
        raise ModelError(
            "there is not enough memory for the model",
            where=str(folder),
            found=str(error) or "no more memory",
            wanted="a smaller model, or more memory",
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            "the model is not complete",
            where=str(folder),
            found=f"{type(error).__name__}: {error}",
            wanted="all parts of a model of this version",
        ) from error


def _arrays_in(blob: bytes, where: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    n_listed = int.from_bytes(blob[:8], "little")
    if n_listed > _MOST_OF_A_LIST:
        found, wanted = f"{n_listed:,} bytes of names", f"at most {_MOST_OF_A_LIST:,}"
        _refuse(where, "the arrays of the model cannot be read", found, wanted)
    try:
        arrays = load(blob)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        _refuse(where, "the arrays of the model cannot be read", str(error))
    for name, array in arrays.items():  # one without any number may claim any other size
        if max(array.shape, default=0) > len(blob):
            found = f"{name} of shape {list(array.shape)} in {len(blob):,} bytes"
            _refuse(where, "the arrays of the model are larger than their file", found)
    return arrays


def _header_in(folder: Path) -> bytes:
    """What the header holds; an OSError where it is no plain file."""
    path = folder / HEADER
    with open_regular(path) as file:
        content = file.read(_MOST_OF_A_HEADER + 1)
    if len(content) > _MOST_OF_A_HEADER:
        found, wanted = "more", f"at most {_MOST_OF_A_HEADER:,} bytes"
        _refuse(path, "the header of the model is too large", found, wanted)
    return content


def _read_header(folder: Path, *, earlier_too: bool = False) -> dict[str, Any]:
    """The header of our own format and version (or an earlier one), unaltered."""
    path = folder / HEADER
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        _refuse(folder, "there is no model", found, "a folder that `fit` wrote")
    try:
        header = json.loads(_header_in(folder), parse_constant=_no_constant)
    except OSError as error:
        _refuse(path, "there is no model", error.strerror or str(error), "a readable model.json")
    except (ValueError, RecursionError) as error:
        _refuse(path, "the model is cut short or altered", f"no JSON ({error})")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        _refuse(path, "this is not a model of ours", "other JSON", f'"format": "{FORMAT}"')
    _check_version(header.get("version"), path, earlier_too=earlier_too)
    if header.pop("checksum", None) != _checksum(header) or not _names_arrays(header):
        _refuse(path, "the model is altered", "a checksum that does not fit")
    return header


def _check_version(version: Any, path: Path, *, earlier_too: bool) -> None:
    is_earlier = type(version) is int and 0 < version < VERSION
    if is_earlier and not earlier_too:
        _refuse(
            path,
            "the model was written by an earlier version of the format",
            f"format version {version}",
            f"version {VERSION}: run `ratiorec fit` again",
        )
    if not is_earlier and (type(version) is not int or version != VERSION):
        _refuse(
            path,
            "the model is of another version",
            f"format version {version!r}",
            f"version {VERSION}"
            + (", or a newer ratiorec" if type(version) is int and version > VERSION else ""),
        )


def _names_arrays(header: Mapping[str, Any]) -> bool:
    """Whether the entry that points to the arrays is whole and stays inside the folder."""
    match header.get("arrays"):
        case {"file": str(file), "size": int(), "sha256": str()}:
            return _ARRAYS.fullmatch(file) is not None
    return False


def _checksum(header: Mapping[str, Any]) -> str:
    """A hash of what the header says, however it is laid out."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content as JSON will give it back."""
    try:
        plain: dict[str, Any] = json.loads(
            json.dumps(content, default=_plain_number, allow_nan=False)
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(
            "the model cannot be written as JSON",
            where="settings or card",
            found=str(error),
            wanted="text, finite numbers, truth values, lists and dictionaries",
        ) from error
    return plain


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _foreign(folder: Path) -> str | None:
    """What a folder holds that is no model; files beside a model are left alone."""
    header = folder / HEADER
    if header.is_symlink():  # what it points to may be anyone's
        return f"a {HEADER} that is a symbolic link"
    if header.exists():
        try:
            _read_header(folder, earlier_too=True)
        except ModelError as error:
            return f"a {HEADER} that is not a model ({error.what})"
        return None
    others = [file.name for file in folder.iterdir() if not _is_ours(file)]
    return f"other files, such as {min(others)}" if others else None


def _named_arrays(folder: Path) -> str | None:
    """The arrays of the model that is there; None where there is no header.

    Raises:
        ModelError: There is one, and it cannot be read.
    """
    if not (folder / HEADER).exists():
        return None
    return str(_read_header(folder, earlier_too=True)["arrays"]["file"])


def _is_ours(file: Path) -> bool:
    return file.name == LOCK or bool(
        _ARRAYS.fullmatch(file.name) or _LEFT_OVER.fullmatch(file.name)
    )


def _remove_stale(folder: Path, *, ours: set[str | None], is_sole: bool) -> None:
    """Remove what no header names: `ours`, and what killed writers have left.

    Without a lock (not `is_sole`) a young file of someone else's may be needed in a moment.
    """
    with contextlib.suppress(OSError, ModelError):  # the model stands; a left-over does no harm
        kept = {_named_arrays(folder), LOCK}
        for file in folder.iterdir():
            if file.name in kept or not _is_ours(file):
                continue
            is_young = time.time() - file.stat().st_mtime < _SECONDS_OF_A_WRITER
            if is_sole or file.name in ours or not is_young:
                file.unlink()


def _refuse(where: Path, what: str, found: str, wanted: str = "the files as saved") -> NoReturn:
    raise ModelError(what, where=str(where), found=found, wanted=wanted)
