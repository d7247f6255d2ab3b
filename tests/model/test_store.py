from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.errors import ModelError, StorageError
from ratiorec.model import store as folder_module
from ratiorec.model.artifact import Artifact
from ratiorec.model.store import read_model, require_replaceable, write_model

CONTENT = {"settings": {"rate": 0.1, "list": [1, "é"]}, "card": {}}
ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1], np.int64)}


def header_of(path: Path) -> dict[str, Any]:
    header: dict[str, Any] = json.loads((path / "model.json").read_text())
    return header


def write_header(path: Path, header: dict[str, Any], *, honest: bool = False) -> None:
    """Write a header, and with `honest` a checksum that fits what it says."""
    if honest:
        header = {name: value for name, value in header.items() if name != "checksum"}
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        header["checksum"] = digest.hexdigest()
    (path / "model.json").write_text(json.dumps(header))


def arrays_file_in_use(path: Path) -> Path:
    return path / str(header_of(path)["arrays"]["file"])


def arrays_file(path: Path) -> Path:
    (file,) = path.glob("arrays-*.safetensors")
    return file


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_model(tmp_path / "model", CONTENT, ARRAYS)
    return tmp_path / "model"


def test_content_and_arrays_come_back(saved: Path) -> None:
    content, arrays = read_model(saved)
    assert {name: content[name] for name in CONTENT} == CONTENT
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].tolist() == array.tolist()


def test_the_folder_holds_a_header_and_arrays_named_after_their_hash(saved: Path) -> None:
    file = arrays_file(saved)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert file.name == f"arrays-{digest[:16]}.safetensors"
    assert sorted(path.name for path in saved.iterdir()) == [file.name, "model.json"]
    header = header_of(saved)
    assert (header["format"], header["version"]) == ("ratiorec-model", 2)
    assert header["arrays"]["sha256"] == digest


def test_the_same_model_is_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "again", CONTENT, ARRAYS)
    for file in saved.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_numpy_numbers_become_plain_ones(tmp_path: Path) -> None:
    write_model(tmp_path / "model", {"card": {"n": np.int64(3), "x": np.float32(0.5)}}, ARRAYS)
    assert read_model(tmp_path / "model")[0]["card"] == {"n": 3, "x": 0.5}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_hold_is_refused_before_anything_is_written(
    saved: Path, value: object
) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(ModelError, match="cannot be written as JSON"):
        write_model(saved, {"card": {"value": value}}, {"other": np.zeros(3)})
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_replacing_a_model_leaves_only_the_new_one(saved: Path) -> None:
    old = arrays_file(saved).name
    write_model(saved, CONTENT | {"card": {"new": 1}}, {"other": np.zeros(3)})
    content, arrays = read_model(saved)
    assert content["card"] == {"new": 1}
    assert set(arrays) == {"other"}
    assert arrays_file(saved).name != old


def test_other_files_beside_a_model_are_left_alone(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    write_model(saved, CONTENT, {"other": np.zeros(3)})
    assert (saved / "notes.txt").read_text() == "mine"


@pytest.fixture
def left_overs(saved: Path) -> tuple[Path, Path]:
    """What killed writers left, one just now and one long ago."""
    recent = saved / "arrays-0123456789abcdef.safetensors"
    old = saved / ".model.json.0123456789ab.tmp"
    for file in (recent, old):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    return recent, old


def test_what_killed_writers_left_goes_with_the_next_save(
    saved: Path, left_overs: tuple[Path, Path]
) -> None:
    write_model(saved, CONTENT, {"other": np.zeros(3)})
    assert not any(file.exists() for file in left_overs)


def test_without_locks_a_young_left_over_may_be_needed_and_stays(
    saved: Path, left_overs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "sole_writer", lambda _: contextlib.nullcontext(False))
    recent, old = left_overs
    before = arrays_file_in_use(saved)
    write_model(saved, CONTENT, {"other": np.zeros(3)})
    assert recent.exists()
    assert not old.exists()
    assert not before.exists()
    os.utime(recent, (0, 0))
    write_model(saved, CONTENT, ARRAYS)
    assert not recent.exists()


def test_a_folder_with_only_left_overs_may_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "arrays-0123456789abcdef.safetensors").write_bytes(b"half")
    (tmp_path / ".arrays-0123456789abcdef.safetensors.aabb.tmp").write_bytes(b"half")
    write_model(tmp_path, CONTENT, ARRAYS)
    assert read_model(tmp_path)[0]["settings"] == CONTENT["settings"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("holiday.txt", "mine"), ("model.json", '{"name": "bert"}'), ("model.json", "not JSON")],
)
def test_a_folder_that_is_no_model_is_not_written_to(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(StorageError, match="not a model and is left as it is"):
        write_model(tmp_path, CONTENT, ARRAYS)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, text)]


