from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ratiorec.errors import DownloadError, StorageError
from ratiorec.files import LOCK, atomic_write, open_regular, sha256_of, sole_writer, write_json

# A limit on the size of any file is a disk that fills up, without needing one: the system call
# really fails half-way (EFBIG in place of ENOSPC). It holds for a whole process, hence a child.
FULL_DISK = """
import resource, sys
from ratiorec.errors import StorageError
from ratiorec.files import atomic_write

resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    with atomic_write(sys.argv[1]) as handle:
        for _ in range(100):
            handle.write(b"x" * 1000)
except StorageError as error:
    print(error.found)
"""


def only_file_in(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_what_is_written_stands_under_its_name_alone(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a.bin") as handle:
        handle.write(b"new")
    assert only_file_in(tmp_path).name == "a.bin"
    assert (tmp_path / "a.bin").read_bytes() == b"new"


def test_the_old_file_stands_until_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with atomic_write(target) as handle:
        handle.write(b"new")
        handle.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, exception: type[BaseException]
) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")

    def write_half() -> None:
        with atomic_write(target) as handle:
            handle.write(b"half of the n")
            raise exception

    with pytest.raises(exception):
        write_half()
    assert only_file_in(tmp_path) == target
    assert target.read_bytes() == b"old"


def test_the_temporary_file_lies_in_the_same_folder(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a.bin") as handle:
        assert Path(handle.name).parent == tmp_path


def test_two_writers_of_one_path_do_not_share_a_temporary_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as first, atomic_write(tmp_path / "a") as second:
        first.write(b"first")
        second.write(b"second")
    assert (tmp_path / "a").read_bytes() == b"first"  # the one that ended last


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind on Windows")
def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    (tmp_path / ".a.0123456789ab.tmp").write_bytes(b"half")
    (tmp_path / ".a.txt.0123456789ab.tmp").write_bytes(b"of another file")
    with atomic_write(tmp_path / "a") as handle:
        handle.write(b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a", ".a.txt.0123456789ab.tmp"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="file size limits are a Unix feature")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    child = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(target)], capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == "File too large"
    assert only_file_in(tmp_path) == target
    assert target.read_bytes() == b"old"


def test_a_missing_folder_is_told_in_four_parts(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "a.bin"
    with pytest.raises(StorageError) as caught, atomic_write(target):
        pytest.fail("the block must not begin")
    assert caught.value.where == str(target)
    assert caught.value.found == "No such file or directory"
    assert "folder that exists" in caught.value.wanted


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_folder_without_permission_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="Permission denied"), atomic_write(tmp_path / "a"):
            pytest.fail("the block must not begin")
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_in_the_way_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="found: a folder"), atomic_write(tmp_path):
        pytest.fail("the block must not begin")


@pytest.mark.skipif(not Path(os.devnull).is_char_device(), reason="no device files here")
def test_a_device_is_never_replaced() -> None:
    with pytest.raises(StorageError, match="a device or pipe"), atomic_write(os.devnull):
        pytest.fail("the block must not begin")
    assert Path(os.devnull).is_char_device()


def test_an_error_of_ours_passes_through_unchanged(tmp_path: Path) -> None:
    ours = DownloadError("cut", where="a", found="b", wanted="c")
    with pytest.raises(DownloadError) as caught, atomic_write(tmp_path / "a.bin"):
        raise ours
    assert caught.value is ours
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a.bin")
    with atomic_write(tmp_path / "link") as handle:
        handle.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a.bin").read_bytes() == b"new"


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with atomic_write(tmp_path / "ours"):
        pass
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_json_keeps_order_letters_and_ends_with_a_newline(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": "Müller", "a": [1]})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert text == '{\n  "b": "Müller",\n  "a": [\n    1\n  ]\n}\n'
    assert json.loads(text) == {"b": "Müller", "a": [1]}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_refuses_what_json_cannot_say(tmp_path: Path, value: float) -> None:
    (tmp_path / "a.json").write_text("old")
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"recall": value})
    assert only_file_in(tmp_path).read_text() == "old"


def test_sha256_is_that_of_the_whole_file(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096  # one MiB, more than one piece
    (tmp_path / "a").write_bytes(content)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(content).hexdigest()


# --- one writer at a time --------------------------------------------------------------------

HOLDER = """
import sys
from ratiorec.files import sole_writer
with sole_writer(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Inside, another process writes to the folder until its standard input ends."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


locks = pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind on Windows")


@locks
def test_a_second_writer_is_told_who_the_first_is_and_waits(tmp_path: Path) -> None:
    said = []
    with held_by_another(tmp_path) as other:
        assert other.stdin is not None

        def told(line: str) -> None:
            said.append(line)
            other.stdin.close()  # and now the other ends

        with sole_writer(tmp_path, told) as is_certain:
            assert is_certain
            assert other.wait(30) == 0
    assert said[0].startswith(f"waiting for another command that writes to {tmp_path} (process ")
    assert f"(process {other.pid}, since 20" in said[0]
    assert list(tmp_path.iterdir()) == []


@locks
def test_the_lock_of_a_killed_process_holds_nobody(tmp_path: Path) -> None:
    with held_by_another(tmp_path) as other:
        other.kill()
        other.wait()
    assert (tmp_path / LOCK).exists()
    with sole_writer(tmp_path, pytest.fail) as is_certain:
        assert is_certain
    assert list(tmp_path.iterdir()) == []


@locks
@pytest.mark.parametrize("content", [b"", b"7", b"9" * 90 + b" " + b"9" * 9, b"one two", b"\xff"])
def test_a_lock_that_says_nothing_sensible_is_waited_for_all_the_same(
    tmp_path: Path, content: bytes
) -> None:
    said = []
    with held_by_another(tmp_path) as other:
        (tmp_path / LOCK).write_bytes(content)

        def told(line: str) -> None:
            said.append(line)
            other.kill()

        with sole_writer(tmp_path, told):
            assert said[0].endswith("(process unknown)")


@locks
def test_an_error_of_the_block_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), sole_writer(tmp_path):
        raise BrokenPipeError
    assert list(tmp_path.iterdir()) == []


@locks
def test_whoever_holds_a_folder_may_ask_again_by_another_spelling(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model")
    (tmp_path / "other").mkdir()
    with (
        sole_writer(tmp_path / "model"),
        sole_writer(tmp_path / "other"),
        sole_writer(tmp_path / "link", pytest.fail),
    ):
        assert (tmp_path / "model" / LOCK).exists()


@locks
def test_another_thread_waits(tmp_path: Path) -> None:
    waits, order = threading.Event(), []

    def write() -> None:
        with sole_writer(tmp_path, lambda _: waits.set()):
            order.append("second")

    thread = threading.Thread(target=write)
    with sole_writer(tmp_path):
        thread.start()
        assert waits.wait(30)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


@locks
def test_many_writers_never_meet(tmp_path: Path) -> None:
    """The file of the lock goes with each writer, while others have it open and wait."""
    inside, most = [], []

    def write() -> None:
        for _ in range(50):
            with sole_writer(tmp_path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) == 200
    assert list(tmp_path.iterdir()) == []


@locks
def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match="could not lock"), sole_writer(tmp_path / "model"):
        pytest.fail("the block must not begin")
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
def test_only_plain_files_are_opened_and_nobody_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="in place of a plain file"):
            open_regular(path)
    (tmp_path / "plain").write_bytes(b"1")
    (tmp_path / "link").symlink_to("plain")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"1"
