from __future__ import annotations

import importlib.util
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ratiorec.data.benchmarks import fetch, load
from ratiorec.data.registry import InAWheel
from ratiorec.errors import DataError, DownloadError
from support.tiny_benchmarks import INTER, ITEM, MOVIES, REGISTRY, hide_data

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="no pip here")


@pytest.fixture(autouse=True)
def machine_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_data(tmp_path, monkeypatch)


def wheel_index(folder: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes]) -> None:
    """Let pip see one wheel in a folder, and nothing else."""
    folder.mkdir()
    name = "ratiorec_tiny_movies-1.0"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        for path, content in members.items():
            wheel.writestr(path, content)
        about = "Metadata-Version: 2.1\nName: ratiorec-tiny-movies\nVersion: 1.0\n"
        wheel.writestr(f"{name}.dist-info/METADATA", about)
        kind = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{name}.dist-info/WHEEL", kind)
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


@needs_pip
def test_movies_come_with_times_and_titles_and_without_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"tiny/movies/movies.inter": INTER, "tiny/movies/movies.item": ITEM}
    wheel_index(tmp_path / "index", monkeypatch, members)
    fetch("movies", data_dir=tmp_path, registry=REGISTRY)
    dataset = load("movies", data_dir=tmp_path, registry=REGISTRY)
    train = dataset.train
    assert (dataset.name, dataset.test, train.weights) == ("movies", None, None)
    titles = {str(i): train.items.name(n) for n, i in enumerate(train.items.ids.tolist())}
    assert titles == {"1": "Démo, Le (1999)", "2": "Other (1954)"}
    assert train.timestamps is not None
    user = train.users.indices(["7"])[0]
    assert train.timestamps[train.indptr[user]] == 100

    (tmp_path / "movies" / "movies.item").write_bytes(ITEM.replace(b"Other", b"Ether"))
    with pytest.raises(DataError, match="this copy of movies is cut or altered"):
        load("movies", data_dir=tmp_path, registry=REGISTRY)


@needs_pip
@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"tiny/movies/movies.inter": INTER, "tiny/movies/movies.item": ITEM[:-1]}, "altered"),
        ({"tiny/movies/movies.inter": INTER}, "not the package that was expected"),
    ],
    ids=["a member cut", "a member missing"],
)
def test_a_foreign_wheel_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, bytes], what: str
) -> None:
    wheel_index(tmp_path / "index", monkeypatch, members)
    with pytest.raises(DownloadError, match=what):
        fetch("movies", data_dir=tmp_path / "data", registry=REGISTRY)
    assert not (tmp_path / "data" / "movies").exists()


@needs_pip
def test_a_package_that_pip_cannot_find_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_index(tmp_path / "index", monkeypatch, {})
    missing = replace(MOVIES, origin=InAWheel("ratiorec-none==9", "tiny", MOVIES.origin.files))
    with pytest.raises(DownloadError) as caught:
        fetch("movies", data_dir=tmp_path, registry={"movies": missing})
    assert caught.value.what == "pip could not download ratiorec-none==9"
    assert "No matching distribution" in caught.value.found


@needs_pip
def test_movielens_is_fetched_from_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_TIMEOUT", "5")
    try:
        fetch("ml-100k", data_dir=tmp_path)
    except DownloadError as error:
        if error.what.startswith("pip could not download"):
            pytest.skip("pip reaches no index with recbole==1.2.1")
        raise
    train = load("ml-100k", data_dir=tmp_path).train
    assert (train.n_users, train.n_items, train.n_pairs) == (943, 1_682, 100_000)
    assert train.items.name(int(train.items.indices(["50"])[0])) == "Star Wars (1977)"
    assert train.timestamps is not None
    assert (train.timestamps.min(), train.timestamps.max()) == (874_724_710, 893_286_638)
