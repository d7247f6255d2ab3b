"""Ways of doing the same, side by side: times, extra memory and ceilings from one run.

Memory on a CPU is found in a process of its own: what an earlier case gave back may still be held
by the allocator, and would hide what the next one takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ratiorec.machine import peak_memory_mb
from ratiorec_lab.bench.case import Case, Size
from ratiorec_lab.bench.clock import (
    Ceilings,
    Conditions,
    Floor,
    Gauge,
    Times,
    Way,
    interleaved,
    synchronize,
)

Alone = Callable[[str, Size], Way]
"""One case on random inputs of a size."""

Peaks = dict[str, float | None]
"""Extra memory in MB by case; None for one that failed."""

# glibc would keep what was given back while the inputs were built, and use it again unseen
_GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


class Outcome(NamedTuple):
    """Times, extra memory and devices by key, ceilings by device."""

    times: Mapping[str, Times]
    peaks: Mapping[str, float | None]
    ceilings: Mapping[str, Ceilings]
    devices: Mapping[str, str] = {}

    def case(
        self, key: str, name: str, backend: str, size: Size, floor: Floor | None, **more: Any
    ) -> Case:
        """What was found under a key."""
        peak = self.peaks.get(key)
        return Case(name, backend, self.devices[key], size, self.times[key], floor, peak, **more)


def side_by_side(
    target: str,
    ways: Mapping[str, Way],
    size: Size,
    conditions: Conditions,
    *,
    also: Mapping[str, Way] | None = None,
) -> Outcome:
    """Time all ways in turns with a large product and a large copy, then find their memory.

    What is in `also` takes its turn with them, and nothing is asked of its memory.
    """
    effort, tell = conditions.effort, conditions.tell
    every = {**ways, **(also or {})}
    gauges = {way.device.type: Gauge(way.device, effort) for way in ways.values()}
    rates = {name: way for gauge in gauges.values() for name, way in gauge.ways().items()}
    times = interleaved({**every, **rates}, effort=effort, tell=tell, what=target)
    ceilings = {device: gauge.ceilings(times) for device, gauge in gauges.items()}
    del gauges, rates  # their memory is no case's
    devices = {key: way.device.type for key, way in every.items()}
    return Outcome(times, _peaks(target, ways, size, conditions), ceilings, devices)


def _peaks(target: str, ways: Mapping[str, Way], size: Size, conditions: Conditions) -> Peaks:
    on_gpu: Peaks = {key: gpu_mb(way) for key, way in ways.items() if way.device.type == "cuda"}
    others = [key for key in ways if key not in on_gpu]
    conditions.tell(f"{target}: memory", 0, 0)
    if conditions.effort.is_quick:
        return on_gpu | in_one_process(target, others, size)
    return on_gpu | in_own_processes(target, others, size)


def in_own_processes(target: str, keys: Sequence[str], size: Size) -> Peaks:
    """The extra memory of each case."""
    peaks: Peaks = {}
    for key in keys:
        peaks |= in_one_process(target, [key], size)
    return peaks


def in_one_process(target: str, keys: Sequence[str], size: Size) -> Peaks:
    """The same from a single process, where what one has given back hides some of the next."""
    if not keys:
        return {}
    done = subprocess.run(
        [sys.executable, "-m", "ratiorec_lab.bench.targets", target, json.dumps(dict(size)), *keys],
        stdout=subprocess.PIPE,
        env=os.environ | _GIVING_BACK,
        text=True,
        check=False,  # what it says on standard error is seen; the times are worth having anyway
    )
    found: Peaks = json.loads(done.stdout) if done.returncode == 0 else {}
    return {key: found.get(key) for key in keys}


def peak_extra_mb(prepare: Callable[[], Way]) -> float:
    """What the work of this process takes in MB, after its inputs are there."""
    way = prepare()
    with way.around():
        before = restarted_peak_mb()
        way.work()
    return peak_mb() - before


def gpu_mb(way: Way) -> float:
    """What a way takes on a GPU in MB, as torch's allocator counts it."""
    with way.around():
        synchronize(way.device)
        before = torch.cuda.memory_allocated(way.device)
        torch.cuda.reset_peak_memory_stats(way.device)
        way.work()
        synchronize(way.device)
        return (torch.cuda.max_memory_allocated(way.device) - before) / 2**20


def restarted_peak_mb() -> float:
    """Let the count of the peak begin anew, where the system can do so, and where it begins."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """The most that this process has held, since the count began."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 2**10
    return peak_memory_mb()
