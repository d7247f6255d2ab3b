"""Runs the command line for tests: inside this process where possible, as its own where not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ratiorec.cli import main

QUICK = (
    *("--preset", "dregn-cf", "--device", "cpu"),
    *("--set", "encoder.dimension=4", "--set", "encoder.n_layers=1"),
    *("--set", "batches.n_users=20", "--set", "training.learning_rate=0.1"),
    *("--set", "training.epochs=3", "--set", "training.validate_every_epochs=1"),
    *("--set", "training.min_steps_between_validations=1"),
)
"""Options with which `fit` on sixty users takes a fraction of a second."""


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def refusal(self) -> str:
        """The one line that says what, where, found and wanted."""
        assert self.code == 2, self.err
        assert self.out == ""
        assert "Traceback" not in self.err
        lines = self.err.splitlines()
        refusals = [line for line in lines if line.startswith("ratiorec: ")]
        assert refusals == lines[-1:]
        for part in (" (where: ", "; found: ", "; wanted: "):
            assert part in lines[-1]
        return lines[-1]


@dataclass(frozen=True)
class CommandLine:
    """Calls `main` with arguments, in this process."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> Outcome:
        self.monkeypatch.setattr(sys, "argv", ["ratiorec", *map(str, arguments)])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = self.capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return Outcome(code, out, err)


def in_a_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own."""
    command = [sys.executable, "-m", "ratiorec", *map(str, arguments)]
    return subprocess.run(
        command, **({"stdout": subprocess.PIPE} | options), stderr=subprocess.PIPE, text=True
    )


def everything_in(folder: Path) -> dict[str, bytes | None]:
    """Every file with its content and every folder, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@contextlib.contextmanager
def full_disk(n_bytes: int) -> Iterator[None]:
    """Inside, no file can grow beyond so many bytes."""
    import resource  # not on Windows, where other tests need this module

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def has_full_device() -> bool:
    return os.access("/dev/full", os.W_OK)


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    """A command line in an empty folder, with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RATIOREC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return CommandLine(monkeypatch, capsys)
