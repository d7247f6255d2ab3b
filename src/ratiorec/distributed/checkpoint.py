"""The checkpoint of a run whose tables several processes share, to be continued by any number.

Every process writes its rows and none holds the whole. What is written is safetensors, by torch's
distributed checkpoint; a new one stands beside the old one until all of it is on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint import api, hf_storage, state_dict_loader, state_dict_saver
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from ratiorec.distributed.ranks import Ranks
from ratiorec.errors import CheckpointError, StorageError
from ratiorec.files import write_json
from ratiorec.solvers.solver import State
from ratiorec.training.checkpoint import (
    CURRENT,
    FILE,
    FitState,
    header_of,
    refuse_other_kind,
    state_from,
)

STATE = "state.json"
_USERS = ("parameter.users", "optimizer.0.exp_avg", "optimizer.0.exp_avg_sq", "best.users")
_ITEMS = ("parameter.items", "optimizer.1.exp_avg", "optimizer.1.exp_avg_sq")


@dataclass(frozen=True)
class SharedCheckpoints:
    """The folder of one run's checkpoint, which all processes can reach.

    `n_users` and `n_items` are those of the whole model: tables of as many rows are cut.
    """

    folder: Path
    ranks: Ranks
    n_users: int
    n_items: int

    def write(self, progress: FitState, arrays: State) -> None:
        """Replace the checkpoint; a crash leaves the old one.

        Raises:
            StorageError: A process could not write its part; all of them say so.
        """
        with self.ranks.loss_told():
            self._write(progress, arrays)

    def _write(self, progress: FitState, arrays: State) -> None:
        name = self.ranks.from_first(f"{progress.phase}-{os.urandom(4).hex()}")
        new = self.folder / name
        tensors = {key: self._cut(key, torch.from_numpy(array)) for key, array in arrays.items()}
        writer = hf_storage.HuggingFaceStorageWriter(str(new), save_distributed=True)

        def save() -> None:
            with _storage_errors(new), _quiet():
                state_dict_saver.save(tensors, storage_writer=writer)

        try:
            self.ranks.together(save)
        except BaseException:
            if self.ranks.is_first:
                shutil.rmtree(new, ignore_errors=True)
            raise
        self.ranks.together(lambda: self._make_current(new, progress))

    def _make_current(self, new: Path, progress: FitState) -> None:
        if not self.ranks.is_first:
            return
        for part in new.iterdir():
            with part.open("rb") as file:
                os.fsync(file.fileno())
        write_json(new / STATE, json.loads(header_of(progress)))
        write_json(self.folder / CURRENT, {"checkpoint": new.name})
        for other in self.folder.iterdir():
            if other.is_dir() and other != new:
                shutil.rmtree(other, ignore_errors=True)

    def read(self, identity: dict[str, Any]) -> tuple[FitState, State] | None:
        """The last checkpoint, of any number of processes; None where there is none.

        Raises:
            CheckpointError: It is of another run, or a process cannot read it.
        """
        name = self.ranks.from_first(self.ranks.together(self._current))
        if name is None:
            return None
        with self.ranks.loss_told():
            return self.ranks.together(lambda: self._read(name, identity))

    def _current(self) -> str | None:
        """The name of the last checkpoint, as the first process finds it."""
        path = self.folder / CURRENT
        if not self.ranks.is_first:
            return None
        if not path.exists():
            refuse_other_kind(self.folder / FILE, "one process", "the command without --workers")
            return None
        with _unreadable(path):
            return str(json.loads(path.read_text(encoding="utf-8"))["checkpoint"])

    def _read(self, name: str, identity: dict[str, Any]) -> tuple[FitState, State]:
        """This process's rows; nothing is said to the others meanwhile."""
        found = self.folder / name
        with _unreadable(found):
            header = json.loads((found / STATE).read_text(encoding="utf-8"))
            reader = hf_storage.HuggingFaceStorageReader(str(found))
            sizes = reader.read_metadata().state_dict_metadata
        progress = state_from(header, identity, found)
        room = {key: self._room(key, kept) for key, kept in sizes.items()}
        with _quiet(), _unreadable(found):
            state_dict_loader.load(room, storage_reader=reader, no_dist=True)
        return progress, {key: _own(tensor).numpy() for key, tensor in room.items()}

    def remove(self) -> None:
        """Drop the checkpoint once its model is safe, and nothing else that is in the folder."""
        if not self.ranks.is_first:
            return
        with contextlib.suppress(OSError):
            (self.folder / CURRENT).unlink(missing_ok=True)
            for part in self.folder.glob(f"*/{STATE}"):
                shutil.rmtree(part.parent, ignore_errors=True)
            self.folder.rmdir()

    def require_place(self, n_bytes: int) -> None:
        """Refuse to begin where two checkpoints would not fit, or not all reach the same folder.

        Raises:
            StorageError: It names the process that cannot.
        """
        token = self.folder / f".{self.ranks.from_first(os.urandom(4).hex())}"
        self.ranks.together(lambda: self._place(token, n_bytes))
        try:
            self.ranks.together(lambda: _require_there(token))
        finally:
            if self.ranks.is_first:
                token.unlink(missing_ok=True)

    def _place(self, token: Path, n_bytes: int) -> None:
        if not self.ranks.is_first:
            return
        with _storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            token.touch()
            free = shutil.disk_usage(self.folder).free
        if free < 2 * n_bytes:
            token.unlink()
            raise StorageError(
                "there is no room for checkpoints",
                where=str(self.folder),
                found=f"{free / 2**20:,.0f} MiB free",
                wanted=f"{2 * n_bytes / 2**20:,.0f} MiB, for the last one and the next",
            )

    @cached_property
    def _mesh(self) -> Any:
        return init_device_mesh("cpu", (self.ranks.size,))

    def _n_rows(self, name: str) -> int | None:
        if name in _USERS:
            return self.n_users
        return self.n_items if name in _ITEMS else None

    def _cut(self, name: str, own: Tensor) -> Tensor:
        """A tensor as torch's checkpoint wants it: the own rows of a table, or what all have."""
        n_rows = self._n_rows(name)
        if n_rows is None:
            return own
        shape = torch.Size((n_rows, *own.shape[1:]))
        return DTensor.from_local(
            own, self._mesh, [Shard(0)], run_check=False, shape=shape, stride=own.stride()
        )

    def _room(self, name: str, kept: Any) -> Tensor:
        """Where to read a tensor into: the own rows, whoever has written them."""
        n_rows = self._n_rows(name)
        if n_rows is None:
            return torch.empty(kept.size, dtype=kept.properties.dtype)
        rows = self.ranks.rows(n_rows)
        own = torch.empty((rows.stop - rows.start, *kept.size[1:]), dtype=kept.properties.dtype)
        return self._cut(name, own)


