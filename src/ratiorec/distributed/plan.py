"""What a training by several processes will take: memory, bytes exchanged and seconds, in advance.

Memory and exchange are counted; only the process itself is a measured constant. Seconds are counts
of work times rates that were fitted to measured steps.
"""

from __future__ import annotations

import importlib.resources
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ratiorec.distributed.counts import LARGEST_INDEX, Bytes, Kind, SharedTraining
from ratiorec.errors import ConfigError, unknown_choice


@dataclass(frozen=True)
class PlannedDevice:
    """Where to train: its memory, and seconds for each piece of work, fitted to measured steps."""

    name: str
    kind: Kind
    memory_gib: float
    process_mib: float  # of a process without data, on the device
    host_process_mib: float  # the same in the memory of the host, where that is another
    seconds: Mapping[str, float]  # for each piece of work
    exchange: Mapping[str, float]  # for each byte and message
    notes: tuple[str, ...]  # where the figures come from, and what was not run
    errors: Mapping[str, float]  # the largest on sizes that were not fitted

    @classmethod
    def named(cls, name: str) -> PlannedDevice:
        """A device of which there are figures.

        Raises:
            UnknownChoiceError: There are none.
        """
        known = known_devices()
        if name not in known:
            raise unknown_choice("no figures of this device", name, known, where="--device")
        facts = known[name]
        return cls(name, **{**facts, "notes": tuple(facts["notes"])})


def known_devices() -> dict[str, Any]:
    """The figures of each device, as `python -m ratiorec_lab.results` writes them."""
    file = importlib.resources.files("ratiorec.distributed") / "rates.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Plan:
    """A training on a device."""

    training: SharedTraining
    device: PlannedDevice

    def __post_init__(self) -> None:
        n_pairs = self.training.own_pairs
        if self.device.kind == "cuda" and n_pairs > LARGEST_INDEX:
            raise ConfigError(
                "more pairs than the graph of one GPU can number",
                where="--n",
                found=f"{n_pairs:,} pairs for each of {self.training.n_ranks} processes",
                wanted=f"processes enough that each has {LARGEST_INDEX:,} or fewer",
            )

    @cached_property
    def device_bytes(self) -> Bytes:
        """The memory of one device, at the most expensive moment of a step."""
        training, kind = self.training, self.device.kind
        found = {**training.tables(), "graph": training.graph(kind), "batch": training.batch()}
        found |= training.buffers(kind)
        if kind == "cpu":
            found |= training.host()
        return found | {"process": round(self.device.process_mib * 2**20)}

    @cached_property
    def host_bytes(self) -> Bytes:
        """The memory of the host that one process takes beside its GPU."""
        if self.device.kind == "cpu":
            return {}
        mib = self.device.host_process_mib
        return {**self.training.host(), "process": round(mib * 2**20)}

    @property
    def peak(self) -> int:
        """Bytes of the device in all."""
        return sum(self.device_bytes.values())

    @property
    def fits(self) -> bool:
        """Whether that is less than the device has; processes on a CPU share its memory."""
        n_sharing = self.training.n_ranks if self.device.kind == "cpu" else 1
        return n_sharing * self.peak <= self.device.memory_gib * 2**30

    @property
    def compute_seconds(self) -> float:
        """What a rank computes in a step."""
        work, rates = self.training.work(), self.device.seconds
        return sum(amount * rates.get(kind, 0.0) for kind, amount in work.items())

    @property
    def exchange_seconds(self) -> float:
        """What a rank has to say in a step."""
        rates, training = self.device.exchange, self.training
        if training.n_ranks == 1:
            return 0.0
        return (
            training.bytes_of_tables * rates["bytes"]
            + training.bytes_of_marks * rates["bytes of marks"]
            + training.n_messages * rates["messages"]
        )

    @property
    def step_seconds(self) -> float:
        """Both, one after the other."""
        return self.compute_seconds + self.exchange_seconds

    def to_json(self) -> dict[str, Any]:
        """All of it, in plain types."""
        training, device = self.training, self.device
        return {
            "device": device.name,
            "training": vars(training) | {"steps_per_epoch": training.n_steps},
            "memory": {
                "parts": self.device_bytes,
                "total": self.peak,
                "available": round(device.memory_gib * 2**30),
                "largest": max(self.device_bytes, key=self.device_bytes.__getitem__),
                "fits": self.fits,
            },
            "host": {
                "parts": self.host_bytes,
                "each_process": sum(self.host_bytes.values()),
                "all_processes": training.n_ranks * sum(self.host_bytes.values()),
                "first_process_at_the_end": training.joining(),
            },
            "exchange": {
                "bytes_per_step": training.bytes_sent,
                "messages_per_step": training.n_messages,
            },
            "seconds": {
                "compute": self.compute_seconds,
                "exchange": self.exchange_seconds,
                "step": self.step_seconds,
                "epoch": self.step_seconds * training.n_steps,
            },
            "errors": dict(device.errors),
            "notes": list(device.notes),
        }


def whole_number(where: str, value: float) -> int:
    """A count that may be written as 1e8.

    Raises:
        ConfigError: It is no whole number, or below 1.

    >>> whole_number("--users", 1e8)
    100000000
    """
    if not math.isfinite(value) or value != int(value) or value < 1:
        raise ConfigError(
            "a size is no count",
            where=where,
            found=f"{value:g}",
            wanted="a whole number, 1 or more; 1e8 is one",
        )
    return int(value)
