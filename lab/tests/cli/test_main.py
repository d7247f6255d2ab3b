from __future__ import annotations

import subprocess
import sys

import pytest

# a machine on which nothing is installed has no entry points
WITHOUT_ENTRY_POINTS = """
import importlib.metadata, runpy, sys
importlib.metadata.entry_points = lambda **_: ()
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=False)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_ENTRY_POINTS, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("command", "expected"),
    [("bench", "growth or all"), ("demo", "--seed"), ("reproduce", "--protocol"), ("fit", "DATA")],
)
def test_all_commands_are_there_without_an_installation(command: str, expected: str) -> None:
    done = run("ratiorec_lab", command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: ratiorec {command} " in done.stdout
    assert expected in done.stdout


def test_the_library_alone_tells_that_the_laboratory_is_missing() -> None:
    done = run("ratiorec.cli", "bench")
    assert done.returncode == 2
    assert "the laboratory is not installed" in done.stderr
