from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ratiorec.distributed.checkpoint import SharedCheckpoints
from ratiorec.training.checkpoint import CURRENT, FitState
from ratiorec_lab.studies.kill_ranks import (
    Tally,
    Training,
    fault_of_checkpoint,
    like,
)
from support.rank_processes import on_ranks

PROGRESS = FitState({}, "train", {"epoch": 3}, [], None, 0.0, 0, 1.0)


@pytest.fixture
def training(tmp_path: Path) -> Training:
    """Two ranks have written a checkpoint of ten users and seven items."""
    found = Training(tmp_path, n_epochs=1)

    def write(ranks: object) -> None:
        shared = SharedCheckpoints(found.checkpoint, ranks, n_users=10, n_items=7)  # type: ignore[arg-type]
        own = [shared.ranks.rows(n) for n in (10, 7)]
        tables = [np.ones((rows.stop - rows.start, 2), np.float32) for rows in own]
        shared.write(PROGRESS, {"parameter.users": tables[0], "parameter.items": tables[1]})

    on_ranks(2, write)
    return found


def shards(training: Training) -> list[Path]:
    return sorted(training.checkpoint.glob("*/*.safetensors"))


def test_a_whole_checkpoint_has_no_fault(training: Training) -> None:
    assert len(shards(training)) == 2
    assert fault_of_checkpoint(training) == ""


def test_a_shard_that_is_cut_short_or_gone_is_a_fault(training: Training) -> None:
    first, second = shards(training)
    whole = second.read_bytes()
    second.write_bytes(whole[:-3])
    assert fault_of_checkpoint(training)
    second.unlink()
    assert fault_of_checkpoint(training)
    second.write_bytes(whole)
    assert fault_of_checkpoint(training) == ""
    (first.parent / "state.json").write_text("{")
    assert fault_of_checkpoint(training)


def test_no_checkpoint_is_no_fault(training: Training) -> None:
    (training.checkpoint / CURRENT).unlink()
    assert fault_of_checkpoint(training) is None


def test_models_are_compared_number_by_number_and_by_their_lists() -> None:
    expected = {"users": np.array([1.0, 2.0])}, 0.25
    tally = Tally()
    tally.compare(({"users": np.array([1.0, 2.0])}, 0.25), expected)
    assert (tally.equal_to_the_bit, tally.is_good) == (1, True)
    tally.compare(({"users": np.array([1.0, 2.5])}, 0.2504), expected)
    assert (tally.rounds, tally.equal_to_the_bit, tally.largest_difference) == (2, 1, 0.5)
    assert tally.is_good  # its lists are as good
    tally.compare(({"users": np.array([1.0, 2.5])}, 0.2506), expected)
    assert not tally.is_good
    assert not Tally(left_over=["model.checkpoint"]).is_good
    assert not Tally(half_written=["a shard"]).is_good


def test_files_that_an_undisturbed_training_leaves_are_expected() -> None:
    expected = ["model", "model/model.json", "model/arrays-1a.safetensors"]
    assert like("model/arrays-2b.safetensors", expected)
    assert like("model/model.json", expected)
    assert not like("model.checkpoint/train-1/state.json", expected)
