from __future__ import annotations

import importlib.metadata
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ratiorec
from ratiorec import machine


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own in which the module seems to lie."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.delenv("RATIOREC_COMMIT", raising=False)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "machine.py").write_text("one = 1\n")
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "machine.py"))
    return tmp_path


def test_the_machine_is_described_in_plain_words() -> None:
    found = machine.describe_machine("cpu")
    assert found["device"] == "cpu"
    assert found["cores"] >= 1
    assert found["memory_gib"] is None or found["memory_gib"] > 0
    assert found["processor"] is not None
    assert "accelerator" not in found


def test_the_versions_are_those_installed() -> None:
    found = machine.versions()
    assert found["ratiorec"] == ratiorec.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["torch"] == importlib.metadata.version("torch")


def test_a_package_that_is_not_installed_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert machine.versions()["scipy"] == "not installed"


def test_where_the_system_does_not_tell_its_peak_memory_a_fit_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert machine.peak_memory_mb() > 1
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert machine.peak_memory_mb() == 0


def test_the_commit_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATIOREC_COMMIT", "given")
    assert machine.commit() == "given"


def test_the_commit_is_that_of_the_source_tree(tree: Path) -> None:
    git(tree, "add", "machine.py")
    git(tree, "commit", "--quiet", "-m", "one")
    head = git(tree, "rev-parse", "HEAD")
    assert machine.commit() == head
    (tree / "notes.txt").write_text("not tracked")
    assert machine.commit() == head
    (tree / "machine.py").write_text("one = 2\n")
    assert machine.commit() == f"{head}-modified"


def test_to_ask_for_the_commit_writes_nothing_to_the_repository(tree: Path) -> None:
    git(tree, "add", "machine.py")
    git(tree, "commit", "--quiet", "-m", "one")
    os.utime(tree / "machine.py", (1, 1))  # for which git would renew its index
    index = (tree / ".git" / "index").read_bytes()
    assert machine.commit() is not None
    assert (tree / ".git" / "index").read_bytes() == index


def test_a_package_inside_a_repository_of_someone_else_has_no_commit(tree: Path) -> None:
    (tree / "theirs.py").write_text("")
    git(tree, "add", "theirs.py")
    git(tree, "commit", "--quiet", "-m", "theirs")
    assert machine.commit() is None


def test_without_git_there_is_no_commit(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert machine.commit() is None


def test_peak_memory_is_in_megabytes() -> None:
    before = machine.peak_memory_mb()
    held = bytearray(64 * 2**20)
    held[::4096] = bytes(len(held[::4096]))
    assert 10 < before <= machine.peak_memory_mb() < 2**20
    assert machine.peak_memory_mb() >= 64


def test_a_gpu_is_named_and_bounds_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever torch says of the GPU, as far as a machine without one can tell."""
    import torch

    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"a GPU at {device}")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**33))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("emptied"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", calls.append)
    assert machine.describe_machine("cuda:1")["accelerator"] == "a GPU at cuda:1"
    assert machine.available_memory_mb("cuda:1") == pytest.approx(0.9 * 2**10)
    machine.release_memory("cuda:1")
    assert calls == ["emptied", "emptied", "cuda:1"]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_limit_of_the_process_is_counted_as_memory_that_is_not_there() -> None:
    program = """
import resource
from pathlib import Path
from ratiorec.machine import available_memory_mb
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 100 * 2**20,) * 2)
print(available_memory_mb("cpu"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert 0 < float(done.stdout) <= 90, done.stderr


@pytest.mark.parametrize(
    ("folder", "limit", "taken"),
    [
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_the_limit_of_a_container_bounds_the_memory(
    folder: str, limit: str, taken: str, tmp_path: Path
) -> None:
    assert math.isinf(machine._container_bytes_left(tmp_path))
    (tmp_path / folder).mkdir(exist_ok=True)
    files = {limit: "1000\n", taken: "700\n", "memory.stat": "anon 600\ninactive_file 90\n"}
    for name, text in files.items():
        (tmp_path / folder / name).write_text(text)
    assert machine._container_bytes_left(tmp_path) == 390
    (tmp_path / folder / limit).write_text("max\n")
    assert math.isinf(machine._container_bytes_left(tmp_path))