def _own(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _require_there(token: Path) -> None:
    if not token.exists():
        raise StorageError(
            "the processes do not reach the same folder for checkpoints",
            where=str(token.parent),
            found="nothing of what rank 0 has written",
            wanted="--checkpoint-dir on a file system that all machines share",
        )


@contextmanager
def _unreadable(path: Path) -> Iterator[None]:
    """What goes wrong in reading a checkpoint, as one of ours."""
    known = (OSError, ValueError, KeyError, TypeError, SafetensorError)
    try:
        yield
    except (*known, api.CheckpointException) as error:
        raise CheckpointError(
            "the checkpoint cannot be read",
            where=str(path),
            found=_cause(error),
            wanted="a checkpoint of several processes; without --resume training starts anew",
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says of its own code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    """What torch raises where a part cannot be written, as one of ours."""
    try:
        yield
    except (OSError, api.CheckpointException) as error:
        raise StorageError(
            "the checkpoint cannot be written",
            where=str(path),
            found=_cause(error),
            wanted="a place that may be written to and has room",
        ) from error


def _cause(error: BaseException) -> str:
    """What went wrong, of several ranks that of the first."""
    failures: Mapping[int, Any] = getattr(error, "failures", {})
    cause = next((failure[0] for failure in failures.values()), error)
    told = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {told[0]}" if told else type(cause).__name__
