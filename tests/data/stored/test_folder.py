"""A training set on disk is opened by a map, and refused where it is not what was written."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.benchmarks import load
from ratiorec.data.stored.folder import MANIFEST, ArrayWriter, open_stored
from ratiorec.data.texts import StoredTexts
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.encoders.encoder import users_by_item
from ratiorec.errors import DataError, UnknownIdError
from ratiorec.files import sha256_of
from ratiorec.model.store import pack, unpack
from support.training_sets import prepared, write_parts


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    columns = {"user": ["a", "b", "a", "c"], "item": [30, 10, 10, 30], "weight": [1, 2, 3, 4]}
    prepared(write_parts(tmp_path / "log", columns, []), tmp_path / "set")
    return tmp_path / "set"


def is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_its_arrays_are_mapped_and_its_ids_stay_bytes(stored: Path) -> None:
    data = load(stored).train
    arrays = [data.indptr, data.indices, data.weights, data.items.ids, data.items.by_id]
    assert isinstance(data.users.ids, StoredTexts)
    assert all(map(is_mapped, [*arrays, data.users.ids.text, data.users.ids.offsets]))
    assert data.users.indices(["c", "a"]).tolist() == [2, 0]
    assert "_index" not in vars(data.users)  # no dictionary of all ids


def test_a_graph_of_it_keeps_its_indices_in_32_bits(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import scipy.sparse

    data, given = open_stored(stored).train, []
    plain = scipy.sparse.csr_array

    def spied(parts: Any, **options: Any) -> Any:
        matrix = plain(parts, **options)
        given.append(np.shares_memory(matrix.indices, data.indices))
        return matrix

    monkeypatch.setattr(scipy.sparse, "csr_array", spied)
    assert users_by_item(data).dtype == np.int32
    assert given == [True]


def without_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def cut_short(folder: Path) -> None:
    path = folder / "train.indices.npy"
    path.write_bytes(path.read_bytes()[:-4])


def altered(folder: Path) -> None:
    path = folder / "train.indices.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")


def forged(folder: Path) -> None:
    """Indices beyond the items, with a manifest that fits."""
    altered(folder)
    mend(folder)


def garbled(folder: Path) -> None:
    """A header that Python's own tokenizer stumbles over, with a manifest that fits."""
    path = folder / "train.indices.npy"
    path.write_bytes(path.read_bytes().replace(b"}", b"(", 1))
    mend(folder)


def mend(folder: Path) -> None:
    sha256 = sha256_of(folder / "train.indices.npy")
    change(folder, lambda found: found["files"]["train.indices.npy"].update(sha256=sha256))


def lacking(folder: Path) -> None:
    (folder / "users.text.npy").unlink()


def later(folder: Path) -> None:
    change(folder, lambda found: found.update(version=2))


def no_object(folder: Path) -> None:
    (folder / MANIFEST).write_text("[" * 100_000)


def change(folder: Path, how: Any) -> None:
    found = json.loads((folder / MANIFEST).read_text())
    how(found)
    (folder / MANIFEST).write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (without_manifest, "the training set is incomplete.*no manifest.json"),
        (cut_short, r"missing or cut short.*train.indices.npy"),
        (altered, "altered.*train.indices.npy"),
        (forged, "train.indices.npy has indices that are not below 2"),
        (garbled, "the training set cannot be used"),
        (lacking, "missing or cut short.*users.text.npy.*no such file"),
        (later, "no training set of this version.*version 2"),
        (no_object, "the manifest cannot be read"),
    ],
)
def test_a_damaged_training_set_is_refused_by_name(stored: Path, damage: Any, what: str) -> None:
    damage(stored)
    with pytest.raises(DataError, match=what) as caught:
        load(stored)
    assert str(stored) in caught.value.where


def test_the_manifest_is_the_last_file_that_is_written(stored: Path) -> None:
    written = {path.name: path.stat().st_mtime_ns for path in stored.iterdir()}
    assert max(written, key=lambda name: written[name]) == MANIFEST


@given(st.lists(st.text(), max_size=9), st.data())
def test_stored_texts_are_read_as_an_array_of_them(texts: list[str], data: Any) -> None:
    stored, array = StoredTexts.of(texts), np.array([*texts, None], object)[:-1]
    assert len(stored) == len(texts)
    assert list(stored) == stored.tolist() == texts
    assert np.asarray(stored).tolist() == texts
    start, end = (data.draw(st.none() | st.integers(-12, 12)) for _ in range(2))
    assert stored[start:end].tolist() == array[start:end].tolist()
    assert stored[start:end:2].tolist() == array[start:end:2].tolist()
    if texts:
        places = data.draw(st.lists(st.integers(-len(texts), len(texts) - 1), max_size=5))
        assert stored[np.array(places, int)].tolist() == [texts[place] for place in places]
        assert [stored[place] for place in places] == [texts[place] for place in places]
    with pytest.raises(IndexError):
        stored[len(texts)]


WANTED = ["a", "b", "12", "7", "07", "7.0", 7, 7.0, "0", "💡", "", np.int64(12)]


@pytest.mark.parametrize("ids", [["b", "12", "7.0", "💡", "a"], [12, 9, 7, -3]])
def test_a_search_finds_what_a_dictionary_finds(ids: list[Any]) -> None:
    plain = Vocabulary.from_ids(ids, kind="user")
    by_id = np.argsort(plain.ids).astype(np.int32)
    kept: Any = StoredTexts.of(ids) if isinstance(ids[0], str) else plain.ids
    searched = Vocabulary(kept, "user", by_id=by_id)
    found = searched.indices(WANTED, on_unknown="skip")
    assert found.tolist() == plain.indices(WANTED, on_unknown="skip").tolist()
    assert (found >= 0).any()
    assert searched.indices(np.asarray(kept)).tolist() == list(range(len(ids)))
    with pytest.raises(UnknownIdError, match="'nobody'"):
        searched.indices(["nobody"])
    assert searched.same_as(plain)


def test_numbers_are_searched_at_once(stored: Path) -> None:
    items = open_stored(stored).train.items
    assert items.indices(np.array([30, 10, 31, -1, 2**62]), on_unknown="skip").tolist() == [
        *(1, 0, -1, -1, -1)
    ]


def test_a_model_packs_stored_ids_as_they_are(stored: Path) -> None:
    users = open_stored(stored).train.users
    arrays = pack(users)
    assert isinstance(users.ids, StoredTexts)
    assert arrays["user.ids.text"] is users.ids.text
    again = unpack("user", {"ids": "text", "names": False}, arrays)
    assert again.ids.tolist() == ["a", "b", "c"]


def test_an_array_that_grew_is_read_as_any(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "a.npy", "<i8")
    for part in ([1, 2], [], list(range(5000))):
        writer.append(np.array(part, np.int64))
    writer.close()
    assert np.load(tmp_path / "a.npy").tolist() == [1, 2, *range(5000)]
