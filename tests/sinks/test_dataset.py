"""Folders of parts: what they hold, whose they are, and where they may lie."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ratiorec.engines import OneProcess, Spread, spread_lists
from ratiorec.errors import ConfigError, DataError, StorageError
from ratiorec.model.artifact import Artifact
from ratiorec.sinks import Dataset, Job, place_of
from support.command_line import full_disk
from support.sink_places import expected, in_parquet, small_model

MODEL = small_model()
JOB = Job.of(MODEL, MODEL.users.ids, 5)


def filled(place: str | Path, job: Job = JOB, **options: Any) -> Dataset:
    dataset = Dataset(place_of(str(place)))
    options = {"users_at_a_time": 25} | options
    spread_lists(job, Spread(dataset, OneProcess(), Path("not read")), **options)
    return dataset


@pytest.fixture(params=["path", "URI"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    folder = tmp_path / "some" / "lists"
    return str(folder) if request.param == "path" else folder.as_uri()


def test_a_folder_has_a_part_for_each_block_and_says_when_it_is_complete(
    place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "some" / "lists"
    filled(place)
    stamp = JOB.identity[:16]
    spans = ("000000000000-000000000025", "000000000025-000000000050", "000000000050-000000000060")
    names = [f"part-{span}-{stamp}.parquet" for span in spans]
    assert sorted(file.name for file in folder.iterdir()) == ["_SUCCESS", "_manifest.json", *names]
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert (manifest["identity"], manifest["blocks"]) == (JOB.identity, [0, 25, 50, 60])
    assert pq.read_table(folder).to_pylist() == MODEL.recommend(MODEL.users.ids, 5).to_dicts()


def test_a_folder_goes_on_wherever_it_lies(place: str, tmp_path: Path) -> None:
    folder, said = tmp_path / "some" / "lists", []
    filled(place)
    parts = sorted(folder.glob("part-*"))
    parts[0].unlink()
    parts[1].write_bytes(b"PAR1")
    (folder / f".{parts[0].name}.tmp").write_bytes(b"half")
    filled(place, notify=said.append)
    assert said == ["10 users were written before; going on with the others"]
    assert in_parquet(folder) == expected(MODEL)
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"k": 3}, "k = 5 there, 3 asked for"),
        ({"exclude_seen": False}, "include-seen = False there, True asked for"),
        ({"deny": [1039]}, "deny = None there, 1 asked for"),
        ({"model": 39}, "another model, or other users or items"),
    ],
    ids=["k", "seen", "deny", "model"],
)
def test_another_request_is_refused_by_name_and_replaces_only_on_purpose(
    change: dict[str, Any], found: str, tmp_path: Path
) -> None:
    filled(tmp_path)
    model: Artifact = small_model(n_items=change["model"]) if "model" in change else MODEL
    asked = {"k": 5} | {name: value for name, value in change.items() if name != "model"}
    other = Job.of(model, model.users.ids, **asked)
    with pytest.raises(StorageError, match="lists of another model or request") as caught:
        filled(tmp_path, other)
    assert found in str(caught.value)
    assert in_parquet(tmp_path) == expected(MODEL)
    filled(tmp_path, other, resume=False, users_at_a_time=40)
    assert in_parquet(tmp_path) == expected(model, **asked)


def test_a_late_part_of_an_earlier_request_does_not_stay(tmp_path: Path) -> None:
    filled(tmp_path, Job.of(MODEL, MODEL.users.ids, 3))
    part = sorted(tmp_path.glob("part-*"))[0]
    late = part.read_bytes()
    filled(tmp_path, resume=False, progress=lambda *_: part.write_bytes(late))
    assert in_parquet(tmp_path) == expected(MODEL)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("photo.jpg", b""),
        ("_manifest.json", b"{"),
        ("_manifest.json", b"[]"),
        ("_manifest.json", b'{"format": "other", "request": {}, "identity": "", "blocks": [0]}'),
    ],
)
def test_a_folder_of_something_else_is_left_as_it_is(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    for resume in (True, False):
        with pytest.raises(StorageError, match="the folder holds no lists"):
            filled(tmp_path, resume=resume)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(name, content)]


def test_a_disk_that_fills_up_keeps_whole_parts(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "lists"
    many = small_model(n_users=400)
    job = Job.of(many, many.users.ids, 5)
    filled(folder, job, users_at_a_time=200)
    last = sorted(folder.glob("part-*"))[1]
    n_bytes = last.stat().st_size
    last.unlink()
    with full_disk(n_bytes - 100), pytest.raises(StorageError, match="could not write"):
        filled(folder, job, notify=said.append)
    assert said[-1] == "200 of 400 users are written; the same command goes on after them"
    filled(folder, job)
    assert in_parquet(folder) == expected(many)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lists").touch()
    with pytest.raises(StorageError, match="the folder could not be read or written"):
        filled(tmp_path / "lists")


def test_a_job_without_users_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to write"):
        filled(tmp_path, Job.of(MODEL, ["nobody"], on_unknown="skip"))
    assert list(tmp_path.iterdir()) == []


def test_a_uri_of_no_store_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigError, match="names no store") as caught:
        filled("nonsense://ada:sesame@host/lists")
    assert "sesame" not in str(caught.value)
    assert "where: nonsense://host/lists" in str(caught.value)


def test_a_place_travels_to_other_processes(place: str) -> None:
    dataset = filled(place)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.place.names() == dataset.place.names()
