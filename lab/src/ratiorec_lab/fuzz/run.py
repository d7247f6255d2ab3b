"""Runs of many cases in one child process, started anew whenever it dies or hangs."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ratiorec.data.formats.binary import TRUST
from ratiorec_lab.fuzz.cases import Files

MEMORY_MB = 1024
SECONDS_A_CASE = 60.0
# few threads, each of which takes address space; and a crash is to be seen here
_OF_THE_CHILD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", TRUST: "1"}


@dataclass(frozen=True)
class Finding:
    """A case that ended otherwise than well or with an error of ours."""

    reader: str
    kind: str
    detail: str
    files: Files


@dataclass
class Tally:
    """What became of the cases of one reader."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def run(
    reader: str,
    cases: Iterable[Files],
    *,
    memory_mb: int = MEMORY_MB,
    seconds_a_case: float = SECONDS_A_CASE,
) -> Tally:
    """Attempt every case."""
    tally, child = Tally(), None
    for files in cases:
        child = child or _Child(reader, memory_mb)
        outcome, detail = child.attempt(files, seconds_a_case)
        tally.outcomes[outcome] += 1
        if outcome not in ("read", "refused"):
            tally.findings.append(Finding(reader, outcome, detail, files))
        if outcome in ("crash", "hang"):
            child.close()
            child = None
    if child is not None:
        child.close()
    return tally


class _Child:
    """One process that attempts cases."""

    def __init__(self, reader: str, memory_mb: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ratiorec_lab.fuzz.child", reader, str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_OF_THE_CHILD},
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has imported all it needs

    def attempt(self, files: Files, seconds: float) -> tuple[str, str]:
        """What became of one case; after "crash" and "hang" the process is gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        packed = {name: base64.b64encode(content).decode() for name, content in files.items()}
        try:
            self._process.stdin.write(json.dumps(packed).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return "crash", f"ended before the case, with {self._process.wait()}"
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self._process.kill()
            return "hang", f"no answer in {seconds:g} s"
        line: Any = self._process.stdout.readline()
        if not line:
            return "crash", f"ended with {self._process.wait()}"
        outcome, detail = json.loads(line)
        return outcome, detail

    def close(self) -> None:
        """Wait for the end of the process, which its input's end brings."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
