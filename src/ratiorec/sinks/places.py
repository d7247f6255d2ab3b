"""Folders for the parts of a dataset: of this machine, or of a store that a URI names."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ratiorec.errors import ConfigError, StorageError, require_extra
from ratiorec.files import atomic_write, make_folder

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_LEFT_OVER = re.compile(r"\..+\.tmp")
_MOST_OF_A_MESSAGE = 300


class Place(Protocol):
    """A folder of files that are there whole or not at all; it goes to workers as it is."""

    @property
    def where(self) -> str:
        """Its name for people, without a password."""
        ...

    def make(self) -> None:
        """Make the folder, where there is none."""
        ...

    def names(self) -> list[str]:
        """The files in it; none where there is no folder."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file to read."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        ...

    def remove(self, name: str) -> None: ...


def place_of(text: str) -> Place:
    """The folder that a path or a URI names."""
    return RemoteFolder(text) if _SCHEME.match(text) else LocalFolder(Path(text).absolute())


def is_left_over(name: str) -> bool:
    """Whether this is what a killed writer leaves."""
    return _LEFT_OVER.fullmatch(name) is not None


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine, or one that all machines mount under the same path."""

    path: Path

    @property
    def where(self) -> str:
        return str(self.path)

    def make(self) -> None:
        make_folder(self.path)

    def names(self) -> list[str]:
        with _told(self.where):
            return [file.name for file in self.path.iterdir()] if self.path.exists() else []

    def open(self, name: str) -> BinaryIO:
        with _told(self.where):
            return (self.path / name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        with atomic_write(self.path / name) as handle:
            handle.write(content)

    def remove(self, name: str) -> None:
        with _told(self.where):
            (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class RemoteFolder:
    """A folder of a store that pyarrow knows: s3://, gs://, hdfs://, abfss://, file://."""

    uri: str

    @property
    def where(self) -> str:
        return re.sub("//[^/@]*@", "//", self.uri)

    @cached_property
    def _store(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        fs = require_extra("pyarrow.fs", "arrow", where=self.where)
        try:
            system, path = fs.FileSystem.from_uri(self.uri)
        except (OSError, ValueError) as error:
            raise ConfigError(
                "the URI names no store that can be reached",
                where=self.where,
                found=_in_short(error, without=self.uri),
                wanted="a folder, or a URI that pyarrow reads: s3://, gs://, hdfs://, abfss://",
            ) from None  # the cause may show a password
        return system, path.rstrip("/")

    def make(self) -> None:
        system, path = self._store
        with _told(self.where):
            system.create_dir(path, recursive=True)

    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        system, path = self._store
        with _told(self.where):
            files = system.get_file_info(FileSelector(path, allow_not_found=True))
            return [file.base_name for file in files]

    def open(self, name: str) -> Any:
        system, path = self._store
        with _told(self.where):
            return system.open_input_file(f"{path}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Under another name first: not every store shows a file only when it is whole."""
        system, path = self._store
        with _told(self.where):
            with system.open_output_stream(f"{path}/.{name}.tmp") as file:
                file.write(content)
            system.move(f"{path}/.{name}.tmp", f"{path}/{name}")

    def remove(self, name: str) -> None:
        system, path = self._store
        with _told(self.where), contextlib.suppress(FileNotFoundError):
            system.delete_file(f"{path}/{name}")


@contextlib.contextmanager
def _told(where: str) -> Iterator[None]:
    """An error of the system as one of ours."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            "the folder could not be read or written",
            where=where,
            found=error.strerror or _in_short(error),
            wanted="a folder that may be written to and has room",
        ) from error


def _in_short(error: Exception, *, without: str = "\0") -> str:
    return " ".join(str(error).replace(without, "…").split())[:_MOST_OF_A_MESSAGE]
