"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from ratiorec.errors import RatiorecError, StorageError

try:
    import fcntl
except ImportError:  # Windows, which has no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
"""The file in a folder that its only writer holds."""

_held: ContextVar[tuple[BinaryIO, ...]] = ContextVar("held", default=())
"""The open lock files of this thread: one that was closed, by whatever way, is no longer held."""


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` that takes its place when the block ends well.

    When the block raises, whatever it raises, the temporary file is removed and the old file
    stands as it was. A killed process leaves its temporary file to the next writer of `path`, who
    removes it. A link is followed, so that its target is replaced and not the link.

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
        _locked(temporary),
    ):
        yield handle
        handle.flush()
        os.fsync(handle.fileno())
        handle.close()  # some systems refuse to rename a file that is still open
        temporary.replace(target)
    _sync_folder(target.parent)
    _remove_abandoned(target)


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """An empty folder beside `path` that takes its place when the block ends well.

    When the block raises, whatever it raises, nothing is left of it. An earlier folder is exchanged
    for the new one in one step. Where the system cannot, it steps aside by a rename of its own: who
    reads at that moment may find no folder, but never half of one. Whether it may be replaced is
    for `refuse_foreign` to say.

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
        with _locked(temporary):
            yield temporary
            for file in temporary.iterdir():
                with file.open("rb+") as handle:  # Windows syncs only what may be written
                    os.fsync(handle.fileno())
            _sync_folder(temporary)
            _put_in_place(temporary, target)
    _sync_folder(target.parent)
    _remove_abandoned(target)


def _put_in_place(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    aside = temporary.with_suffix(".old")
    if _exchanged(temporary, target):
        aside = temporary
    else:
        try:
            target.rename(aside)
            temporary.rename(target)
        except BaseException:
            if not target.exists():
                aside.rename(target)
            raise
    _remove(aside)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False where the system or its file system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    exchange = getattr(ctypes.CDLL(None), "renameat2", None)  # Python has no name for it
    here, flag = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    paths = os.fsencode(one), os.fsencode(other)
    return exchange is not None and exchange(here, paths[0], here, paths[1], flag) == 0


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
    try:
        make_folder(path)
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
        _remove(path)
        raise


@contextlib.contextmanager
def sole_writer(
    folder: str | os.PathLike[str], notify: Callable[[str], None] = lambda _: None
) -> Iterator[bool]:
    """Inside, nobody else who asks for it writes to the folder; readers are not kept out.

    Waits for whoever does, after `notify` was told who that is; asked for again inside, it is
    granted at once. The lock is on a file in the folder that goes when the block ends. Of a killed
    process the file may stay, but not the lock.

    Yields:
        Whether it is certain; False where the system has no such locks, as Windows.
    """
    path = Path(os.path.realpath(folder), LOCK)
    if any(not file.closed and _is_at(file, path) for file in _held.get()):
        yield True
        return
    with _told_as_ours(folder, "could not lock the folder"):  # errors of the block are its own
        file = _lock_file(path, notify)
    if file is None:
        yield False
        return
    with file:
        try:
            _held.set((*(one for one in _held.get() if not one.closed), file))
            yield True
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
            with contextlib.suppress(OSError):
                file.close()


def _lock_file(path: Path, notify: Callable[[str], None]) -> BinaryIO | None:
    """The open file of the lock, once it is ours; None where there are no locks."""
    if fcntl is None:
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        file: Any = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
        is_ours = _wait_for(file, path.parent, notify)
        if is_ours and _is_at(file, path):
            with contextlib.suppress(OSError):  # a full disk: nobody can be told, no more
                file.truncate(0)
                file.write(f"{os.getpid()} {time.time():.0f}".encode())
            return file  # type: ignore[no-any-return]
        file.close()
        if not is_ours:
            return None
        # its last holder has removed it: the lock is on the next one


def _wait_for(file: Any, folder: Path, notify: Callable[[str], None]) -> bool:
    """Take the lock on a file; False where there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        notify(f"waiting for another command that writes to {folder} ({_holder(file)})")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        notify(f"note: no lock on {folder} ({error.strerror}): two writers may undo each other")
        return False
    return True


def _holder(file: Any) -> str:
    """Who has the lock, as it has written itself."""
    written = re.fullmatch(rb"(\d{1,10}) (\d{1,10})", file.read(100))
    if written is None:
        return "process unknown"
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(int(written[2])))
    return f"process {int(written[1])}, since {moment}"


def _is_at(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Inside, others see that a file or folder is in use; False where it is by someone else."""
    if fcntl is None:
        yield False
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield _is_free(descriptor)
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or a file system without locks
        return False
    return True


def _remove_abandoned(target: Path) -> None:
    """Remove what killed writers of the same target left; living ones hold a lock on theirs."""
    name = re.compile(rf"\.{re.escape(target.name[:200])}\.[0-9a-f]{{12}}\.(tmp|old)")
    with contextlib.suppress(OSError):  # the target stands; a left-over does no harm
        for path in target.parent.iterdir():
            if name.fullmatch(path.name):
                with contextlib.suppress(OSError), _locked(path) as is_abandoned:
                    if is_abandoned:
                        _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or a folder, as far as that can be done."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        path.unlink()


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a plain file to read; a device, pipe or folder is refused and not waited for.

    Raises:
        OSError: It is something else, or cannot be read.
    """
    waits_not = getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for someone to write to it
    flags = os.O_RDONLY | waits_not | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "a device, pipe or folder in place of a plain file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], *, most_bytes: float = math.inf) -> bytes:
    """The content of a plain file; anything else, or more than `most_bytes`, is an OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise OSError(f"{size:,} bytes, more than {most_bytes:,.0f}")
        return file.read()


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
