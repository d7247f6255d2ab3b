"""Ranks: the processes that train one model together, and all that they say to one another."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Self, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from ratiorec import errors
from ratiorec.errors import ConfigError, LostRankError, RatiorecError

PATIENCE = timedelta(hours=1)  # with a rank that says nothing; one that has ended is told at once

# newer releases of torch have other names for them
_GATHER: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_SCATTER: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

_PLACE = re.compile(r"^\[.*?\] ")  # in the source of gloo, which no reader has

T = TypeVar("T")


class Ranks:
    """This process among those that train together: `rank` of `size`.

    A table of n rows is cut into `size` consecutive parts of equal length, of which the last may be
    shorter. `seconds` is the time spent on what is said here, waiting for others included, and
    `n_bytes` what this rank has sent.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.seconds = 0.0
        self.n_bytes = 0
        # two ranks on one GPU cannot use NCCL: what they say goes through the host
        self._by_host = device.type == "cuda" and "nccl" not in dist.get_backend_config()

    @classmethod
    def join(cls, device: torch.device) -> Self:
        """Join the others that torchrun has started; waits until all are there."""
        if device.type == "cuda":
            device = _own_gpu(device)
            torch.cuda.set_device(device)
        n_here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        shared = device.type == "cuda" and n_here > torch.cuda.device_count()
        by_nccl = device.type == "cuda" and not shared
        backend = "cpu:gloo,cuda:nccl" if by_nccl else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE, **_meeting_place())
        return cls(device)

    def leave(self) -> None:
        """Part from the others."""
        dist.destroy_process_group()

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that speaks and writes for all."""
        return self.rank == 0

    def facts(self) -> dict[str, float]:
        """How many ranks there are, and what they had to say to one another, as the first knows."""
        sent = round(self.n_bytes / 2**20, 1)
        return {"n": self.size, "seconds_talking": round(self.seconds, 3), "mb_sent": sent}

    def rows(self, n: int) -> slice:
        """The rows of a table of n that are this rank's."""
        return rows_of_rank(self.rank, self.size, n)

    @torch.no_grad()
    def gathered(self, own: Tensor, n: int) -> Tensor:
        """The whole table of n rows, of which everybody has some."""
        length = -(-n // self.size)
        table = own.new_empty(length * self.size, *own.shape[1:])
        with self._talk(own.element_size() * (len(table) - length) * own[:1].numel()):
            self._collect(_GATHER, table, _of_length(own, length))
        return table[:n]

    @torch.no_grad()
    def scattered(self, table: Tensor) -> Tensor:
        """The own rows of the sum of everybody's tables."""
        n, length = len(table), -(-len(table) // self.size)
        rows = self.rows(n)
        own = table.new_empty(length, *table.shape[1:])
        with self._talk(table.element_size() * (self.size - 1) * own.numel()):
            self._collect(_SCATTER, own, _of_length(table, length * self.size))
        return own[: rows.stop - rows.start]

    @torch.no_grad()
    def total(self, value: Tensor) -> Tensor:
        """The sum of everybody's values, the same on all ranks."""
        # always a copy: on the host already, `value` would else become the sum itself
        there = value.detach().to("cpu" if self._by_host else value.device, copy=True)
        with self._talk(2 * value.element_size() * value.numel()):
            dist.all_reduce(there)
        return there.to(value.device)

    def most(self, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The largest of everybody's values, place by place."""
        largest = torch.from_numpy(values.copy())
        with self._talk(2 * values.nbytes):
            dist.all_reduce(largest, dist.ReduceOp.MAX)
        return largest.numpy()

    def joined(self, values: NDArray[Any]) -> NDArray[Any]:
        """Everybody's values in the order of the ranks; there may be differently many."""
        return np.concatenate(self.everywhere(values))

    def everywhere(self, thing: T) -> list[T]:
        """What each rank has, by rank."""
        found: list[Any] = [None] * self.size
        with self._talk(0):
            dist.all_gather_object(found, thing)
        return found

    def from_first(self, thing: T | None) -> T:
        """What the first rank has."""
        found: list[Any] = [thing]
        with self._talk(0):
            dist.broadcast_object_list(found, src=0)
        return found[0]  # type: ignore[no-any-return]

    def on_first(self, thing: T) -> list[T] | None:
        """What each rank has, by rank, on the first one; None elsewhere."""
        found: list[Any] | None = [None] * self.size if self.is_first else None
        with self._talk(0):
            dist.gather_object(thing, found)
        return found

    def agreed(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag, raised where any rank raises it."""
        raised = self.most(np.array(flags, np.uint8))
        return tuple(map(bool, raised.tolist()))

    def together(self, work: Callable[[], T]) -> T:
        """What `work` gives, or on all ranks the first error of a rank that cannot do it."""
        told: tuple[str, dict[str, str]] | None = None
        try:
            result = work()
        except LostRankError:
            raise
        except RatiorecError as error:
            parts = {name: getattr(error, name) for name in ("what", "where", "found", "wanted")}
            told = type(error).__name__, parts
        for rank, failure in enumerate(self.everywhere(told)):
            if failure is not None:
                kind, parts = failure
                parts["where"] += f", on rank {rank} of {self.size}" if self.size > 1 else ""
                raise self._of_all(getattr(errors, kind)(**parts))
        return result

    def require_alike(self, **things: Any) -> None:
        """Refuse to begin where ranks have different data, settings or versions.

        Raises:
            ConfigError: It names the first thing that differs, and the rank.
        """
        first, *others = self.everywhere(things)
        for rank, theirs in enumerate(others, start=1):
            for name, thing in first.items():
                if theirs.get(name) != thing:
                    differing = ConfigError(
                        f"the processes of a training have different {name}",
                        where=f"rank {rank} of {self.size}",
                        found=f"{name} {_shown(theirs.get(name), thing)}",
                        wanted=f"{_shown(thing, theirs.get(name))}, as rank 0 has; the same "
                        "command, data and version everywhere",
                    )
                    raise self._of_all(differing)

    def _of_all(self, error: RatiorecError) -> RatiorecError:
        """An error that all ranks raise, which the first one tells."""
        error.is_told_here = self.is_first
        return error

    def _collect(self, collective: Callable[..., Any], out: Tensor, own: Tensor) -> None:
        if not self._by_host:
            collective(out, own)
            return
        here = torch.empty(out.shape, dtype=out.dtype)
        collective(here, own.cpu())
        out.copy_(here)

    @contextmanager
    def _talk(self, n_bytes: int) -> Iterator[None]:
        began = time.perf_counter()
        with self.loss_told():
            yield
        self.seconds += time.perf_counter() - began
        self.n_bytes += n_bytes

    @contextmanager
    def loss_told(self) -> Iterator[None]:
        """A rank that is gone, as an error of ours; for work in which torch speaks to the others.

        Raises:
            LostRankError: It is gone.
        """
        try:
            yield
        except RuntimeError as error:  # torch has no kind of its own for a connection that is gone
            raise LostRankError(
                "another process of this training is gone",
                where=f"rank {self.rank} of {self.size}",
                found=_PLACE.sub("", str(error)).partition(". ")[0] or type(error).__name__,
                wanted="the same command with --resume, which goes on from the last checkpoint; "
                "torchrun --max-restarts and --workers do so by themselves",
            ) from error


def _own_gpu(device: torch.device) -> torch.device:
    """A GPU by its number; where none is named, the ranks of a host are dealt all of them."""
    if device.index is not None:
        return device
    turn = int(os.environ.get("LOCAL_RANK", "0"))
    return torch.device("cuda", turn % torch.cuda.device_count())


def _meeting_place() -> dict[str, Any]:
    """Where the ranks of this start, and not of one before it, find each other.

    Torchrun keeps one store over its restarts, and a rank that comes early would find there the
    address of one that is gone. It counts restarts on each machine for itself, so only where there
    is one machine do all ranks know the same number.
    """
    if os.environ.get("GROUP_WORLD_SIZE") != "1":
        return {}
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return {"store": PrefixStore(attempt, store), "rank": rank, "world_size": size}


def rows_of_rank(rank: int, size: int, n: int) -> slice:
    """The rows of a table of n that a rank has.

    >>> [rows_of_rank(rank, 3, 7) for rank in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 7, None)]
    """
    length = -(-n // size)
    return slice(min(rank * length, n), min((rank + 1) * length, n))


def _of_length(table: Tensor, length: int) -> Tensor:
    """The table with rows of zeros behind it, so that all ranks send equally much."""
    if len(table) == length:
        return table.contiguous()
    longer = table.new_zeros(length, *table.shape[1:])
    longer[: len(table)] = table
    return longer


def _shown(thing: Any, other: Any) -> str:
    """What differs, by its name where it is a table."""
    if isinstance(thing, dict) and isinstance(other, dict):
        name = next(key for key in {**thing, **other} if thing.get(key) != other.get(key))
        return f"{name} = {_shown(thing.get(name), other.get(name))}"
    return str(thing)
