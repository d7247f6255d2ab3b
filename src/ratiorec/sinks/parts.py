"""A file of lists, written whole or not at all, from parts that outlive an interrupted run."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import StorageError
from ratiorec.files import atomic_write
from ratiorec.scorers.table import Recommendations
from ratiorec.sinks.job import Block, Job, Notify, Tally


@dataclass(frozen=True)
class FileOfParts(ABC):
    """A file that one job fills.

    Finished blocks wait as parts in a hidden folder beside the file, named after the job; at the
    end they are joined, the file takes its place in one step, and the folder goes.
    """

    path: Path
    part_suffix: ClassVar[str]

    @abstractmethod
    def write_part(self, handle: BinaryIO, lists: Recommendations) -> None:
        """Write the lists of one block."""

    @abstractmethod
    def ranks(self, part: Path) -> NDArray[np.int64]:
        """The ranks in a part; an OSError, ValueError or KeyError where it is not whole."""

    @abstractmethod
    def join(self, handle: BinaryIO, parts: Sequence[Path]) -> None:
        """Write the file from its parts."""

    @abstractmethod
    def write_at_once(self, lists: Recommendations) -> None:
        """Write the file from one table, which is no job of known users."""

    @property
    def where(self) -> str:
        return str(self.path)

    def describe(self) -> dict[str, str]:
        return {"file": self.where}

    @contextlib.contextmanager
    def open(self, job: Job, *, resume: bool, notify: Notify) -> Iterator[_Parts]:
        """The parts of this job, after those of other jobs for the same file are given up."""
        target = Path(os.path.realpath(self.path))
        if target.exists() and not target.is_file():
            _refuse(self.where, "a folder, device or pipe", "the path of a plain file")
        own = target.with_name(f".{target.name[:150]}.{job.identity[:16]}.parts")
        try:
            for folder in _folders_of_parts(target):
                if folder != own:
                    notify("an unfinished run of another model or request is given up")
                if folder != own or not resume:
                    shutil.rmtree(folder)
            own.mkdir(exist_ok=True)
            kept = _kept(self, own)
        except OSError as error:
            _refuse(
                self.where,
                error.strerror or str(error),
                "a folder that exists, may be written to and has room",
            )
        try:
            yield _Parts(self, own, *kept)
        finally:
            with contextlib.suppress(OSError):
                own.rmdir()  # only what is empty goes: whole parts are for the next run


@dataclass
class _Parts:
    """The parts of one job: consecutive users, from the first on."""

    file: FileOfParts
    folder: Path
    parts: list[Path] = field(default_factory=list)
    done: Tally = field(default_factory=Tally)

    def write(self, block: Block) -> None:
        tally = self.done.plus(Tally.of(block.lists))
        name = f"users-{block.n_before:012d}-{tally.n_users:012d}{self.file.part_suffix}"
        with self._named(), atomic_write(self.folder / name) as handle:
            self.file.write_part(handle, block.lists)
        self.parts.append(self.folder / name)
        self.done = tally

    def finish(self) -> None:
        with atomic_write(self.file.path) as handle:
            self.file.join(handle, self.parts)
        shutil.rmtree(self.folder, ignore_errors=True)  # the file stands; a left-over is no harm

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Name the file that was asked for, not the part, of which nobody has heard."""
        try:
            yield
        except StorageError as error:
            raise StorageError(
                error.what, where=self.file.where, found=error.found, wanted=error.wanted
            ) from error


def _folders_of_parts(target: Path) -> list[Path]:
    name = re.compile(rf"\.{re.escape(target.name[:150])}\.[0-9a-f]{{16}}\.parts")
    return [path for path in target.parent.iterdir() if name.fullmatch(path.name)]


def _kept(file: FileOfParts, folder: Path) -> tuple[list[Path], Tally]:
    """The parts that follow one another from the first user on; one that is not whole is none."""
    name = re.compile(rf"users-(\d{{12}})-(\d{{12}}){re.escape(file.part_suffix)}")
    named = [(path, found) for path in folder.iterdir() if (found := name.fullmatch(path.name))]
    ends = {int(found[1]): (int(found[2]), path) for path, found in sorted(named)}
    parts: list[Path] = []
    done = Tally()
    while done.n_users in ends:
        end, path = ends[done.n_users]
        try:
            ranks = file.ranks(path)
        except (OSError, ValueError, KeyError):
            break
        n_users = end - done.n_users
        done = done.plus(Tally(n_users, len(ranks), n_users - int((ranks == 1).sum())))
        parts.append(path)
    return parts, done


def _refuse(where: str, found: str, wanted: str) -> None:
    raise StorageError("could not write the file", where=where, found=found, wanted=wanted)
