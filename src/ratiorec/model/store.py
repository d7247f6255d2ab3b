"""Model folders: a JSON header and one file of arrays, replaced as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ModelError, StorageError
from ratiorec.files import atomic_write, make_folder

Arrays = Mapping[str, NDArray[Any]]


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
    """The vocabulary again.

    Raises:
        ValueError: The arrays do not fit each other.
        KeyError: One of them is missing.
    """
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


def _pack_text(name: str, texts: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Texts as UTF-8 bytes, and the places where one ends and the next begins."""
    encoded = [str(text).encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return {
        f"{name}.text": np.frombuffer(b"".join(encoded), np.uint8),
        f"{name}.offsets": offsets,
    }


def _unpack_text(name: str, arrays: Arrays) -> NDArray[np.object_]:
    blob, offsets = arrays[f"{name}.text"].tobytes(), arrays[f"{name}.offsets"].tolist()
    if offsets[:1] != [0] or offsets[-1] != len(blob) or offsets != sorted(offsets):
        raise ValueError(f"the places in {name} do not fit its text")
    texts = np.empty(len(offsets) - 1, object)
    texts[:] = [blob[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(offsets)]
    return texts


HEADER = "model.json"
FORMAT = "ratiorec-model"
VERSION = 1

_ARRAYS = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_LEFT_OVER = re.compile(r"\.(model\.json|arrays-[0-9a-f]{16}\.safetensors)\.[0-9a-f]+\.tmp")
_SECONDS_OF_A_WRITER = 3600  # a younger file may belong to someone who is writing right now


def write_model(folder: str | Path, content: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model into a new folder, or in place of the model that is there.

    Raises:
        ModelError: `content` holds something that JSON cannot.
        StorageError: The folder is not ours to replace, or the system could not write.
    """
    from safetensors.numpy import save

    path = Path(folder)
    plain = _plain(content)
    old = _replaceable(path)
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
    with _undone_on_failure(path, None if file == old else path / file):
        with atomic_write(path / file) as handle:
            handle.write(blob)
        with atomic_write(path / HEADER) as handle:
            handle.write(json.dumps(header, indent=2).encode() + b"\n")
    _remove_stale(path, keep=file, old=old)


def require_replaceable(folder: str | Path) -> None:
    """Refuse, before anything is trained, a folder that a model may not be written to."""
    _replaceable(Path(folder))


def header_bytes(folder: str | Path) -> bytes | None:
    """What names the model in the folder now; None where there is none."""
    try:
        return (Path(folder) / HEADER).read_bytes()
    except OSError:
        return None


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The content and the arrays of a model, each checked against its hash.

    Raises:
        ModelError: There is no model, or it is cut short, altered, foreign or of a later version.
    """
    path = Path(folder)
    while True:
        header = _read_header(path)
        entry = header["arrays"]
        try:
            blob = (path / entry["file"]).read_bytes()
        except OSError as error:
            if _read_header(path) == header:
                _refuse(path / entry["file"], "the arrays of the model are missing", str(error))
            continue  # the model was replaced while we were reading: start again with the new one
        if len(blob) != entry["size"]:
            _refuse(
                path / entry["file"],
                "the arrays of the model are cut short or altered",
                f"{len(blob):,} bytes",
                f"{entry['size']:,} bytes",
            )
        if hashlib.sha256(blob).hexdigest() != entry["sha256"]:
            _refuse(path / entry["file"], "the arrays of the model are altered", "another sha256")
        return header, _arrays_in(blob, path / entry["file"])


@contextlib.contextmanager
def parts_are_whole(folder: str | Path) -> Iterator[None]:
    """Let whatever is missing or malformed while a model is put together be told as that.

    Raises:
        ModelError: A part is missing, or of another type or shape than it should be.
    """
    try:
        yield
    except ModelError:
        raise
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

    try:
        return load(blob)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        _refuse(where, "the arrays of the model cannot be read", str(error))


def _read_header(folder: Path) -> dict[str, Any]:
    """The header of our own format and version, unaltered."""
    path = folder / HEADER
    if not folder.is_dir():
        _refuse(folder, "there is no model", "no such folder", "a folder that `fit` wrote")
    try:
        header = json.loads(path.read_bytes(), parse_constant=_no_constant)
    except OSError as error:
        _refuse(path, "there is no model", error.strerror or str(error), "a readable model.json")
    except (ValueError, RecursionError) as error:
        _refuse(path, "the model is cut short or altered", f"no JSON ({error})")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        _refuse(path, "this is not a model of ours", "other JSON", f'"format": "{FORMAT}"')
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        _refuse(
            path,
            "the model is of another version",
            f"format version {version!r}",
            f"version {VERSION}, or a newer ratiorec",
        )
    if header.pop("checksum", None) != _checksum(header) or not _names_arrays(header):
        _refuse(path, "the model is altered", "a checksum that does not fit")
    return header


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


def _replaceable(folder: Path) -> str | None:
    """The arrays file of the model that is there, if any; refuses what is not ours."""
    if not folder.exists():
        return None
    if not folder.is_dir():
        _refuse_to_write(folder, "a file")
    if (folder / HEADER).exists():
        try:
            return str(_read_header(folder)["arrays"]["file"])
        except ModelError as error:
            _refuse_to_write(folder, f"a {HEADER} that is not a model ({error.what})")
    for file in folder.iterdir():
        if not _ARRAYS.fullmatch(file.name) and not _LEFT_OVER.fullmatch(file.name):
            _refuse_to_write(folder, f"other files, such as {file.name}")
    return None


@contextlib.contextmanager
def _undone_on_failure(folder: Path, new_file: Path | None) -> Iterator[None]:
    """Make the folder where there is none; leave nothing new behind when writing fails."""
    is_new = not folder.exists()
    make_folder(folder)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if new_file is not None:
                new_file.unlink(missing_ok=True)
            if is_new:
                folder.rmdir()
        raise


def _remove_stale(folder: Path, *, keep: str, old: str | None) -> None:
    """Remove the arrays of the model just replaced, and what a killed writer left long ago."""
    for file in folder.iterdir():
        ours = _ARRAYS.fullmatch(file.name) or _LEFT_OVER.fullmatch(file.name)
        if not ours or file.name == keep:
            continue
        with contextlib.suppress(OSError):  # the new model stands; a left-over does no harm
            is_old = time.time() - file.stat().st_mtime > _SECONDS_OF_A_WRITER
            if file.name == old or is_old:
                file.unlink()


def _refuse(where: Path, what: str, found: str, wanted: str = "the files as saved") -> NoReturn:
    raise ModelError(what, where=str(where), found=found, wanted=wanted)


def _refuse_to_write(folder: Path, found: str) -> NoReturn:
    raise StorageError(
        "the folder is not a model and is left as it is",
        where=str(folder),
        found=found,
        wanted="a new folder, an empty one, or a model to replace",
    )
