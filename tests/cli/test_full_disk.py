"""A disk that fills up: what stood before still stands, and nothing half-written is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ratiorec.model.artifact import Artifact
from ratiorec.training.checkpoint import FILE
from support.command_line import QUICK, CommandLine, everything_in, full_disk

pytest.importorskip("resource", reason="no limits of file sizes on this system")

WIDE = (*QUICK, "--set", "encoder.dimension=64")  # 60 users and 40 items: 25 kB of factors


def test_a_model_that_does_not_fit_leaves_no_folder(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    with full_disk(16_000):
        outcome = cli("fit", clicks, "-o", "model", *WIDE)
    assert "could not write the file" in outcome.refusal
    assert {path.name for path in tmp_path.iterdir()} == {"clicks.csv", "model.training.jsonl"}


def test_a_model_that_does_not_fit_leaves_the_old_one(
    cli: CommandLine, clicks: Path, model: Path
) -> None:
    before = everything_in(model)
    with full_disk(16_000):
        outcome = cli("fit", clicks, "-o", model, *WIDE)
    assert outcome.code == 2
    assert everything_in(model) == before
    assert len(Artifact.load(model).users) == 60


def test_a_model_that_did_not_fit_is_saved_by_resuming(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    options = ("--checkpoint-seconds", "0")
    with full_disk(16_000):
        assert (
            cli("fit", clicks, "-o", "model", *QUICK, *options, "--record", "no/r.json").code == 2
        )
    assert (tmp_path / "model").is_dir()
    assert (tmp_path / "model.checkpoint" / FILE).is_file()
    assert cli("fit", clicks, "-o", "model", *QUICK, "--resume").code == 0
    assert not (tmp_path / "model.checkpoint").exists()


def test_a_checkpoint_that_does_not_fit_leaves_none(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    with full_disk(16_000):
        outcome = cli("fit", clicks, "-o", "model", *WIDE, "--checkpoint-seconds", "0")
    assert f"model.checkpoint/{FILE}" in outcome.refusal
    assert {path.name for path in tmp_path.iterdir()} == {"clicks.csv"}


def test_a_checkpoint_that_does_not_fit_leaves_the_old_one(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.checkpoint").mkdir()
    (tmp_path / "model.checkpoint" / FILE).write_bytes(b"of an earlier run")
    with full_disk(16_000):
        assert cli("fit", clicks, "-o", "model", *WIDE, "--checkpoint-seconds", "0").code == 2
    assert everything_in(tmp_path / "model.checkpoint") == {FILE: b"of an earlier run"}


def test_a_log_that_does_not_fit_has_no_half_line(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    with full_disk(250):
        outcome = cli("fit", clicks, "-o", "model", *QUICK)
    assert "the training log cannot be written" in outcome.refusal
    log = (tmp_path / "model.training.jsonl").read_text()
    assert log.count("\n") == 1
    assert log.endswith("}\n")


@pytest.mark.parametrize("old", [None, b"what stood there before"])
def test_lists_that_do_not_fit_leave_the_old_file_or_none(
    cli: CommandLine, model: Path, tmp_path: Path, old: bytes | None
) -> None:
    if old is not None:
        (tmp_path / "lists.parquet").write_bytes(old)
    before = everything_in(tmp_path)
    with full_disk(500):
        outcome = cli("recommend", model, "--all", "-o", "lists.parquet")
    assert "could not write the file" in outcome.refusal
    assert "where: lists.parquet" in outcome.refusal
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("file", ["users.parquet", "users.csv"])
def test_figures_that_do_not_fit_leave_no_file(
    cli: CommandLine, model: Path, held_out: Path, tmp_path: Path, file: str
) -> None:
    before = everything_in(tmp_path)
    with full_disk(500):
        outcome = cli("evaluate", model, "--test", held_out, "--per-user", file)
    assert "could not write the file" in outcome.refusal
    assert everything_in(tmp_path) == before


def test_parts_that_do_not_fit_leave_no_file(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    with full_disk(500):
        outcome = cli("data", "split", clicks, "-o", "parts")
    assert "could not write the file" in outcome.refusal
    assert everything_in(tmp_path / "parts") == {}


def test_a_limit_set_by_the_shell_is_met_in_the_same_way(model: Path, tmp_path: Path) -> None:
    before = everything_in(tmp_path)
    command = f'ulimit -f 1; exec "{sys.executable}" -m ratiorec.cli "$@"'
    arguments = ("recommend", str(model), "--all", "-o", str(tmp_path / "lists.parquet"))
    done = subprocess.run(
        ["bash", "-c", command, "bash", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ratiorec: could not write the file")
    assert done.stderr.count("\n") == 1
    assert everything_in(tmp_path) == before
