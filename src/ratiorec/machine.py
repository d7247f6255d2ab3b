"""Provenance of a result (machine, versions, commit), and the memory of the machine."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import importlib.util
import math
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ratiorec import __version__


class Device(Protocol):
    """Where a model is fitted; its name is what `str` says. torch's own is one."""

    @property
    def type(self) -> str:
        """ "cpu" or "cuda"."""


@dataclass(frozen=True)
class Processor:
    """The CPU, which needs no torch."""

    type: str = "cpu"

    def __str__(self) -> str:
        return self.type


def usable_cores() -> int:
    """The cores that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return usable or 1


def one_blas_thread() -> Any:
    """While it holds, products of matrices have the same bits wherever and stay on one core.

    A library with threads of its own works best so, too.
    """
    from threadpoolctl import threadpool_limits

    limits: Any = threadpool_limits
    return limits(1, "blas")


def gpu_out_of_memory() -> tuple[type[Exception], ...]:
    """What torch raises where the memory of a GPU has run out; nothing where nobody uses torch."""
    torch = sys.modules.get("torch")
    return (torch.cuda.OutOfMemoryError,) if torch else ()


def has_torch() -> bool:
    """Whether torch is installed; it is not imported, which takes seconds."""
    return "torch" in sys.modules or importlib.util.find_spec("torch") is not None


def describe_machine(device: str) -> dict[str, Any]:
    """Processor, cores, memory and, where one is used, the GPU."""
    machine: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "blas": _blas(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device,
    }
    if device.startswith("cuda"):
        import torch

        machine["accelerator"] = torch.cuda.get_device_name(device)
    return machine


def versions() -> dict[str, str]:
    """The versions that may change a figure."""
    found = {"ratiorec": __version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scipy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def commit() -> str | None:
    """The commit of the source tree this runs from, marked when it has local changes.

    `RATIOREC_COMMIT` names it where the tree was copied without its history. A package that is
    installed inside a repository of someone else's has no commit.
    """
    if given := os.environ.get("RATIOREC_COMMIT"):
        return given

    def git(*words: str) -> str:
        done = subprocess.run(
            # without the locks that `status` takes for speed: killed, it would leave them behind
            ["git", "--no-optional-locks", "-C", str(Path(__file__).parent), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "HEAD") + ("-modified" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def peak_memory_mb() -> float:
    """The peak of this process's memory; 0 on Windows, which has no such call in Python."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def available_memory_mb(device: str) -> float:
    """The memory that may still be taken; on a GPU the smaller of its own and the host's.

    Nine tenths of what the system calls available; infinite where it does not tell.
    """
    available = _available_bytes()
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()  # what is merely cached is not taken
        available = min(available, torch.cuda.mem_get_info(device)[0])
    return 0.9 * available / 2**20


def release_memory(device: str) -> bool:
    """Free what earlier work left, and reset the peaks of memory.

    Returns:
        Whether the peak of the process was reset; only Linux can do so.
    """
    gc.collect()
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()  # else a budget would count what is merely cached as taken
        torch.cuda.reset_peak_memory_stats(device)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


def load_torch(device: str) -> None:
    """Import torch and wake the device: seconds that no run should be charged."""
    if has_torch():
        import torch

        torch.zeros(1, device=device)


def _available_bytes() -> float:
    return max(0.0, min(_free_bytes(), _address_space_left(), _container_bytes_left()))


def _address_space_left() -> float:
    """What `ulimit -v` still allows this process; infinite where there is no limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return math.inf
        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return math.inf
    return float(limit - n_pages * resource.getpagesize())


_LIMITS_OF_A_CONTAINER = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),  # before version 2
)


def _container_bytes_left(root: Path = Path("/sys/fs/cgroup")) -> float:
    """What the limit of a container still allows: the file cache in it can be given back."""
    for limit, taken in _LIMITS_OF_A_CONTAINER:
        with contextlib.suppress(OSError, ValueError):
            files = (root / limit, root / taken, (root / limit).with_name("memory.stat"))
            most, used, stat = (file.read_text(encoding="ascii").split() for file in files)
            cached = dict(zip(stat[::2], stat[1::2], strict=False)).get("inactive_file", "0")
            return math.inf if most == ["max"] else float(int(most[0]) - int(used[0]) + int(cached))
    return math.inf


def _free_bytes() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return math.inf
    kilobytes = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return float(next(kilobytes, math.inf)) * 2**10


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _blas() -> str:
    """numpy's BLAS and the processor it takes this one for, by which times differ twofold."""
    import numpy  # noqa: F401 - loads it
    from threadpoolctl import threadpool_info

    loaded: list[dict[str, Any]] = threadpool_info()
    found = [one for one in loaded if one["user_api"] == "blas"]
    names = (f"{one['internal_api']} {one.get('architecture') or ''}".strip() for one in found)
    return next(names, "unknown")


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def is_rank() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ


def is_restarted() -> bool:
    """Whether torchrun starts it again, after some process was lost."""
    return is_rank() and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
