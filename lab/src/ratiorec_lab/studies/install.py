"""Time, disk and packages of an installation in a fresh environment, and whether it works.

    python -m ratiorec_lab.studies.install --python python3.11 --python python3.12

Run in a clone of the repository. Each set of packages is installed by pip, with the constraints,
into an environment of its own; megabytes are those of the whole environment, pip included.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ratiorec_lab.studies.study import parser, tell

SETS = {
    "ratiorec": ["."],
    "ratiorec[serve]": [".[serve]"],
    "torch, then ratiorec[torch]": ["torch", ".[torch]"],
}
"""What is installed, one call of pip after the other."""
FIRST_HOUR = (
    "data describe synthetic",
    "fit synthetic --preset ease -o model",
    "fit synthetic -o auto --max-seconds 20",
    "evaluate model --data synthetic",
    "compare synthetic --presets ease,item-knn,popularity",
    "recommend model --all -k 5 -o lists.csv",
    "recommend model --all -k 5 -o sqlite:///lists.db",
    "doctor",
)
_IMPORT = "import time; t = time.perf_counter(); import ratiorec; print(time.perf_counter() - t)"
_REPEATS = 5


def main() -> None:
    """Measure every set with every interpreter."""
    options = parser(__doc__)
    options.add_argument("--python", action="append", help="an interpreter; repeatable")
    options.add_argument("--set", action="append", choices=SETS, help="all of them if left")
    asked = options.parse_args()
    cases = [
        measure(python, name)
        for python in asked.python or [sys.executable]
        for name in asked.set or SETS
    ]
    tell({"cases": cases})


def measure(python: str, name: str) -> dict[str, Any]:
    """One environment, made and thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "environment")
        _run([python, "-m", "venv", str(environment)])
        own = str(environment / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        pip = [own, "-m", "pip", "--disable-pip-version-check"]
        started = time.perf_counter()
        for package in SETS[name]:
            _run([*pip, "install", "--quiet", "-c", "constraints.txt", package])
        seconds = time.perf_counter() - started
        listed = _run([*pip, "list", "--format=freeze"]).split()
        _run([*pip, "check"])
        return {
            "set": name,
            "python": _run([own, "-c", "import platform; print(platform.python_version())"]),
            "seconds": round(seconds, 1),
            "megabytes": round(on_disk(environment) / 2**20),
            "packages": len([one for one in listed if not one.startswith(("pip=", "setuptools="))]),
            "versions": _versions(listed),
            "import_seconds": round(_import_seconds(own), 4),
            "first_hour": first_hour(own, Path(folder)),
        }


def on_disk(folder: Path) -> int:
    """Bytes of the blocks that the files take, where the system tells; else of their content."""
    files = [path.lstat() for path in folder.rglob("*") if not path.is_dir()]
    return sum(getattr(file, "st_blocks", -(-file.st_size // 512)) * 512 for file in files)


def first_hour(python: str, folder: Path) -> list[str]:
    """The commands of a newcomer; one that fails ends the study."""
    for command in FIRST_HOUR:
        _run([python, "-m", "ratiorec", *command.split()], folder)
    return list(FIRST_HOUR)


def _versions(listed: Sequence[str]) -> dict[str, str]:
    """Those that a table of tested versions names."""
    found = dict(one.split("==") for one in listed if "==" in one)
    return {name: found[name] for name in ("numpy", "scipy", "torch") if name in found}


def _import_seconds(python: str) -> float:
    """The median of some processes, after one that compiles."""
    taken = [float(_run([python, "-c", _IMPORT])) for _ in range(_REPEATS + 1)]
    return statistics.median(taken[1:])


def _run(command: Sequence[str], folder: Path | None = None) -> str:
    # nothing but the environment: a path of the caller's would lead to another copy
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
