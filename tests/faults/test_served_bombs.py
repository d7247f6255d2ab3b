"""Models that would take all memory or all time, handed to a real server."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from ratiorec.model.artifact import Artifact
from support.serve_process import PATIENCE, Load, ServerProcess, running
from support.small_models import small_model

if sys.platform != "linux":
    pytest.skip("needs /proc, pipes with a name and sparse files", allow_module_level=True)


def arrays_of(folder: Path) -> Path:
    (file,) = folder.glob("arrays-*.safetensors")
    return file


def claims_text_of_any_length(folder: Path) -> None:
    """Hashes that fit, and places of texts that take no byte but claim to be 2²⁷."""
    file = arrays_of(folder)
    arrays = load(file.read_bytes())
    for name in [name for name in arrays if name.endswith((".text", ".offsets"))]:
        arrays[name] = np.empty((2**27, 0), np.int64)
    blob = save(arrays)
    sha256 = hashlib.sha256(blob).hexdigest()
    header = json.loads((folder / "model.json").read_text())
    header["arrays"] = {
        "file": f"arrays-{sha256[:16]}.safetensors",
        "size": len(blob),
        "sha256": sha256,
    }
    del header["checksum"]
    told = json.dumps(header, sort_keys=True).encode()
    header["checksum"] = hashlib.sha256(told).hexdigest()
    file.unlink()
    (folder / header["arrays"]["file"]).write_bytes(blob)
    (folder / "model.json").write_text(json.dumps(header))


def has_no_end(folder: Path) -> None:
    file = arrays_of(folder)
    file.unlink()
    file.symlink_to("/dev/zero")


def never_begins(folder: Path) -> None:
    (folder / "model.json").unlink()
    os.mkfifo(folder / "model.json")


def is_larger_than_any_memory(folder: Path) -> None:
    with arrays_of(folder).open("wb") as file:
        file.truncate(2**40)


BOMBS = [claims_text_of_any_length, has_no_end, never_begins, is_larger_than_any_memory]


def peak_mb(server: ServerProcess) -> float:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return peak / 2**10


def refusals(server: ServerProcess) -> list[object]:
    return list(server.events("model refused"))


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_server_refuses_it_while_it_answers_and_takes_the_next_model(
    tmp_path: Path, bomb: Callable[[Path], None]
) -> None:
    served, link = tmp_path / "served", tmp_path / "current"
    small_model(0).save(served)
    small_model(1).save(tmp_path / "bomb")
    bomb(tmp_path / "bomb")
    small_model(2).save(tmp_path / "next")
    link.symlink_to(served)

    def switch(name: str) -> None:
        (tmp_path / "other").symlink_to(tmp_path / name)
        (tmp_path / "other").rename(link)

    with running(link, tmp_path / "log", "--watch-seconds", "0.05") as server:
        first, load = server.version, Load(server, "/v1/recommend/user1?k=3", n_clients=2)
        with load.going():
            load.wait_for(50)
            before = peak_mb(server)
            switch("bomb")
            end = time.monotonic() + PATIENCE
            while not refusals(server) and time.monotonic() < end:
                load.wait_for(1)  # none may fail, or take longer than the client waits
            load.wait_for(50)
            grown = peak_mb(server) - before
            assert load.versions == {first}
            switch("next")
            while load.versions == {first} and time.monotonic() < end + PATIENCE:
                load.wait_for(1)
    assert load.failures == []
    assert len(refusals(server)) == 1
    assert len(load.versions) == 2
    assert grown < 100, f"{grown:.0f} MB"


def test_the_bombs_are_made_of_models_that_would_be_served(tmp_path: Path) -> None:
    small_model(1).save(tmp_path / "model")
    for bomb in BOMBS:
        shutil.copytree(tmp_path / "model", tmp_path / bomb.__name__)
        bomb(tmp_path / bomb.__name__)
    assert len(Artifact.load(tmp_path / "model").users) == 20
