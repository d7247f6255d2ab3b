"""A folder that is exported whole or not at all, in the place of an earlier export at most."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from ratiorec.errors import RatiorecError, StorageError
from ratiorec.files import make_folder, sync_folder

HEADER = "export.json"
FORMAT = "ratiorec-export"


@contextlib.contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """An empty folder beside `folder` that takes its place when the block ends well.

    When the block raises, whatever it raises, nothing is left of it. An earlier export steps aside
    for the new one by two renames: who reads at that moment may find no folder, but never half of
    one.

    Raises:
        StorageError: There is something else in that place, or the system could not write.
    """
    target = Path(os.path.realpath(folder))
    require_replaceable(folder)
    above = [path for path in target.parents if not path.exists()]
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        make_folder(target.parent)
        temporary.mkdir()
        yield temporary
        _make_lasting(temporary)
        _put_in_place(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            for path in above:
                path.rmdir()
        if isinstance(error, OSError) and not isinstance(error, RatiorecError):
            raise StorageError(
                "could not write the export; what stood there before still stands",
                where=str(folder),
                found=error.strerror or str(error),
                wanted="a folder that may be written to and has room",
            ) from error
        raise
    sync_folder(target.parent)


def require_replaceable(folder: str | Path) -> None:
    """Refuse a place in which there is anything but an export, and nothing else, of ours.

    Raises:
        StorageError: There is something else.
    """
    path = Path(folder)
    if not path.exists():
        return
    if not path.is_dir():
        _refuse(path, "a file")
    try:
        names = {file.name for file in path.iterdir()}
        others = names - _files_of_export(path) - {HEADER}
    except OSError as error:
        _refuse(path, error.strerror or str(error))
    if others:
        _refuse(path, f"other files, such as {min(others)}")


def _files_of_export(folder: Path) -> set[str]:
    """The files that the header of an export lists; none where there is no such header."""
    try:
        header = json.loads((folder / HEADER).read_bytes())
    except FileNotFoundError:
        return set()
    except (ValueError, RecursionError):
        _refuse(folder, f"an {HEADER} that is no JSON")
    match header:
        case {"format": "ratiorec-export", "files": dict(files)}:
            return set(files)
        case _:
            return _refuse(folder, f"an {HEADER} that is not ours")


def _make_lasting(folder: Path) -> None:
    for file in folder.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    sync_folder(folder)


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
    shutil.rmtree(aside, ignore_errors=True)  # the new export stands; a left-over does no harm


def _refuse(folder: Path, found: str) -> NoReturn:
    raise StorageError(
        "the folder is not an export and is left as it is",
        where=str(folder),
        found=found,
        wanted="a new folder, an empty one, or an export to replace",
    )
