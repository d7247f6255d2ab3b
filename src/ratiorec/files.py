"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ratiorec.errors import RatiorecError, StorageError


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` that takes its place when the block ends well.

    When the block raises, whatever it raises, the temporary file is removed and the old file
    stands as it was. A link is followed, so that its target is replaced and not the link.

    Raises:
        StorageError: The system could not write (disk full, no permission, no such folder).
    """
    target, temporary = _target_and_temporary(path)
    if target.exists() and not target.is_file():
        # renaming onto a device or a pipe would replace it by a plain file, so do not begin
        raise StorageError(
            "could not write the file",
            where=str(target),
            found="a folder" if target.is_dir() else "a device or pipe",
            wanted="the path of a plain file",
        )
    with (
        _told_as_ours(path, "could not write the file; what stood there before still stands"),
        removed_on_failure(temporary),
        temporary.open("xb") as handle,
    ):
        yield handle
        handle.flush()
        os.fsync(handle.fileno())
        handle.close()  # some systems refuse to rename a file that is still open
        temporary.replace(target)
    _sync_folder(target.parent)


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder beside `path` that takes its place when the block ends well.

    When the block raises, whatever it raises, nothing is left of it. An earlier folder steps aside
    for the new one by two renames: who reads at that moment may find no folder, but never half of
    one. Whether it may be replaced is for `refuse_foreign` to say.

    Raises:
        StorageError: The system could not write.
    """
    target, temporary = _target_and_temporary(path)
    with (
        _told_as_ours(path, "could not write the folder; what stood there before still stands"),
        made_folder(target.parent),
        removed_on_failure(temporary),
    ):
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            with file.open("rb+") as handle:  # Windows syncs only what may be written
                os.fsync(handle.fileno())
        _sync_folder(temporary)
        _put_in_place(temporary, target)
    _sync_folder(target.parent)


def _put_in_place(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    aside = temporary.with_suffix(".old")
    target.rename(aside)
    try:
        temporary.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)  # the new folder stands; a left-over does no harm


def refuse_foreign(
    path: str | os.PathLike[str], kind: str, foreign: Callable[[Path], str | None]
) -> None:
    """Refuse a place that is neither free nor a folder of this kind ("a model").

    Args:
        path: The place.
        kind: What may be replaced, for the message.
        foreign: What a folder holds that is not of the kind; None where there is nothing such.

    Raises:
        StorageError: There is something else.
    """
    place = Path(path)
    if not place.exists():
        return
    try:
        found = foreign(place) if place.is_dir() else "a file"
    except OSError as error:
        found = error.strerror or str(error)
    if found is not None:
        raise StorageError(
            f"the folder is not {kind} and is left as it is",
            where=str(path),
            found=found,
            wanted=f"a new folder, an empty one, or {kind} to replace",
        )


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it, where they are not there yet.

    Raises:
        StorageError: The system could not make it.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            "could not make the folder",
            where=str(path),
            found=error.strerror or str(error),
            wanted="a path for a folder, in a place that may be written to",
        ) from error


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """Make a folder and those above it; when the block raises, the new ones go, if empty."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    make_folder(path)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in new:
                folder.rmdir()
        raise


@contextlib.contextmanager
def removed_on_failure(path: Path) -> Iterator[None]:
    """Remove a file or folder when the block raises; an interrupt must leave no half either."""
    try:
        yield
    except BaseException:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON in the order it has; NaN and infinity are refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    encoded = f"{text}\n".encode()  # before the file is opened: a refused value touches nothing
    with atomic_write(path) as handle:
        handle.write(encoded)


def read_plain_file(path: Path, *, most_bytes: float) -> bytes:
    """The content of a plain file; a device, a pipe or more than `most_bytes` is an OSError.

    A pipe is not waited for, and of a device without end nothing is read.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise OSError("a device or pipe, and no plain file")
    if found.st_size > most_bytes:
        raise OSError(f"{found.st_size:,} bytes, more than {most_bytes:,.0f}")
    return path.read_bytes()


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file as hexadecimal digits, read piece by piece."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _target_and_temporary(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    target = Path(os.path.realpath(path))
    return target, target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")


@contextlib.contextmanager
def _told_as_ours(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """An error of the system as one of ours."""
    try:
        yield
    except RatiorecError:  # some are OSErrors too, and they say more than we could
        raise
    except OSError as error:
        raise StorageError(
            what,
            where=str(path),
            found=error.strerror or str(error),
            wanted="a folder that exists, may be written to and has room",
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last; the file is already in place, so a refusal is no error."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
