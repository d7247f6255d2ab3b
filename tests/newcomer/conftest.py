"""A command line in an empty folder, beside the log of a shop."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import CommandLine


@pytest.fixture
def cli(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RATIOREC_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return CommandLine(monkeypatch, capsys)
