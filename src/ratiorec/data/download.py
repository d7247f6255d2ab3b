"""Downloads from the web or out of a wheel: checked by hash, written whole or not at all."""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ratiorec.data.registry import InAWheel, PinnedFile
from ratiorec.errors import ConfigError, DownloadError
from ratiorec.files import atomic_write

Progress = Callable[[str, int, int | None], None]
"""Is told the name of the file, the bytes there so far, and their final number where known."""

_MAX_BYTES = 1 << 28  # for a file whose size is not known beforehand
_PIECE = 1 << 16
_WORTH_A_RETRY = (408, 425, 429)  # and everything from 500


@dataclass(frozen=True)
class HttpDownload:
    """Download of one file over HTTP, which takes its place once its hash is right."""

    n_attempts: int = 4
    timeout_seconds: float = 30.0
    pause_seconds: float = 0.5  # before the second attempt; doubled before each further one
    max_bytes: int = _MAX_BYTES

    def __call__(
        self, url: str, target: Path, *, pinned: PinnedFile, progress: Progress | None = None
    ) -> None:
        require_web_address(url, where="the URL of a benchmark")
        with atomic_write(target) as handle:
            content = self._content(url, pinned, progress)
            if fault := pinned.fault_in(content):
                raise pinned.mismatch(where=url, found=fault)
            handle.write(content)

    def _content(self, url: str, pinned: PinnedFile, progress: Progress | None) -> bytes:
        """The body of the answer, asked for again after a fault that may pass."""
        failure = ""
        for attempt in range(self.n_attempts):
            if attempt:
                time.sleep(self.pause_seconds * 2 ** (attempt - 1))
            try:
                return self._transfer(url, pinned, progress)
            except DownloadError:
                raise
            except urllib.error.HTTPError as error:
                error.close()
                failure = f"HTTP status {error.code}, {error.msg}"
                if error.code < 500 and error.code not in _WORTH_A_RETRY:
                    raise _refused(url, failure) from error
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", error)
                failure = str(reason) or type(error).__name__
        raise DownloadError(
            f"could not fetch {pinned.name} in {self.n_attempts} attempts",
            where=url,
            found=failure,
            wanted="a connection that lasts",
        )

    def _transfer(self, url: str, pinned: PinnedFile, progress: Progress | None) -> bytes:
        headers = {"User-Agent": "ratiorec", "Accept-Encoding": "identity"}
        request = urllib.request.Request(url, headers=headers)
        opener = urllib.request.build_opener(_WebOnlyRedirects)
        content = bytearray()
        with opener.open(request, timeout=self.timeout_seconds) as response:
            length = response.headers.get("Content-Length", "")
            announced = int(length) if length.isdigit() else None
            limit = pinned.n_bytes or self.max_bytes
            if announced is not None and not (pinned.n_bytes or 0) <= announced <= limit:
                raise pinned.mismatch(where=url, found=f"{announced:,} bytes announced")
            expected = announced or pinned.n_bytes
            while piece := response.read(_PIECE):
                content += piece
                if len(content) > limit:
                    raise pinned.mismatch(where=url, found=f"more than {limit:,} bytes")
                if progress is not None:
                    progress(pinned.name, len(content), expected)
        if len(content) < (expected or 0):
            raise OSError(f"the connection closed after {len(content):,} of {expected:,} bytes")
        return bytes(content)


class _WebOnlyRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects to http and https only; urllib alone would follow one to ftp."""

    def redirect_request(
        self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in ("http", "https"):
            fp.close()
            raise _refused(req.full_url, f"a redirect to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def require_web_address(url: str, *, where: str) -> None:
    """Refuse a URL that is not http or https, such as a file on this machine."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(
            "not a web address", where=where, found=url, wanted="http://… or https://…"
        )


def _refused(url: str, answer: str) -> DownloadError:
    return DownloadError(
        "the server does not give the file", where=url, found=answer, wanted="the file itself"
    )


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
                    content = member.read((pinned.n_bytes or _MAX_BYTES) + 1)
                if fault := pinned.fault_in(content):
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
