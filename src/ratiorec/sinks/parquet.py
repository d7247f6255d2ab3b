"""A Parquet file, written whole or not at all, from parts that outlive an interrupted run."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ratiorec.errors import StorageError
from ratiorec.files import atomic_write
from ratiorec.sinks.job import Block, Job, Notify, Tally

if TYPE_CHECKING:
    import pyarrow


_PART = re.compile(r"users-(\d{12})-(\d{12})\.arrow")


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file with a row group for each block.

    Finished blocks wait as parts in a hidden folder beside the file, named after the job; at the
    end they are joined, the file takes its place in one step, and the folder goes.
    """

    path: Path

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
        except OSError as error:
            _refuse(
                self.where,
                error.strerror or str(error),
                "a folder that exists, may be written to and has room",
            )
        try:
            yield _Parts(self.path, own, *_kept(own))
        finally:
            with contextlib.suppress(OSError):
                own.rmdir()  # only what is empty goes: whole parts are for the next run


@dataclass
class _Parts:
    """The parts of one job: consecutive users, from the first on."""

    path: Path
    folder: Path
    files: list[Path] = field(default_factory=list)
    done: Tally = field(default_factory=Tally)

    def write(self, block: Block) -> None:
        import pyarrow

        tally = self.done.plus(Tally.of(block.lists))
        table = block.lists.to_arrow()
        file = self.folder / f"users-{block.n_before:012d}-{tally.n_users:012d}.arrow"
        options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
        with (
            self._named(),
            atomic_write(file) as handle,
            pyarrow.ipc.new_file(handle, table.schema, options=options) as writer,
        ):
            writer.write_table(table)
        self.files.append(file)
        self.done = tally

    def finish(self) -> None:
        from pyarrow import parquet

        with atomic_write(self.path) as handle:
            schema = _read(self.files[0]).schema
            with parquet.ParquetWriter(handle, schema) as writer:
                for file in self.files:
                    writer.write_table(_read(file))
        shutil.rmtree(self.folder, ignore_errors=True)  # the file stands; a left-over is no harm

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Name the file that was asked for, not the part, of which nobody has heard."""
        try:
            yield
        except StorageError as error:
            raise StorageError(
                error.what, where=str(self.path), found=error.found, wanted=error.wanted
            ) from error


def _folders_of_parts(target: Path) -> list[Path]:
    name = re.compile(rf"\.{re.escape(target.name[:150])}\.[0-9a-f]{{16}}\.parts")
    return [path for path in target.parent.iterdir() if name.fullmatch(path.name)]


def _kept(folder: Path) -> tuple[list[Path], Tally]:
    """The parts that follow one another from the first user on; one that is not whole is none."""
    ends = {int(found[1]): (int(found[2]), path) for path, found in _named_parts(folder)}
    files: list[Path] = []
    done = Tally()
    while done.n_users in ends:
        end, path = ends[done.n_users]
        try:
            ranks = _read(path)["rank"].to_numpy()
        except (OSError, ValueError, KeyError):
            break
        n_users = end - done.n_users
        done = done.plus(Tally(n_users, len(ranks), n_users - int((ranks == 1).sum())))
        files.append(path)
    return files, done


def _named_parts(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    paths = sorted(folder.iterdir())
    return [(path, found) for path in paths if (found := _PART.fullmatch(path.name))]


def _read(part: Path) -> pyarrow.Table:
    import pyarrow

    with pyarrow.OSFile(str(part)) as file:
        return pyarrow.ipc.open_file(file).read_all()


def _refuse(where: str, found: str, wanted: str) -> None:
    raise StorageError("could not write the file", where=where, found=found, wanted=wanted)