def test_a_file_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(StorageError, match="found: a file"):
        write_model(tmp_path / "model", CONTENT, ARRAYS)
    assert (tmp_path / "model").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="could not make the folder"):
        write_model(tmp_path / "file" / "model", CONTENT, ARRAYS)


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The disk is full from the moment the named file is to be written."""
    write = folder_module.atomic_write

    def full(path: Path) -> Any:
        if Path(path).name.startswith(name):
            raise StorageError("disk full", where=str(path), found="no room", wanted="room")
        return write(path)

    monkeypatch.setattr(folder_module, "atomic_write", full)


@pytest.mark.parametrize("name", ["arrays", "model.json"])
def test_a_full_disk_leaves_the_old_model_as_it_was(
    saved: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    fail_at(monkeypatch, name)
    with pytest.raises(StorageError):
        write_model(saved, CONTENT, {"other": np.zeros(3)})
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


@pytest.mark.parametrize("name", ["arrays", "model.json"])
def test_a_full_disk_leaves_no_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fail_at(monkeypatch, name)
    with pytest.raises(StorageError):
        write_model(tmp_path / "model", CONTENT, ARRAYS)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_model_even_if_only_the_card_changes(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at(monkeypatch, "model.json")
    with pytest.raises(StorageError):
        write_model(saved, {"card": {"new": 1}}, ARRAYS)
    assert read_model(saved)[0]["card"] == {}


def test_a_missing_folder_or_header_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no model.*no such folder"):
        read_model(tmp_path / "nowhere")
    with pytest.raises(ModelError, match=r"there is no model.*No such file"):
        read_model(tmp_path)


def test_a_file_in_place_of_a_model_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("user,item\n")
    with pytest.raises(ModelError, match=r"there is no model.*found: a file;"):
        read_model(tmp_path / "clicks.csv")


@pytest.mark.parametrize("text", ["", "{", "\xff", "[1", '{"format": NaN}', "[" * 100_000])
def test_a_header_that_is_no_json_is_told(saved: Path, text: str) -> None:
    (saved / "model.json").write_text(text, encoding="latin-1")
    with pytest.raises(ModelError, match="cut short or altered"):
        read_model(saved)


@pytest.mark.parametrize("text", ["[]", "3", "null", "{}", '{"format": "other"}'])
def test_foreign_json_is_told(saved: Path, text: str) -> None:
    (saved / "model.json").write_text(text)
    with pytest.raises(ModelError, match="not a model of ours"):
        read_model(saved)


def written_by_version_1(folder: Path) -> Path:
    """A folder whose header is that of the earlier format."""
    write_header(folder, header_of(folder) | {"version": 1}, honest=True)
    return folder


def test_a_model_of_an_earlier_format_is_refused_by_its_version(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        read_model(written_by_version_1(saved))
    error = caught.value
    assert error.what == "the model was written by an earlier version of the format"
    assert error.where == str(saved / "model.json")
    assert error.found == "format version 1"
    assert error.wanted == "version 2: run `ratiorec fit` again"


def test_a_model_of_an_earlier_format_may_be_replaced(saved: Path) -> None:
    old = arrays_file(written_by_version_1(saved)).name
    require_replaceable(saved)
    write_model(saved, CONTENT, {"a": np.zeros(3, np.float32)})
    assert read_model(saved)[1]["a"].tolist() == [0, 0, 0]
    assert arrays_file(saved).name != old  # and the old arrays are gone


@pytest.mark.parametrize("version", [3, 0, -1, "1", "2", None, True])
def test_another_version_is_told(saved: Path, version: object) -> None:
    write_header(saved, header_of(saved) | {"version": version}, honest=True)
    newer = version == 3  # nothing newer reads what was never a version
    wanted = "wanted: version 2, or a newer ratiorec" if newer else r"wanted: version 2\)"
    with pytest.raises(ModelError, match=f"another version.*{wanted}"):
        read_model(saved)


def test_an_altered_header_is_told(saved: Path) -> None:
    write_header(saved, header_of(saved) | {"settings": {"rate": 0.2, "list": [1, "é"]}})
    with pytest.raises(ModelError, match="the model is altered"):
        read_model(saved)


def test_a_header_laid_out_otherwise_says_the_same(saved: Path) -> None:
    header = header_of(saved)
    (saved / "model.json").write_text(json.dumps(dict(reversed(header.items())), indent=7))
    assert read_model(saved)[0]["settings"] == CONTENT["settings"]


@pytest.mark.parametrize("file", ["../secret", "/etc/passwd", "arrays.safetensors", 5, None])
def test_a_header_may_not_point_outside_its_folder(saved: Path, file: object) -> None:
    header = header_of(saved)
    header["arrays"]["file"] = file
    write_header(saved, header, honest=True)
    with pytest.raises(ModelError, match="altered"):
        read_model(saved)


def test_missing_arrays_are_told(saved: Path) -> None:
    arrays_file(saved).unlink()
    with pytest.raises(ModelError, match="arrays of the model are missing"):
        read_model(saved)


def test_arrays_that_are_cut_short_are_told_by_their_size(saved: Path) -> None:
    file = arrays_file(saved)
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ModelError, match=rf"cut short.*found: {size - 1} bytes.*wanted: {size}"):
        read_model(saved)


def test_arrays_with_one_other_bit_are_told(saved: Path) -> None:
    file = arrays_file(saved)
    blob = bytearray(file.read_bytes())
    blob[-1] ^= 1
    file.write_bytes(blob)
    with pytest.raises(ModelError, match="arrays of the model are altered"):
        read_model(saved)


def test_arrays_that_are_not_safetensors_are_told(saved: Path) -> None:
    header, blob = header_of(saved), b"something else"
    arrays_file(saved).write_bytes(blob)
    sha256 = hashlib.sha256(blob).hexdigest()
    header["arrays"] |= {"size": len(blob), "sha256": sha256}
    write_header(saved, header, honest=True)
    with pytest.raises(ModelError, match="cannot be read"):
        read_model(saved)


def test_a_reader_finds_the_old_model_or_the_new_one(saved: Path) -> None:
    """Readers go on while a writer replaces the model again and again."""
    finished = threading.Event()

    def write() -> None:
        for number in range(60):
            write_model(saved, {"card": {"n": number}}, {"n": np.full(1000, number)})
        finished.set()

    write_model(saved, {"card": {"n": -1}}, {"n": np.full(1000, -1)})
    writer = threading.Thread(target=write)
    writer.start()
    n_read = 0
    while not finished.is_set():
        content, arrays = read_model(saved)
        assert (arrays["n"] == content["card"]["n"]).all()
        n_read += 1
    writer.join()
    assert n_read > 0
    assert read_model(saved)[0]["card"] == {"n": 59}


# --- what would take all memory, or all time -------------------------------------------------


def rewrite(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Change the arrays of a model, with hashes that fit."""
    from safetensors.numpy import load, save

    header, file = header_of(folder), arrays_file(folder)
    arrays = load(file.read_bytes())
    change(arrays)
    blob = save(arrays)
    sha256 = hashlib.sha256(blob).hexdigest()
    file.unlink()
    header["arrays"] = {"file": f"arrays-{sha256[:16]}.safetensors", "size": len(blob)}
    header["arrays"]["sha256"] = sha256
    (folder / header["arrays"]["file"]).write_bytes(blob)
    write_header(folder, header, honest=True)


