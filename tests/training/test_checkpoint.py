from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from ratiorec.errors import CheckpointError, StorageError
from ratiorec.training.checkpoint import FILE, FORMAT, Checkpoints, FitState

IDENTITY = {"seed": 3, "settings": {"training": {"epochs": 2}}}
ARRAYS = {"parameter.table": np.arange(6.0).reshape(2, 3), "best.users": np.ones(1)}
PROGRESS = FitState(
    identity=IDENTITY,
    phase="search",
    position={"epoch": 1, "step_in_epoch": 2, "epoch_start": {"state": 2**127 + 1}},
    history=[{"epoch": 1, "risk": 0.1 + 0.2}],
    best={"step": 3, "metrics": {"ndcg@20": 1 / 3}},
    epoch_risk=-1 / 7,
    stale=1,
    seconds=0.7,
)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "run")


def refusal(checkpoints: Checkpoints, identity: dict[str, Any] = IDENTITY) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        checkpoints.read(identity)
    assert caught.value.where == str(checkpoints.folder / FILE)
    assert "without --resume training starts anew" in caught.value.wanted
    return caught.value


def write_header(checkpoints: Checkpoints, header: Any) -> None:
    checkpoints.folder.mkdir()
    content = save(ARRAYS, metadata={"ratiorec": json.dumps(header)})
    (checkpoints.folder / FILE).write_bytes(content)


def test_what_is_read_is_what_was_written_to_the_last_bit(checkpoints: Checkpoints) -> None:
    checkpoints.write(PROGRESS, ARRAYS)
    found = checkpoints.read(IDENTITY)
    assert found is not None
    progress, arrays = found
    assert progress == PROGRESS
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


def test_a_second_checkpoint_takes_the_place_of_the_first(checkpoints: Checkpoints) -> None:
    checkpoints.write(PROGRESS, {"old": np.zeros(2)})
    checkpoints.write(PROGRESS, ARRAYS)
    found = checkpoints.read(IDENTITY)
    assert found is not None
    assert found[1].keys() == ARRAYS.keys()
    assert [file.name for file in checkpoints.folder.iterdir()] == [FILE]


def test_where_there_is_none_nothing_is_read(checkpoints: Checkpoints) -> None:
    assert checkpoints.read(IDENTITY) is None
    assert not checkpoints.folder.exists()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_checkpoint_that_is_cut_short_is_refused(checkpoints: Checkpoints, share: float) -> None:
    checkpoints.write(PROGRESS, ARRAYS)
    file = checkpoints.folder / FILE
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    assert refusal(checkpoints).what == "the checkpoint cannot be read"


@pytest.mark.parametrize("content", [b"garbage", b"\x00" * 400, b"\xff" * 400, b"{}"])
def test_garbage_is_refused(checkpoints: Checkpoints, content: bytes) -> None:
    checkpoints.folder.mkdir()
    (checkpoints.folder / FILE).write_bytes(content)
    assert refusal(checkpoints).what == "the checkpoint cannot be read"


def test_tensors_of_another_program_are_refused(checkpoints: Checkpoints) -> None:
    checkpoints.folder.mkdir()
    (checkpoints.folder / FILE).write_bytes(save(ARRAYS))
    assert refusal(checkpoints).what == "the checkpoint cannot be read"


@pytest.mark.parametrize("header", [7, "text", [1, 2], None])
def test_a_header_of_another_shape_is_refused(checkpoints: Checkpoints, header: Any) -> None:
    write_header(checkpoints, header)
    assert refusal(checkpoints).what == "the checkpoint cannot be read"


@pytest.mark.parametrize(
    "header",
    [{}, {"format": FORMAT}, {"format": FORMAT, "seconds": 1.0}, {"format": FORMAT + 1}],
)
def test_another_format_is_refused(checkpoints: Checkpoints, header: dict[str, Any]) -> None:
    write_header(checkpoints, header)
    assert refusal(checkpoints).what == "the checkpoint has another format"


def test_a_folder_in_place_of_the_file_is_refused(checkpoints: Checkpoints) -> None:
    (checkpoints.folder / FILE).mkdir(parents=True)
    assert refusal(checkpoints).what == "the checkpoint cannot be read"


def test_a_checkpoint_of_another_run_says_what_differs(checkpoints: Checkpoints) -> None:
    checkpoints.write(PROGRESS, ARRAYS)
    error = refusal(checkpoints, {**IDENTITY, "seed": 4})
    assert error.what == "the checkpoint belongs to another run: seed differ"
    assert error.found == "seed = 3"
    assert error.wanted.startswith("seed = 4")


def test_of_settings_that_differ_only_the_first_that_does_is_shown(
    checkpoints: Checkpoints,
) -> None:
    ours, theirs = ({"settings": {"loss": {"bound": b, "link": "exp"}}} for b in (70, 50))
    checkpoints.write(FitState(theirs, "train", {}, [], None, 0.0, 0, 0.0), ARRAYS)
    error = refusal(checkpoints, ours)
    assert error.what == "the checkpoint belongs to another run: settings differ"
    assert error.found == "settings.loss.bound = 50"
    assert error.wanted.startswith("settings.loss.bound = 70; ")


def test_a_tuple_in_the_identity_is_the_list_that_json_makes_of_it(
    checkpoints: Checkpoints,
) -> None:
    identity = {"ks": (1, 2)}
    checkpoints.write(FitState(identity, "train", {}, [], None, 0.0, 0, 0.0), ARRAYS)
    assert checkpoints.read(identity) is not None


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        Checkpoints(tmp_path / "file" / "run").write(PROGRESS, ARRAYS)
    assert caught.value.where == str(tmp_path / "file" / "run")


def test_removing_leaves_no_trace(checkpoints: Checkpoints) -> None:
    checkpoints.write(PROGRESS, ARRAYS)
    (checkpoints.folder / f".{FILE}.0a1b.tmp").write_bytes(b"left by a killed run")
    checkpoints.remove()
    assert not checkpoints.folder.exists()


def test_removing_touches_nothing_of_anyone_else(checkpoints: Checkpoints) -> None:
    checkpoints.write(PROGRESS, ARRAYS)
    (checkpoints.folder / "thesis.txt").write_text("mine")
    (checkpoints.folder / "photos").mkdir()
    checkpoints.remove()
    assert {file.name for file in checkpoints.folder.iterdir()} == {"thesis.txt", "photos"}


def test_removing_what_is_not_there_is_no_error(checkpoints: Checkpoints) -> None:
    checkpoints.remove()
    assert not checkpoints.folder.exists()
