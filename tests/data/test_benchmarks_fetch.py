from __future__ import annotations

import os
from pathlib import Path

import pytest

from ratiorec.data.benchmarks import fetch, load
from ratiorec.data.download import HttpDownload
from ratiorec.data.registry import BENCHMARKS
from ratiorec.errors import ConfigError, DataNotFoundError, DownloadError, StorageError
from support.file_server import serving
from support.tiny_benchmarks import REGISTRY, TEST, TINY, TRAIN, hide_data, put

HURRIED = HttpDownload(n_attempts=1, timeout_seconds=5, pause_seconds=0)
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
    assert [path for path, _ in server.requests] == ["/tiny/train.txt"]
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


def test_a_real_benchmark_downloads_with_its_blob_id(tmp_path: Path) -> None:
    if not (REAL_DATA / "yelp2018" / "train.txt").exists():
        pytest.skip("no yelp2018 in $RATIOREC_DATA")
    source = REAL_DATA / "yelp2018"
    files = {f"/yelp2018/{path.name}": path.read_bytes() for path in source.glob("*.txt")}
    with serving(files) as server:
        fetch("yelp2018", data_dir=tmp_path, base_url=server.url)
        assert len(server.requests) == 2
    assert load("yelp2018", data_dir=tmp_path).train.n_pairs == 1_237_259
