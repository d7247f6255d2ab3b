"""Every form that is a folder: what can be read from it, and what stays when it is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ratiorec.errors import ConfigError, MissingExtraError, StorageError
from ratiorec.export import FORMS, ExportTrial, export
from ratiorec.export.vectors import Judge
from ratiorec.files import sha256_of
from ratiorec.model.artifact import Artifact
from support.command_line import everything_in, full_disk
from support.small_models import numbered_model, small_model

NEEDS = {"faiss": "faiss", "onnx": "onnx", "parquet": "pyarrow", "numpy": "numpy"}
EXTRA = {"faiss": "ann", "onnx": "onnx"}


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(NEEDS[name], reason=f"the package for {name} is not installed")
    return name


def lists_of(model: Artifact, k: int = 6) -> dict[object, list[object]]:
    """What the model itself lists, with the items that users have."""
    rows = model.recommend(model.users.ids, k, exclude_seen=False).to_dicts()
    lists: dict[object, list[object]] = {}
    for row in rows:
        lists.setdefault(row["user_id"], []).append(row["item_id"])
    return lists


def best(users: np.ndarray, items: np.ndarray, k: int = 6) -> np.ndarray:
    return np.argsort(-(users @ items.T), axis=1)[:, :k]


def named(folder: Path, places: np.ndarray) -> dict[object, list[object]]:
    """Lists of places as lists of ids, by the files of ids in the folder."""
    user_ids, item_ids = (
        json.loads((folder / f"{kind}_ids.json").read_text()) for kind in ("user", "item")
    )
    lists = [[item_ids[place] for place in row] for row in places.tolist()]
    return dict(zip(user_ids, lists, strict=True))


@pytest.mark.parametrize("model", [small_model(), numbered_model()], ids=["text", "numbers"])
def test_numpy_files_give_the_lists_of_the_model(model: Artifact, tmp_path: Path) -> None:
    export(model, FORMS["numpy"], tmp_path / "out")
    users, items = (np.load(tmp_path / "out" / f"{k}_vectors.npy") for k in ("user", "item"))
    assert users.dtype == items.dtype == np.float32
    assert named(tmp_path / "out", best(users, items)) == lists_of(model)


@pytest.mark.parametrize("model", [small_model(), numbered_model()], ids=["text", "numbers"])
def test_parquet_files_give_the_lists_of_the_model(model: Artifact, tmp_path: Path) -> None:
    export(model, FORMS["parquet"], tmp_path / "out")
    users, items = (pq.read_table(tmp_path / "out" / f"{k}s.parquet") for k in ("user", "item"))
    assert str(users.schema.field("vector").type).startswith("fixed_size_list<")
    u, v = (np.array(table["vector"].to_pylist(), np.float32) for table in (users, items))
    ids = items["item_id"].to_pylist()
    lists = [[ids[place] for place in row] for row in best(u, v).tolist()]
    assert dict(zip(users["user_id"].to_pylist(), lists, strict=True)) == lists_of(model)


def test_parquet_has_the_names_of_items(tmp_path: Path) -> None:
    export(small_model(), FORMS["parquet"], tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "items.parquet")
    assert table.column_names == ["item_id", "item_name", "vector"]
    assert table["item_name"][3].as_py() == "The 3th Thing"


def test_a_form_finds_all_and_says_so(form: str, tmp_path: Path) -> None:
    done = export(small_model(), FORMS[form], tmp_path / "out", trial=ExportTrial(k=9, n_users=13))
    assert (done.form, done.measured.recall, done.k, done.n_users) == (form, 1, 9, 13)


def test_the_header_lists_every_file_with_its_hash(form: str, tmp_path: Path) -> None:
    done = export(small_model(), FORMS[form], tmp_path / "out")
    header = json.loads((tmp_path / "out" / "export.json").read_text())
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert set(header["files"]) == files - {"export.json"}
    for name, entry in header["files"].items():
        assert entry["sha256"] == sha256_of(tmp_path / "out" / name)
    assert {Path(path).name for path in done.paths} == files
    assert done.n_bytes == sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert (header["recall"], header["n_items"], header["dimension"]) == (1, 30, 4)


def test_three_lines_say_how_to_score(form: str, tmp_path: Path) -> None:
    export(small_model(), FORMS[form], tmp_path / "out")
    assert (tmp_path / "out" / "README.txt").read_text().count("\n") == 3


def test_an_export_is_replaced_by_one_of_another_form(form: str, tmp_path: Path) -> None:
    export(small_model(), FORMS["numpy"], tmp_path / "out")
    export(small_model(1), FORMS[form], tmp_path / "out")
    export(small_model(1), FORMS[form], tmp_path / "fresh")
    assert everything_in(tmp_path / "out") == everything_in(tmp_path / "fresh")


def test_a_model_is_not_taken_for_an_export(form: str, tmp_path: Path) -> None:
    small_model().save(tmp_path / "model")
    before = everything_in(tmp_path)
    with pytest.raises(StorageError, match="not an export"):
        export(small_model(), FORMS[form], tmp_path / "model")
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("n_bytes", [50, 250, 600, 1200])
def test_a_full_disk_leaves_the_old_export(form: str, tmp_path: Path, n_bytes: int) -> None:
    pytest.importorskip("resource", reason="no limits of file sizes on this system")
    export(small_model(n_items=5), FORMS["numpy"], tmp_path / "out")
    before = everything_in(tmp_path)
    model = small_model(n_users=150, n_items=150)
    with full_disk(n_bytes), pytest.raises(StorageError, match="out"):
        export(model, FORMS[form], tmp_path / "out")
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("form", sorted(EXTRA))
def test_a_missing_library_is_named_with_the_command_that_adds_it(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, NEEDS[form], None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'ratiorec\[{EXTRA[form]}\]'"):
        export(small_model(), FORMS[form], tmp_path / "out")
    assert everything_in(tmp_path) == {}


def test_vectors_that_were_not_written_as_they_are_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = Judge.exact_lists
    monkeypatch.setattr(Judge, "exact_lists", lambda judge, u, v: lists(judge, -u, v))
    with pytest.raises(ConfigError, match="finds too little"):
        export(small_model(), FORMS["numpy"], tmp_path / "out", trial=ExportTrial(k=5))
    assert everything_in(tmp_path) == {}
