from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ratiorec import files
from ratiorec.errors import StorageError
from ratiorec.export import FORMS, export
from ratiorec.export.exporting import FORMAT, HEADER
from ratiorec.files import whole_folder
from support.command_line import everything_in
from support.small_models import small_model


def write_export(folder: Path, text: str) -> None:
    with whole_folder(folder) as temporary:
        (temporary / "vectors").write_text(text)
        (temporary / HEADER).write_text(json.dumps({"format": FORMAT, "files": {"vectors": {}}}))


def test_a_folder_appears_when_the_block_ends(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "above" / "out") as temporary:
        (temporary / "vectors").write_text("1")
        assert not (tmp_path / "above" / "out").exists()
    assert everything_in(tmp_path / "above") == {"out": None, "out/vectors": b"1"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_when_the_block_raises(tmp_path: Path, error: type[BaseException]) -> None:
    def write_half() -> None:
        with whole_folder(tmp_path / "above" / "out") as temporary:
            (temporary / "vectors").write_text("1")
            raise error

    with pytest.raises(error):
        write_half()
    assert everything_in(tmp_path) == {}


def test_an_earlier_export_is_replaced_with_all_its_files(tmp_path: Path) -> None:
    write_export(tmp_path / "out", "old")
    with whole_folder(tmp_path / "out") as temporary:
        (temporary / "other").write_text("new")
    assert everything_in(tmp_path) == {"out": None, "out/other": b"new"}


def test_an_earlier_export_stands_when_the_block_raises(tmp_path: Path) -> None:
    write_export(tmp_path / "out", "old")
    before = everything_in(tmp_path)
    with pytest.raises(ValueError, match="no"), whole_folder(tmp_path / "out"):
        raise ValueError("no")
    assert everything_in(tmp_path) == before


@pytest.fixture
def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system on which two folders cannot change places in one step."""
    monkeypatch.setattr(files, "_exchanged", lambda *_: False)


@pytest.mark.usefixtures("without_exchange")
def test_without_an_exchange_the_earlier_export_steps_aside(tmp_path: Path) -> None:
    write_export(tmp_path / "out", "old")
    write_export(tmp_path / "out", "new")
    assert (tmp_path / "out" / "vectors").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.usefixtures("without_exchange")
def test_an_earlier_export_stands_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_export(tmp_path / "out", "old")
    before = everything_in(tmp_path)
    rename = Path.rename

    def fail_for_the_new_one(path: Path, target: Path) -> Path:
        if path.suffix == ".tmp":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(StorageError, match="Input/output error"):
        write_export(tmp_path / "out", "new")
    assert everything_in(tmp_path) == before


@pytest.mark.usefixtures("without_exchange")
def test_ctrl_c_after_the_earlier_export_stepped_aside_brings_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_export(tmp_path / "out", "old")
    before = everything_in(tmp_path)
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        if target.suffix == ".old":
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_export(tmp_path / "out", "new")
    assert everything_in(tmp_path) == before


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_export(tmp_path / "out", "1")
    assert (tmp_path / "out" / "vectors").read_text() == "1"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    write_export(tmp_path / "out", "1")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "real" / "vectors").read_text() == "1"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"notes.txt": "mine"}, "other files, such as notes.txt"),
        ({HEADER: "{"}, "no JSON"),
        ({HEADER: '{"format": "another", "files": {}}'}, "not ours"),
        ({HEADER: '{"format": "ratiorec-export", "files": {}}', "more": ""}, "such as more"),
    ],
)
def test_a_foreign_folder_is_left_as_it_is(
    tmp_path: Path, files: dict[str, str], found: str
) -> None:
    (tmp_path / "out").mkdir()
    for name, text in files.items():
        (tmp_path / "out" / name).write_text(text)
    before = everything_in(tmp_path)
    with pytest.raises(StorageError, match=found):
        export(small_model(), FORMS["numpy"], tmp_path / "out")
    assert everything_in(tmp_path) == before


def test_a_file_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(StorageError, match="found: a file"):
        export(small_model(), FORMS["numpy"], tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    with pytest.raises(StorageError) as error, whole_folder(out):
        pass
    assert str(tmp_path / "file") in error.value.where


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with (
        pytest.raises(StorageError, match="Permission denied"),
        whole_folder(tmp_path / "closed" / "out"),
    ):
        pass
