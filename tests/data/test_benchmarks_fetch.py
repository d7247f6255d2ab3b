from __future__ import annotations

import importlib.util
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ratiorec.data.benchmarks import fetch, load
from ratiorec.data.download import HttpDownload
from ratiorec.data.registry import BENCHMARKS, InAWheel
from ratiorec.errors import ConfigError, DataError, DataNotFoundError, DownloadError, StorageError
from support.file_server import serving
from support.tiny_benchmarks import INTER, ITEM, MOVIES, REGISTRY, TEST, TINY, TRAIN, hide_data, put

HURRIED = HttpDownload(n_attempts=1, timeout_seconds=5, pause_seconds=0)
needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="no pip here")
REAL_DATA = Path(os.environ.get("RATIOREC_DATA", "nowhere")).resolve()


@pytest.fixture(autouse=True)
def machine_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_data(tmp_path, monkeypatch)


def served(name: str = "tiny") -> dict[str, bytes]:
    return {f"/{name}/train.txt": TRAIN, f"/{name}/test.txt": TEST}


def test_a_fetched_benchmark_is_found_by_its_name(tmp_path: Path) -> None:
    with serving(served()) as server:
        folder = fetch("tiny", data_dir=tmp_path, base_url=server.url, registry=REGISTRY)
    assert folder == tmp_path / "tiny"
    assert sorted(path.name for path in folder.iterdir()) == ["test.txt", "train.txt"]
    assert load("tiny", data_dir=tmp_path, registry=REGISTRY).train.sha256 == TINY.train_sha256


def test_without_a_folder_the_cache_receives_it_and_the_environment_names_the_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(served()) as server:
        monkeypatch.setenv("RATIOREC_BENCHMARK_URL", f"{server.url}/")
        folder = fetch("tiny", registry=REGISTRY)
    assert folder == tmp_path / "cache" / "ratiorec" / "tiny"
    assert load("tiny", registry=REGISTRY).train.n_pairs == 5


def test_a_right_copy_is_not_fetched_again(tmp_path: Path) -> None:
    put(tmp_path / "tiny", train=b"2 4\n0 1 0\n1 3 2\n")  # another order, the same pairs
    with serving({}) as server:
        fetch("tiny", data_dir=tmp_path, base_url=server.url, registry=REGISTRY)
    assert server.requests == []


def test_only_the_wrong_file_of_a_copy_is_fetched_again(tmp_path: Path) -> None:
    put(tmp_path / "tiny", train=b"0 1\n")
    with serving(served()) as server:
        fetch("tiny", data_dir=tmp_path, base_url=server.url, registry=REGISTRY)
    assert server.requests == ["/tiny/train.txt"]
    assert (tmp_path / "tiny" / "train.txt").read_bytes() == TRAIN


@pytest.mark.parametrize("content", [TRAIN[:-4], TRAIN.replace(b"3", b"4"), b""])
def test_a_cut_or_altered_benchmark_leaves_nothing_behind(tmp_path: Path, content: bytes) -> None:
    with serving({**served(), "/tiny/train.txt": content}) as server:
        with pytest.raises(DownloadError, match=r"train\.txt is cut or altered"):
            fetch(
                "tiny",
                data_dir=tmp_path / "new",
                base_url=server.url,
                registry=REGISTRY,
                download=HURRIED,
            )
        assert not (tmp_path / "new" / "tiny").exists()


def test_progress_names_every_file(tmp_path: Path) -> None:
    told: dict[str, tuple[int, int | None]] = {}

    def progress(file: str, n_bytes: int, total: int | None) -> None:
        told[file] = (n_bytes, total)

    with serving(served()) as server:
        fetch("tiny", data_dir=tmp_path, base_url=server.url, registry=REGISTRY, progress=progress)
    sizes = {"train.txt": len(TRAIN), "test.txt": len(TEST)}
    assert told == {name: (size, size) for name, size in sizes.items()}


def test_a_base_url_off_the_web_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="base URL"):
        fetch("tiny", data_dir=tmp_path, base_url="file:///srv", registry=REGISTRY)


@pytest.mark.parametrize("name", ["amazon-cds", "amazon-book-75", "synthetic"])
def test_what_has_no_address_is_not_fetched(tmp_path: Path, name: str) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch(name, data_dir=tmp_path)
    assert caught.value.wanted == BENCHMARKS[name].how_to_get
    assert not (tmp_path / name).exists()


def test_fetching_an_unknown_name_lists_what_exists(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"did you mean gowalla\?"):
        fetch("gowala", data_dir=tmp_path)


def test_a_place_that_cannot_hold_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not make the folder"):
        fetch("tiny", data_dir=tmp_path / "file", base_url="http://127.0.0.1:9", registry=REGISTRY)


def test_a_real_benchmark_downloads_with_its_hash(tmp_path: Path) -> None:
    if not (REAL_DATA / "yelp2018" / "train.txt").exists():
        pytest.skip("no yelp2018 in $RATIOREC_DATA")
    source = REAL_DATA / "yelp2018"
    files = {f"/yelp2018/{path.name}": path.read_bytes() for path in source.glob("*.txt")}
    with serving(files) as server:
        fetch("yelp2018", data_dir=tmp_path, base_url=server.url)
        assert len(server.requests) == 2
    assert load("yelp2018", data_dir=tmp_path).train.n_pairs == 1_237_259


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
