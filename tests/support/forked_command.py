"""Commands as processes of their own, forked from one that has imported torch already."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ratiorec.cli import main

_FORKS = multiprocessing.get_context("forkserver")
# imports take seconds, most of the time of a command on small data
_FORKS.set_forkserver_preload(
    [__name__, "torch._dynamo", "ratiorec.training.experiment", "ratiorec_lab.reproduce.report"]
)


class ForkedCommand:
    """`python -m ratiorec.cli` with these arguments, as `subprocess.Popen` has it."""

    def __init__(self, *arguments: object) -> None:
        self._written = tempfile.TemporaryDirectory()
        words = ["ratiorec", *map(str, arguments)]
        started = (words, Path.cwd(), dict(os.environ), Path(self._written.name))
        self._process = _FORKS.Process(target=_run, args=started, daemon=True)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        """The exit code; negative for the signal that ended it, None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("ratiorec", timeout or 0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def said(self) -> str:
        """What it has written to standard error so far."""
        path = Path(self._written.name, "err")
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote by its end."""
        self.wait(timeout)
        with self._written as folder:
            out, err = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err"))
        return out, err


def _run(words: list[str], folder: Path, environment: Mapping[str, str], written: Path) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(written / name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = words
    main()
