from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.download import HttpDownload
from ratiorec.data.registry import PinnedFile
from ratiorec.errors import ConfigError, DownloadError, StorageError
from support.file_server import FileServer, serving

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
ALTERED = CONTENT[:150_000] + bytes([CONTENT[150_000] ^ 1]) + CONTENT[150_001:]
HURRIED = HttpDownload(n_attempts=3, timeout_seconds=5, pause_seconds=0)


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


SHA256 = hashlib.sha256(CONTENT).hexdigest()
PINNED = PinnedFile("a.txt", SHA256, len(CONTENT))
PINNED_BY_GIT = PinnedFile("a.txt", git_blob=blob_id(CONTENT))  # and its size is not known


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({"/a.txt": CONTENT}) as state:
        yield state


def test_a_git_blob_id_is_what_git_calls_the_file() -> None:
    # `printf 'hello\n' | git hash-object --stdin`
    pinned = PinnedFile("a.txt", git_blob="ce013625030ba8dba906f756967f9e9ca394464a")
    assert pinned.fault_in(b"hello\n") is None
    assert pinned.fault_in(b"hello") == f"git blob id {blob_id(b'hello')}"


def test_a_good_file_lands_alone(server: FileServer, tmp_path: Path) -> None:
    HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_progress_rises_to_the_whole(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    HURRIED(
        f"{server.url}/a.txt",
        tmp_path / "a.txt",
        pinned=PINNED_BY_GIT,
        progress=lambda *news: told.append(news),
    )
    sizes = [size for _, size, _ in told]
    assert sizes == sorted(sizes)
    assert told[-1] == ("a.txt", len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("pinned", [PINNED, PINNED_BY_GIT], ids=["size known", "size not"])
@pytest.mark.parametrize("content", [ALTERED, CONTENT[:-1], CONTENT + b"\n", b""])
@pytest.mark.parametrize("tells_length", [True, False])
def test_a_cut_or_altered_file_never_lands(
    server: FileServer, tmp_path: Path, content: bytes, pinned: PinnedFile, tells_length: bool
) -> None:
    server.files["/a.txt"] = content
    server.tells_length = tells_length
    (tmp_path / "a.txt").write_bytes(b"old")
    with pytest.raises(DownloadError):
        HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=pinned)
    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_altered_file_is_told_in_four_parts_and_asked_for_once(
    server: FileServer, tmp_path: Path
) -> None:
    server.files["/a.txt"] = ALTERED
    with pytest.raises(DownloadError) as caught:
        HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert caught.value.what == "a.txt is cut or altered, and was not kept"
    assert caught.value.where == f"{server.url}/a.txt"
    assert caught.value.found == f"sha256 {hashlib.sha256(ALTERED).hexdigest()}"
    assert caught.value.wanted == f"300,000 bytes, sha256 {SHA256}"
    assert len(server.requests) == 1


def test_a_cut_file_is_refused_before_it_is_read(server: FileServer, tmp_path: Path) -> None:
    server.files["/a.txt"] = CONTENT[:200_000]
    with pytest.raises(DownloadError, match="found: 200,000 bytes announced"):
        HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_body_that_is_too_large_stops_early(
    server: FileServer, tmp_path: Path, tells_length: bool
) -> None:
    server.files["/a.txt"] = CONTENT * 100  # 30 MB, more than sockets hold
    server.tells_length = tells_length
    with pytest.raises(DownloadError, match=r"bytes announced|more than 300,000 bytes"):
        HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert server.n_bytes_sent < len(CONTENT) * 50


def test_a_body_of_unknown_size_has_a_limit_too(server: FileServer, tmp_path: Path) -> None:
    server.tells_length = False
    limited = HttpDownload(n_attempts=1, max_bytes=100_000)
    with pytest.raises(DownloadError, match="more than 100,000 bytes"):
        limited(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED_BY_GIT)


def test_a_connection_closed_half_way_is_tried_again(server: FileServer, tmp_path: Path) -> None:
    server.hang_up_after = [131_072, 65_536]
    HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_a_connection_that_never_lasts_is_given_up(server: FileServer, tmp_path: Path) -> None:
    server.hang_up_after = [65_536] * 3
    with pytest.raises(DownloadError) as caught:
        HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert "in 3 attempts" in caught.value.what
    assert caught.value.found == "the connection closed after 65,536 of 300,000 bytes"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_asked_for_once(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="found: HTTP status 404, Not Found"):
        HURRIED(f"{server.url}/b.txt", tmp_path / "b.txt", pinned=PINNED)
    assert len(server.requests) == 1


def test_a_server_that_is_busy_is_asked_again(server: FileServer, tmp_path: Path) -> None:
    server.statuses = [503, 429]
    HURRIED(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert (tmp_path / "a.txt").read_bytes() == CONTENT


def test_pauses_between_attempts_double(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("ratiorec.data.download.time.sleep", pauses.append)
    server.statuses = [500] * 4
    with pytest.raises(DownloadError, match="in 4 attempts"):
        HttpDownload(pause_seconds=0.5)(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)
    assert [pause for pause in pauses if pause] == [0.5, 1, 2]  # the server itself sleeps 0 s


def test_a_server_that_stalls_is_given_up(server: FileServer, tmp_path: Path) -> None:
    server.stall_seconds = 0.5
    impatient = HttpDownload(n_attempts=2, timeout_seconds=0.1, pause_seconds=0)
    with pytest.raises(DownloadError, match="found: timed out"):
        impatient(f"{server.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)


def test_a_machine_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with serving({}) as gone:
        pass
    with pytest.raises(DownloadError, match="Connection refused"):
        HURRIED(f"{gone.url}/a.txt", tmp_path / "a.txt", pinned=PINNED)


def test_a_redirect_on_the_web_is_followed(server: FileServer, tmp_path: Path) -> None:
    server.redirects["/old.txt"] = f"{server.url}/a.txt"
    HURRIED(f"{server.url}/old.txt", tmp_path / "a.txt", pinned=PINNED)
    assert (tmp_path / "a.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("scheme", ["ftp", "file", "data"])
def test_a_redirect_off_the_web_is_refused(server: FileServer, tmp_path: Path, scheme: str) -> None:
    server.redirects["/old.txt"] = f"{scheme}://127.0.0.1/etc/hostname"
    with pytest.raises(DownloadError, match=f"redirect.*{scheme}://|{scheme}://.*not allowed"):
        HURRIED(f"{server.url}/old.txt", tmp_path / "a.txt", pinned=PINNED)
    assert len(server.requests) == 1


def test_an_address_off_the_web_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(CONTENT)
    with pytest.raises(ConfigError, match="not a web address"):
        HURRIED((tmp_path / "source").as_uri(), tmp_path / "a.txt", pinned=PINNED)


def test_a_folder_that_is_not_there_is_told(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        HURRIED(f"{server.url}/a.txt", tmp_path / "nowhere" / "a.txt", pinned=PINNED)
    assert server.requests == []


FULL_DISK = """
import resource, sys
from pathlib import Path
from ratiorec.data.download import HttpDownload
from ratiorec.data.registry import PinnedFile
from ratiorec.errors import StorageError

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    HttpDownload()(sys.argv[1], Path(sys.argv[2]), pinned=PinnedFile("a.txt", sys.argv[3]))
except StorageError as error:
    print(error.found)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="file size limits are a Unix feature")
def test_a_full_disk_is_told_and_leaves_nothing_behind(server: FileServer, tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, f"{server.url}/a.txt", tmp_path / "a.txt", SHA256],
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout.strip() == "File too large"
    assert list(tmp_path.iterdir()) == []
