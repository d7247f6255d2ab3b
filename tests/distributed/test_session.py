from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.distributed.session import LOST, require_team, require_torch
from ratiorec.errors import ConfigError, MissingExtraError
from ratiorec.machine import is_restarted
from ratiorec.model.artifact import Artifact
from ratiorec.presets import PRESETS
from ratiorec.settings import AutoSettings
from support.command_line import QUICK
from support.forked_command import ForkedCommand

SECONDS = 180
LONG = ("--set", "training.epochs=6", "--validation", "0", "--checkpoint-seconds", "0")
ROWS = [f"u{user},i{item}" for user in range(60) for item in range(user % 4, 25, 1 + user % 5)]


def fit(model: Path, *more: str) -> list[str]:
    """A fit of sixty users, whose log stands beside the model."""
    log = model.with_name("log.csv")
    log.write_text("user,item\n" + "\n".join(ROWS) + "\n", encoding="utf-8")
    return ["fit", str(log), "-o", str(model), *QUICK, "--json", *more]


def torchrun(monkeypatch: pytest.MonkeyPatch, *commands: list[str]) -> list[ForkedCommand]:
    """The commands as the ranks that torchrun would start, each with its own arguments."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    n = str(len(commands))
    for name, value in {
        "TORCHELASTIC_RUN_ID": "test",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": n,
        "LOCAL_WORLD_SIZE": n,
    }.items():
        monkeypatch.setenv(name, value)
    started = []
    for rank, words in enumerate(commands):
        monkeypatch.setenv("RANK", str(rank))
        started.append(ForkedCommand(*words))
    return started


def ended(ranks: list[ForkedCommand]) -> list[tuple[int, str, str]]:
    found = []
    for rank in ranks:
        out, err = rank.communicate(SECONDS)
        assert rank.returncode is not None
        found.append((rank.returncode, out, err))
    return found


def test_ranks_of_torchrun_make_the_model_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = ForkedCommand(*fit(tmp_path / "alone"))
    out, _ = alone.communicate(SECONDS)
    expected: dict[str, Any] = json.loads(out)
    words = fit(tmp_path / "model")
    (code, out, _), *others = ended(torchrun(monkeypatch, words, words, words))
    found = json.loads(out)
    assert code == 0
    assert others == [(0, "", "")] * 2, "all but the first are silent"
    assert found["processes"]["n"] == 3
    assert found["processes"]["mb_sent"] > 0
    for name in ("preset", "steps", "epochs", "stopped_by", "validation_by"):
        assert found[name] == expected[name]
    assert found["validation"] == pytest.approx(expected["validation"], abs=5e-4)
    model, whole = Artifact.load(tmp_path / "model"), Artifact.load(tmp_path / "alone")
    assert model.users.same_as(whole.users)
    np.testing.assert_allclose(model.scorer.arrays()["users"], whole.scorer.arrays()["users"], 1e-3)
    names = {path.name for path in tmp_path.iterdir()} - {"log.csv"}
    assert names == {"alone", "alone.training.jsonl", "model", "model.training.jsonl"}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (["--set", "training.l2=0.5"], "different settings"),
        (["--seed", "1"], "different seed"),
        (["--validation", "0.2"], "different validation"),
    ],
)
def test_ranks_of_different_commands_are_refused_by_name(
    changed: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = fit(tmp_path / "model")
    first, second = ended(torchrun(monkeypatch, words, [*words, *changed]))
    assert first[:2] == (2, "")
    assert named in first[2].splitlines()[-1]
    assert "rank 1 of 2" in first[2]
    assert second == (2, "", "")
    assert not (tmp_path / "model").exists()


def test_data_that_one_rank_lacks_or_has_otherwise_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = fit(tmp_path / "model")
    (tmp_path / "other.csv").write_text("user,item\n" + "\n".join(ROWS[1:]) + "\n")

    def of(name: str) -> list[str]:
        return [command[0], str(tmp_path / name), *command[2:]]

    first, second = ended(torchrun(monkeypatch, of("log.csv"), of("none.csv")))
    assert (first[0], second) == (2, (2, "", ""))
    assert "none.csv, on rank 1 of 2" in first[2]
    first, second = ended(torchrun(monkeypatch, of("log.csv"), of("other.csv")))
    assert (first[0], second) == (2, (2, "", ""))
    assert "different data" in first[2]


def test_a_lost_rank_ends_the_others_and_a_restart_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = fit(tmp_path / "model", *LONG)
    ranks = torchrun(monkeypatch, words, words)
    current = tmp_path / "model.checkpoint" / "current.json"
    deadline = time.monotonic() + SECONDS
    while not current.exists():
        assert time.monotonic() < deadline
        assert ranks[0].poll() is None, ranks[0].said()
        time.sleep(0.01)
    ranks[1].kill()
    (code, _, err), _ = ended(ranks)
    assert code == LOST
    assert "another process of this training is gone" in err.splitlines()[-1]
    assert current.exists()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # as torchrun --max-restarts says
    (code, out, err), _ = ended(torchrun(monkeypatch, words, words))
    assert code == 0, err
    assert json.loads(out)["epochs"] == 6
    log = (tmp_path / "model.training.jsonl").read_text().splitlines()
    epochs = [json.loads(line)["epoch"] for line in log]
    assert epochs == list(range(1, 7)), "none is missing, and none is there twice"
    assert not current.parent.exists()


def test_workers_start_by_themselves_and_survive_the_loss_of_one(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id,price\ni1,2.5\ni3,4\n")
    more = (*LONG, "--workers", "2", "--items", str(tmp_path / "items.csv"))
    command = fit(tmp_path / "model", *more)
    started = subprocess.Popen(
        [sys.executable, "-m", "ratiorec", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    current = tmp_path / "model.checkpoint" / "current.json"
    deadline = time.monotonic() + SECONDS
    while not current.exists():
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.01)
    os.kill(_children(started.pid)[-1], signal.SIGKILL)
    out, err = started.communicate(timeout=SECONDS)
    assert started.returncode == 0, err
    assert json.loads(out)["processes"]["n"] == 2
    assert "start again from the last checkpoint (1 of 3 times)" in err
    model = Artifact.load(tmp_path / "model")
    assert model.card["epochs"] == 6
    assert json.loads(out)["items"]["known"] == 2
    assert model.item_table.row(model.items.indices(["i3"])[0]) == {"price": 4}


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        fields = status.read_text().rpartition(")")[2].split()
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return sorted(found)


def test_a_wrong_command_starts_no_process(tmp_path: Path) -> None:
    for preset, named in (("auto", "AutoSettings"), ("wmf", "wmf"), ("lightgcn", "bpr")):
        words = ["fit", "synthetic", "-o", str(tmp_path / "m"), "--preset", preset]
        wrong = ForkedCommand(*words, "--workers", "2")
        _, err = wrong.communicate(SECONDS)
        assert wrong.returncode == 2
        assert f"found: {named}" in err
    wrong = ForkedCommand(*words[:4], "--items", str(tmp_path / "none.csv"), "--workers", "2")
    assert "no such file" in wrong.communicate(SECONDS)[1]
    assert wrong.returncode == 2


def test_a_torch_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    require_torch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"wanted: torch 2\.8 or newer"):
        require_torch()


def test_every_preset_is_trained_together_or_refused_by_name() -> None:
    together, refused = set(), set()
    for name, settings in [*PRESETS.items(), ("auto", AutoSettings())]:
        try:
            require_team(settings)
            together.add(name)
        except ConfigError:
            refused.add(name)
    assert together >= {"dregn-cf", "softmax", "dre-mf", "walk", "ease", "dan", "local-ease"}
    assert refused >= {"auto", "lightgcn", "mult-vae", "dregn-cf-fast", "dregn-cf-static", "wmf"}


def test_only_torchrun_says_that_a_process_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert not is_restarted()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("RANK", "0")
    assert is_restarted()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert not is_restarted()
