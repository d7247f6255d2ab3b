"""Writes requirements-serve.txt: what the image of the server installs, each file by its hash.

    python -m ratiorec_lab.lock

pip resolves the package with the extra `serve` and constraints.txt, for the Python of
Dockerfile.serve on both processors. A file that differs from the one listed is refused by
`pip install --require-hashes`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

LOCK = "requirements-serve.txt"
PYTHON = "3.12"
PLATFORMS = ("x86_64", "aarch64")
_LINUX = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")

Hashes = dict[str, set[str]]
"""Hashes of the files of `name==version`."""


def main() -> None:
    """Resolve for every platform, and write the file in the current folder."""
    found: Hashes = {}
    for processor in PLATFORMS:
        for pinned, hashes in resolved(Path(), processor).items():
            found.setdefault(pinned, set()).update(hashes)
    Path(LOCK).write_text(as_requirements(found), encoding="utf-8")


def resolved(root: Path, processor: str) -> Hashes:
    """What pip would install on one kind of processor."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    platforms = [word for linux in _LINUX for word in ("--platform", f"{linux}_{processor}")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"),
                *("--only-binary", ":all:", "--python-version", PYTHON, *platforms),
                *("--target", folder, "-c", str(root / "constraints.txt")),
                *("--report", str(report), *wanted),
            ],
            check=True,
        )
        return hashes_in(json.loads(report.read_text(encoding="utf-8")))


def hashes_in(report: dict[str, list[dict[str, dict[str, dict[str, dict[str, str]]]]]]) -> Hashes:
    """Names, versions and hashes of an installation report of pip."""
    return {
        f"{one['metadata']['name']}=={one['metadata']['version']}".lower().replace("_", "-"): {
            one["download_info"]["archive_info"]["hashes"]["sha256"]
        }
        for one in report["install"]
    }


def as_requirements(found: Hashes) -> str:
    """The lines of a file that pip reads."""
    lines = [f"# Written by python -m ratiorec_lab.lock, for Python {PYTHON}."]
    for pinned, hashes in sorted(found.items()):
        lines += [" \\\n    ".join([pinned, *(f"--hash=sha256:{one}" for one in sorted(hashes))])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
