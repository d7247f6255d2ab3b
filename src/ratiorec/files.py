"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
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
    target = Path(os.path.realpath(path))
    _refuse_what_is_no_file(target)
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        with _removed_on_failure(temporary), temporary.open("xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
            handle.close()  # some systems refuse to rename a file that is still open
            temporary.replace(target)
    except RatiorecError:  # some are OSErrors too, and they say more than we could
        raise
    except OSError as error:
        raise StorageError(
            "could not write the file; what stood there before still stands",
            where=str(path),
            found=error.strerror or str(error),
            wanted="a folder that exists, may be written to and has room",
        ) from error
    sync_folder(target.parent)


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


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON in the order it has; NaN and infinity are refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    encoded = f"{text}\n".encode()  # before the file is opened: a refused value touches nothing
    with atomic_write(path) as handle:
        handle.write(encoded)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file as hexadecimal digits, read piece by piece."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _refuse_what_is_no_file(target: Path) -> None:
    """Renaming onto a device or a pipe would replace it by a plain file, so do not begin."""
    if target.exists() and not target.is_file():
        raise StorageError(
            "could not write the file",
            where=str(target),
            found="a folder" if target.is_dir() else "a device or pipe",
            wanted="the path of a plain file",
        )


@contextlib.contextmanager
def _removed_on_failure(temporary: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:  # an interrupt must not leave a half-written file either
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make the rename itself last; the file is already in place, so a refusal is no error."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
