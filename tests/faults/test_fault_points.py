"""A fault at every file-system call of everything that writes: old or new, whole, and once more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux" or shutil.which("cc") is None:
    pytest.skip("needs Linux and a C compiler", allow_module_level=True)

from support.fault_points import OPERATIONS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "production.md"


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that stands before the C library's."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
    subprocess.run(["cc", *flags, "-o", library, HERE / "shim.c", "-ldl"], check=True)
    return library


def documented() -> dict[str, tuple[int, int]]:
    """Calls and runs of each operation, as the table of the documentation has them."""
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \|$", PAGE.read_text("utf-8"), re.M)
    return {name: (number(calls), number(runs)) for name, calls, runs in rows}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def result_of(operation: str, shim: Path, folder: Path) -> dict[str, Any]:
    """What the runs of an operation in a process of its own came to."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "support.fault_points", operation, str(folder)],
        env=os.environ | {"LD_PRELOAD": str(shim), "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    print(operation, {name: value for name, value in result.items() if name != "failures"})
    return result


@pytest.fixture
def memory_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: most of the time would be waiting for a disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_fault_at_any_call_leaves_anything_but_the_old_or_the_new(
    operation: str, shim: Path, memory_disk: Path
) -> None:
    result = result_of(operation, shim, memory_disk)
    assert result["failures"] == []
    assert {"open to write", "write", "fsync"} <= result["by_name"].keys()  # the shim is in use
    calls, runs = documented()[operation]
    # other versions of Python and SQLite make a few calls more or less
    assert 0.7 * calls <= result["calls"] <= 1.5 * calls, result
    assert 0.7 * runs <= result["runs"] <= 1.5 * runs, result


def test_the_documentation_counts_every_operation() -> None:
    assert [name for name in documented() if name in OPERATIONS] == list(OPERATIONS)