TEXTS = [f"item.{part}.{kind}" for part in ("ids", "names") for kind in ("text", "offsets")]


@pytest.mark.parametrize("size", [2**27, 2**50])
@pytest.mark.parametrize("name", [*TEXTS, "user.ids", "seen.indices", "scorer.items"])
def test_an_array_without_numbers_may_not_claim_another_size(
    tmp_path: Path, name: str, size: int
) -> None:
    small_model().save(tmp_path)
    rewrite(tmp_path, lambda arrays: arrays.update({name: np.empty((size, 0), np.int64)}))
    with pytest.raises(ModelError, match=rf"larger than their file.*{name} of shape \[{size}, 0\]"):
        Artifact.load(tmp_path)


@pytest.mark.parametrize("file", ["model.json", "arrays"])
@pytest.mark.parametrize("kind", ["zero", "pipe", "folder", "sparse"])
def test_only_plain_files_of_the_right_size_are_read(saved: Path, file: str, kind: str) -> None:
    path = arrays_file(saved) if file == "arrays" else saved / file
    path.unlink()
    match kind:
        case "zero":
            path.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "sparse":
            with path.open("wb") as sparse:
                sparse.truncate(100 * 2**30)
    with pytest.raises(ModelError, match=r"plain file|too large|altered"):
        read_model(saved)


