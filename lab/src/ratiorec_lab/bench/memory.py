"""The memory that a case takes beyond its inputs.

On a processor in a process of its own: what an earlier case gave back may still be held by the
allocator, and would hide what the next one takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ratiorec.machine import peak_memory_mb
from ratiorec_lab.bench.case import Size
from ratiorec_lab.bench.timing import Way, synchronise

Alone = Callable[[str, Size], Way]
"""One execution on random inputs of a size."""


# glibc would keep what was given back while the inputs were built, and use it again unseen
_GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}

Peaks = dict[str, float | None]


def in_own_processes(target: str, executions: Sequence[str], size: Size) -> Peaks:
    """The extra memory of each execution in MB; None for one that failed."""
    peaks: Peaks = {}
    for execution in executions:
        peaks |= in_one_process(target, [execution], size)
    return peaks


def in_one_process(target: str, executions: Sequence[str], size: Size) -> Peaks:
    """The same from a single process, where what one has given back hides some of the next."""
    if not executions:
        return {}
    words = [target, json.dumps(dict(size)), *executions]
    done = subprocess.run(
        [sys.executable, "-m", "ratiorec_lab.bench.alone", *words],
        stdout=subprocess.PIPE,
        env=os.environ | _GIVING_BACK,
        text=True,
        check=False,  # what it says on standard error is seen; the times are worth having anyway
    )
    found: Peaks = json.loads(done.stdout) if done.returncode == 0 else {}
    return {execution: found.get(execution) for execution in executions}


def peak_extra_mb(prepare: Callable[[], Way]) -> float:
    """What the work of this process takes in MB, after its inputs are there."""
    way = prepare()
    with way.around():
        before = _restarted_peak()
        way.work()
    return _peak_mb() - before


def on_card(way: Way) -> float:
    """What a way takes on a graphics card in MB, where the allocator tells."""
    with way.around():
        synchronise(way.device)
        before = torch.cuda.memory_allocated(way.device)
        torch.cuda.reset_peak_memory_stats(way.device)
        way.work()
        synchronise(way.device)
        return (torch.cuda.max_memory_allocated(way.device) - before) / 2**20


def _restarted_peak() -> float:
    """Let the count of the peak begin anew, where the system can do so, and where it begins."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak_mb()


def _peak_mb() -> float:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 2**10
    return peak_memory_mb()
