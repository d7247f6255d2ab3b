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
from torch import Tensor
from torch.distributed.checkpoint import api, hf_storage, state_dict_loader, state_dict_saver
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from ratiorec.distributed.ranks import Ranks
from ratiorec.errors import CheckpointError, StorageError
from ratiorec.files import made_folder, write_json
from ratiorec.solvers.solver import State
from ratiorec.training.checkpoint import FitState, header_of, state_from

CURRENT, STATE = "current.json", "state.json"
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
        name = self.ranks.from_first(f"{progress.phase}-{os.urandom(4).hex()}")
        new = self.folder / name
        tensors = {key: self._cut(key, torch.from_numpy(array)) for key, array in arrays.items()}
        writer = hf_storage.HuggingFaceStorageWriter(str(new), save_distributed=True)

        def save() -> None:
            with _storage_errors(new), made_folder(self.folder), _quiet():
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
            CheckpointError: It is of another run, or cannot be read.
        """
        return self.ranks.together(lambda: self._read(identity))

    def _read(self, identity: dict[str, Any]) -> tuple[FitState, State] | None:
        path = self.folder / CURRENT
        if not path.exists():
            return None
        try:
            found = self.folder / json.loads(path.read_text(encoding="utf-8"))["checkpoint"]
            header = json.loads((found / STATE).read_text(encoding="utf-8"))
            reader = hf_storage.HuggingFaceStorageReader(str(found))
            sizes = reader.read_metadata().state_dict_metadata
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                "the checkpoint cannot be read",
                where=str(path),
                found=f"{type(error).__name__}: {error}",
                wanted="a checkpoint of several processes; without --resume training starts anew",
            ) from None
        progress = state_from(header, identity, path)
        room = {name: self._room(name, kept) for name, kept in sizes.items()}
        with _quiet():
            state_dict_loader.load(room, storage_reader=reader)
        return progress, {name: _own(tensor).numpy() for name, tensor in room.items()}

    def remove(self) -> None:
        """Drop the checkpoint once its model is safe, and nothing else that is in the folder."""
        if not self.ranks.is_first:
            return
        with contextlib.suppress(OSError):
            (self.folder / CURRENT).unlink(missing_ok=True)
            for part in self.folder.glob(f"*/{STATE}"):
                shutil.rmtree(part.parent, ignore_errors=True)
            self.folder.rmdir()

    def require_room(self, n_bytes: int) -> None:
        """Refuse to begin where two checkpoints would not fit on the disk.

        Raises:
            StorageError: There is less.
        """
        existing = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < 2 * n_bytes:
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
        causes: Mapping[int, Any] = getattr(error, "failures", {})
        told = next((str(cause[0]) for cause in causes.values()), str(error))
        raise StorageError(
            "the checkpoint cannot be written",
            where=str(path),
            found=told.splitlines()[0] if told else type(error).__name__,
            wanted="a place that may be written to and has room",
        ) from error
