"""Parts that studies share: their options, processes of their own, and how a result is printed.

It imports no torch, so that a process which is measured is not charged with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ratiorec.machine import peak_memory_mb


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Options of a study, described by the first line of its module."""
    return argparse.ArgumentParser(description=(doc or "").partition("\n")[0])


def tell(result: object) -> None:
    """One JSON object on standard output."""
    print(json.dumps(result, indent=2))


def in_a_fresh_process(study: str, *words: str) -> dict[str, Any]:
    """What a study prints with these options, and the seconds of the whole process."""
    started = time.perf_counter()
    command = [sys.executable, "-m", f"ratiorec_lab.studies.{study}", *words]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(finished.stdout)
    return result | {"whole_seconds": time.perf_counter() - started}


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Seconds of work by the clock and of all its threads, and the memory of this process."""
    before = peak_memory_mb()
    started, processor_started = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - processor_started,
        "loaded_mb": before,
        "peak_mb": peak_memory_mb(),
    }