def test_arrays_that_do_not_fit_into_the_memory_are_refused_before_they_are_read(
    saved: Path,
) -> None:
    header, size = header_of(saved), 2**50
    with arrays_file(saved).open("wb") as sparse:
        try:
            sparse.truncate(size)
        except OSError:
            size = 2**43  # the largest file of some systems, and more than any memory
            sparse.truncate(size)
    header["arrays"]["size"] = size
    write_header(saved, header, honest=True)
    with pytest.raises(ModelError, match=rf"not enough memory.*{size:,} bytes of arrays"):
        read_model(saved)


def test_a_list_of_arrays_that_is_endless_is_refused(saved: Path) -> None:
    header, blob = header_of(saved), (2**22).to_bytes(8, "little") + b" " * 2**22
    arrays_file(saved).write_bytes(blob)
    header["arrays"] |= {"size": len(blob), "sha256": hashlib.sha256(blob).hexdigest()}
    write_header(saved, header, honest=True)
    with pytest.raises(ModelError, match="4,194,304 bytes of names"):
        read_model(saved)


def test_memory_that_runs_out_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_model().save(tmp_path)

    def nothing_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("ratiorec.model.saving.unpack", nothing_left)
    with pytest.raises(ModelError, match="not enough memory"):
        Artifact.load(tmp_path)


def test_a_card_that_nobody_could_read_again_is_not_written(saved: Path) -> None:
    before = header_of(saved)
    with pytest.raises(ModelError, match="too large for a model"):
        write_model(saved, {"card": {"curve": "x" * 2**23}}, ARRAYS)
    assert header_of(saved) == before


# --- links -----------------------------------------------------------------------------------


