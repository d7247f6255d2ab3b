"""Files from the web: checked by their hash, whole or not at all."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO
from urllib.parse import urlsplit

from ratiorec.data.registry import InAWheel, PinnedFile
from ratiorec.errors import ConfigError, DownloadError, StorageError
from ratiorec.files import atomic_write, sync_folder

Progress = Callable[[str, int, int | None], None]
"""Is told the name of the file, the bytes there so far, and their final number where known."""

_PIECE = 1 << 16
_WORTH_ANOTHER_TRY = (408, 425, 429)  # and everything from 500


class _InterruptedError(Exception):
    """The transfer ended early for a reason that may pass."""


@dataclass(frozen=True)
class HttpDownload:
    """Fetch one file over HTTP into place.

    Bytes are collected in a `.part` file beside the target, from which a later call goes on
    where the server allows it. What arrives is checked before it takes its place, so a file
    that is cut or altered never lands.
    """

    n_attempts: int = 4
    timeout_seconds: float = 30.0
    pause_seconds: float = 0.5  # before the second attempt; doubled before each further one
    max_bytes: int = 1 << 28  # for files whose size is not known beforehand

    def __call__(
        self, url: str, target: Path, *, pinned: PinnedFile, progress: Progress | None = None
    ) -> None:
        require_web_address(url, where="the URL of a benchmark")
        failure = ""
        with _part_file(target) as part:
            if _size(part) and pinned.fault_in(part) is None:
                return _land(part, target)  # an earlier run ended just before the rename
            for attempt in range(self.n_attempts):
                if attempt:
                    time.sleep(self.pause_seconds * 2 ** (attempt - 1))
                try:
                    was_resumed = self._transfer(url, part, pinned, progress)
                except _InterruptedError as interruption:
                    failure = str(interruption)
                    continue
                fault = pinned.fault_in(part)
                if fault is None:
                    return _land(part, target)
                part.truncate(0)
                failure = fault
                if not was_resumed:  # else the beginning may be of another file: once more
                    raise pinned.mismatch(where=url, found=fault)
        raise DownloadError(
            f"could not fetch {pinned.name} in {self.n_attempts} attempts",
            where=url,
            found=failure,
            wanted="a connection that lasts; the same command goes on where this one stopped",
        )

    def _transfer(
        self, url: str, part: BinaryIO, pinned: PinnedFile, progress: Progress | None
    ) -> bool:
        """Append what is missing to the part; tell whether it had a beginning already."""
        start = _size(part)
        with self._open(url, start, part) as response:
            if start and not _continues(response, start):
                part.truncate(0)
                start = 0
            total = _announced(response, start)
            limit = pinned.n_bytes or self.max_bytes
            if total is not None and (total > limit or total < (pinned.n_bytes or 0)):
                part.truncate(0)
                raise pinned.mismatch(where=url, found=f"{total:,} bytes announced")
            size = start
            while piece := _piece(response):
                size += len(piece)
                if size > limit:
                    part.truncate(0)
                    raise pinned.mismatch(where=url, found=f"more than {limit:,} bytes")
                with _storing(part):
                    part.write(piece)
                    part.flush()  # so that a full disk shows here and nowhere else
                if progress is not None:
                    progress(pinned.name, size, total or pinned.n_bytes)
        expected = total or pinned.n_bytes
        if expected is not None and size < expected:
            raise _InterruptedError(f"the connection closed after {size:,} of {expected:,} bytes")
        return start > 0

    def _open(self, url: str, start: int, part: BinaryIO) -> http.client.HTTPResponse:
        headers = {"User-Agent": "ratiorec", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        request = urllib.request.Request(url, headers=headers)
        opener = urllib.request.build_opener(_WebOnlyRedirects)
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=self.timeout_seconds)
        except urllib.error.HTTPError as error:
            with error:
                answer = f"HTTP status {error.code}, {error.msg}"
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
                part.truncate(0)  # longer than the file: not a beginning of it
                raise _InterruptedError(answer) from error
            if error.code >= 500 or error.code in _WORTH_ANOTHER_TRY:
                raise _InterruptedError(answer) from error
            raise _refused(url, answer) from error
        except DownloadError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise _InterruptedError(_reason(error)) from error
        return response


class _WebOnlyRedirects(urllib.request.HTTPRedirectHandler):
    """Follow a redirect to http and https only."""

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


@contextlib.contextmanager
def _part_file(target: Path) -> Iterator[BinaryIO]:
    """The `.part` file of a target, open and ours alone; removed when nothing is in it."""
    path = target.with_name(f"{target.name}.part")
    try:
        handle = path.open("a+b")
    except OSError as error:
        raise _not_stored(path, error) from error
    with handle:
        _lock(handle, path)
        try:
            yield handle
        finally:
            if path.exists() and not path.stat().st_size:
                path.unlink()


def _lock(handle: BinaryIO, path: Path) -> None:
    """Two processes that write one part would spoil it even after one has put it into place."""
    try:
        import fcntl
    except ImportError:  # not on Unix
        return
    with contextlib.suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
            return
    raise DownloadError(
        "another process is fetching this file",
        where=str(path),
        found="a lock on it",
        wanted="to wait until the other one is done",
    )


def _land(part: BinaryIO, target: Path) -> None:
    with _storing(part):
        part.flush()
        os.fsync(part.fileno())
        Path(part.name).replace(target)
    sync_folder(target.parent)


@contextlib.contextmanager
def _storing(part: BinaryIO) -> Iterator[None]:
    """A network fault and a full disk are both OSErrors; this one is the disk."""
    try:
        yield
    except OSError as error:
        raise _not_stored(Path(part.name), error) from error


def _not_stored(path: Path, error: OSError) -> StorageError:
    return StorageError(
        "could not store the download",
        where=str(path),
        found=error.strerror or str(error),
        wanted="a folder that may be written to and has room",
    )


def _size(content: BinaryIO) -> int:
    return content.seek(0, os.SEEK_END)


def _piece(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_PIECE)
    except (OSError, http.client.HTTPException) as error:
        raise _InterruptedError(_reason(error)) from error


def _continues(response: http.client.HTTPResponse, start: int) -> bool:
    span = response.headers.get("Content-Range", "")
    return response.status == http.HTTPStatus.PARTIAL_CONTENT and span.startswith(f"bytes {start}-")


def _announced(response: http.client.HTTPResponse, start: int) -> int | None:
    """The size of the whole file as the server tells it."""
    length = response.headers.get("Content-Length", "")
    return start + int(length) if length.isdigit() else None


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    return str(reason) or type(error).__name__


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