def test_a_folder_reached_by_a_link_is_read_and_replaced(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(saved)
    write_model(tmp_path / "current", CONTENT, {"other": np.zeros(3)})
    assert (tmp_path / "current").is_symlink()
    assert set(read_model(tmp_path / "current")[1]) == set(read_model(saved)[1]) == {"other"}


def test_files_that_are_links_are_read_and_never_written_through(
    saved: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for file in list(saved.iterdir()):
        file.rename(store / file.name)
        file.symlink_to(store / file.name)
    assert set(read_model(saved)[1]) == set(ARRAYS)
    before = {file.name: file.read_bytes() for file in store.iterdir()}
    with pytest.raises(StorageError, match=r"a model.json that is a symbolic link"):
        write_model(saved, CONTENT, {"other": np.zeros(3)})
    assert {file.name: file.read_bytes() for file in store.iterdir()} == before


# --- a model folder that was changed at random -----------------------------------------------


def small_model() -> Artifact:
    from ratiorec.data.vocabulary import Vocabulary
    from ratiorec.scorers import InnerProduct
    from ratiorec.scorers.scorer import UserItems

    rng = np.random.default_rng(0)
    items = Vocabulary(np.array(["a", "bé", "c"], object), "item").with_names(["A", "B", "C"])
    factors = [rng.standard_normal((n, 2), dtype=np.float32) for n in (2, 3)]
    seen = UserItems(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32))
    settings = {"rate": 0.1, "names": ["x", "y"], "nested": {"deep": [1, 2.5, None, True]}}
    users = Vocabulary(np.array([7, 9]), "user")
    return Artifact(InnerProduct(*factors), users, items, seen, settings, {"seconds": 1.5})


def as_plain(model: Artifact) -> dict[str, Any]:
    return {
        "factors": {name: array.tobytes() for name, array in model.scorer.arrays().items()},
        "users": model.users.ids.tolist(),
        "items": model.items.ids.tolist(),
        "names": None if model.items.names is None else model.items.names.tolist(),
        "seen": (model.seen.indptr.tolist(), model.seen.indices.tolist()),
        "settings": model.settings,
        "card": model.card,
    }


def a_file(path: Path, rng: np.random.Generator) -> Path:
    files = sorted(path.iterdir())
    return files[rng.integers(len(files))]


def flip_a_byte(path: Path, rng: np.random.Generator) -> None:
    file = a_file(path, rng)
    blob = bytearray(file.read_bytes())
    blob[rng.integers(len(blob))] ^= int(rng.integers(1, 256))
    file.write_bytes(blob)


def cut(path: Path, rng: np.random.Generator) -> None:
    file = a_file(path, rng)
    blob = file.read_bytes()
    file.write_bytes(blob[: rng.integers(len(blob))])


def append(path: Path, rng: np.random.Generator) -> None:
    file = a_file(path, rng)
    file.write_bytes(file.read_bytes() + rng.bytes(int(rng.integers(1, 20))))


def insert(path: Path, rng: np.random.Generator) -> None:
    file = a_file(path, rng)
    blob = file.read_bytes()
    place = int(rng.integers(len(blob)))
    file.write_bytes(blob[:place] + rng.bytes(3) + blob[place:])


def blank(path: Path, rng: np.random.Generator) -> None:
    file = a_file(path, rng)
    blob = bytearray(file.read_bytes())
    start = int(rng.integers(len(blob)))
    blob[start : start + 16] = bytes(len(blob[start : start + 16]))
    file.write_bytes(blob)


def remove(path: Path, rng: np.random.Generator) -> None:
    a_file(path, rng).unlink()


def change_a_key(path: Path, rng: np.random.Generator) -> None:
    """Delete or replace something in the header, half of the time with a checksum that fits."""
    header = header_of(path)
    table = header
    while True:
        key = sorted(table)[rng.integers(len(table))]
        if not isinstance(table[key], dict) or not table[key] or rng.random() < 0.4:
            break
        table = table[key]
    if rng.random() < 0.5:
        del table[key]
    else:
        values: list[Any] = [None, 0, -1, 2**70, "", "int64", "text", [], [1], {}, {"a": 1}, True]
        table[key] = values[rng.integers(len(values))]
    write_header(path, header, honest=bool(rng.random() < 0.5))


def change_an_array(path: Path, rng: np.random.Generator) -> None:
    """Change the arrays behind the hashes' back: only their own consistency can tell."""
    from safetensors.numpy import load, save

    header, file = header_of(path), arrays_file(path)
    arrays = dict(load(file.read_bytes()))
    name = sorted(arrays)[rng.integers(len(arrays))]
    array = arrays[name].copy()
    change = rng.integers(4)
    if change == 0:
        del arrays[name]
    elif change == 1:
        arrays[name] = array[:-1]
    elif change == 2:
        arrays[name] = array.astype(np.float64)
    else:
        array.flat[rng.integers(array.size)] = -5 if array.dtype.kind == "i" else 200
        arrays[name] = array
    blob = save(arrays)
    sha256 = hashlib.sha256(blob).hexdigest()
    file.unlink()
    file = path / f"arrays-{sha256[:16]}.safetensors"
    file.write_bytes(blob)
    header["arrays"] = {"file": file.name, "size": len(blob), "sha256": sha256}
    write_header(path, header, honest=True)


ACCIDENTS = [flip_a_byte, cut, append, insert, blank, remove, change_a_key]


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: accident.__name__)
def test_a_model_changed_at_random_is_refused_or_loads_as_it_was(
    tmp_path: Path, accident: Callable[[Path, np.random.Generator], None]
) -> None:
    original = small_model()
    original.save(tmp_path / "model")
    n_refused = 0
    for seed in range(120):
        path = tmp_path / f"changed-{seed}"
        shutil.copytree(tmp_path / "model", path)
        accident(path, np.random.default_rng([seed, ACCIDENTS.index(accident)]))
        honest_change = accident is change_a_key
        try:
            loaded = Artifact.load(path)
        except ModelError:
            n_refused += 1
        else:  # whoever also fixes the checksum may change the settings, and nothing else
            ignored = {"settings", "card"} if honest_change else set()
            expected, found = as_plain(original), as_plain(loaded)
            assert {k: v for k, v in found.items() if k not in ignored} == {
                k: v for k, v in expected.items() if k not in ignored
            }, seed
    assert n_refused > 60


def test_arrays_changed_together_with_their_hashes_never_end_in_another_error(
    tmp_path: Path,
) -> None:
    small_model().save(tmp_path / "model")
    n_refused = 0
    for seed in range(160):
        path = tmp_path / f"changed-{seed}"
        shutil.copytree(tmp_path / "model", path)
        change_an_array(path, np.random.default_rng(seed))
        try:
            loaded = Artifact.load(path)
        except ModelError:
            n_refused += 1
        else:  # such a model is a model, only another one
            assert len(loaded.recommend(loaded.users.ids)) > 0
    assert n_refused > 80


class Intruder:
    """What a pickle makes of this is a file, if anyone reads it as a pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("place", ["arrays", "header"])
def test_code_in_a_model_folder_is_refused_and_never_run(saved: Path, place: str) -> None:
    blob = pickle.dumps(Intruder(saved / "ran"))
    if place == "header":
        (saved / "model.json").write_bytes(blob)
    else:
        arrays_file(saved).write_bytes(blob)
        header = header_of(saved)
        sha256 = hashlib.sha256(blob).hexdigest()
        header["arrays"] |= {"size": len(blob), "sha256": sha256}
        write_header(saved, header, honest=True)
    with pytest.raises(ModelError):
        read_model(saved)
    assert not (saved / "ran").exists()
    pickle.loads(blob)
    assert (saved / "ran").exists()  # it would have shown
