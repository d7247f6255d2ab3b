from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.benchmarks import available, load
from ratiorec.data.formats import Columns
from ratiorec.data.registry import BENCHMARKS, InAWheel, OnTheWeb
from ratiorec.data.synthetic import embedded
from ratiorec.errors import DataError, DataNotFoundError
from support.tiny_benchmarks import REGISTRY, TEST, TINY, TRAIN, hide_data, put

REAL_DATA = Path(os.environ.get("RATIOREC_DATA", "nowhere")).resolve()


@pytest.fixture(autouse=True)
def machine_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_data(tmp_path, monkeypatch)


def test_a_file_is_read_under_its_stem(tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("user,item\nann,x\nbob,y\n")
    dataset = load(tmp_path / "clicks.csv")
    assert (dataset.name, dataset.train.n_pairs, dataset.test) == ("clicks", 2, None)


def test_options_for_files_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("a;b\nann;x,1\nbob;y,1\n")
    named = load(tmp_path / "clicks.csv", delimiter=";", columns=Columns("a", "b"))
    assert named.train.items.ids.tolist() == ["x,1", "y,1"]
    bare = load(tmp_path / "clicks.csv", delimiter=";", header=False)
    assert bare.train.n_pairs == 3


def test_a_folder_is_read_in_lightgcn_form(tmp_path: Path) -> None:
    dataset = load(put(tmp_path / "mine"))
    assert dataset.test is not None
    assert (dataset.name, dataset.train.n_pairs, dataset.test.n_pairs) == ("mine", 5, 2)


def test_a_benchmark_is_looked_for_in_three_places_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATIOREC_DATA", str(tmp_path / "shared"))

    def where() -> str | None:
        return next(row.where for row in available(tmp_path / "given", registry=REGISTRY))

    assert where() is None
    for place in (tmp_path / "cache" / "ratiorec", tmp_path / "shared", tmp_path / "given"):
        folder = put(place / "tiny")
        assert where() == str(folder)
        assert load("tiny", data_dir=tmp_path / "given", registry=REGISTRY).train.n_pairs == 5


def test_a_copy_whose_lines_are_ordered_otherwise_is_the_benchmark(tmp_path: Path) -> None:
    put(tmp_path / "tiny", train=b"2 4\n0 1 0\n1 3 2\n")
    dataset = load("tiny", data_dir=tmp_path, registry=REGISTRY)
    assert dataset.train.sha256 == TINY.train_sha256


@pytest.mark.parametrize(
    ("train", "test", "file"),
    [
        (b"0 0 1\n1 2 4\n2 4\n", TEST, "train.txt"),
        (b"0 0 1\n1 2\n2 4\n", TEST, "train.txt"),
        (TRAIN, b"0 2\n1 1\n", "test.txt"),
    ],
    ids=["one pair altered", "one pair cut", "one test pair altered"],
)
def test_an_altered_copy_is_refused_by_name(
    tmp_path: Path, train: bytes, test: bytes, file: str
) -> None:
    put(tmp_path / "tiny", train, test)
    with pytest.raises(DataError) as caught:
        load("tiny", data_dir=tmp_path, registry=REGISTRY)
    assert caught.value.what == "this copy of tiny is cut or altered"
    assert caught.value.where == str(tmp_path / "tiny" / file)
    assert "ratiorec data fetch tiny" in caught.value.wanted


def test_without_a_known_pair_set_every_byte_must_be_right(tmp_path: Path) -> None:
    folder = put(tmp_path / "bytes-only")
    assert load("bytes-only", data_dir=tmp_path, registry=REGISTRY).train.n_pairs == 5
    (folder / "train.txt").write_bytes(TRAIN.replace(b"0 0 1", b"0 1 0"))
    with pytest.raises(DataError, match=r"bytes-only is cut or altered.*sha256"):
        load("bytes-only", data_dir=tmp_path, registry=REGISTRY)


def test_half_a_copy_is_not_found(tmp_path: Path) -> None:
    (put(tmp_path / "tiny") / "test.txt").unlink()
    with pytest.raises(DataNotFoundError, match="nothing, or not all of its files"):
        load("tiny", data_dir=tmp_path, registry=REGISTRY)


def test_a_folder_of_that_name_here_is_a_copy_and_judged_as_one() -> None:
    folder = put(Path("tiny"))
    assert load("tiny", registry=REGISTRY).train.n_pairs == 5
    (folder / "train.txt").write_bytes(b"0 1\n1 2\n")
    with pytest.raises(DataError, match="this copy of tiny is cut or altered"):
        load("tiny", registry=REGISTRY)
    assert load("./tiny", registry=REGISTRY).train.n_pairs == 2  # data of one's own
    assert load(Path("tiny"), registry=REGISTRY).train.n_pairs == 2


def test_a_link_to_a_copy_keeps_the_name_of_the_benchmark(tmp_path: Path) -> None:
    put(tmp_path / "disk" / "elsewhere")
    (tmp_path / "tiny").symlink_to(tmp_path / "disk" / "elsewhere")
    assert load("tiny", data_dir=tmp_path, registry=REGISTRY).name == "tiny"


def test_a_benchmark_that_is_not_here_comes_with_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load("gowalla", data_dir=tmp_path)
    assert caught.value.wanted == "ratiorec data fetch gowalla"
    assert str(tmp_path / "gowalla") in caught.value.where
    assert str(tmp_path / "cache" / "ratiorec" / "gowalla") in caught.value.where


def test_a_benchmark_that_cannot_be_fetched_says_where_a_copy_must_lie() -> None:
    with pytest.raises(DataNotFoundError, match=r"put train\.txt and test\.txt into a folder"):
        load("amazon-cds")


@pytest.mark.parametrize(
    ("name", "guess"), [("gowala", "gowalla"), ("Yelp-2018", "yelp2018"), ("ml100k", "ml-100k")]
)
def test_an_unknown_name_is_answered_with_what_exists(name: str, guess: str) -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load(name)
    assert all(known in caught.value.wanted for known in BENCHMARKS)
    assert caught.value.wanted.endswith(f"did you mean {guess}?")


def test_a_path_that_is_not_there_is_told() -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load("somewhere/clicks.parquet")
    assert caught.value.where == "somewhere/clicks.parquet"
    assert "did you mean" not in caught.value.wanted


def test_the_synthetic_data_are_always_here_and_of_the_registered_size() -> None:
    dataset = load("synthetic")
    registered = BENCHMARKS["synthetic"]
    assert dataset.test is not None
    assert (dataset.train.n_users, dataset.train.n_items) == (
        registered.n_users,
        registered.n_items,
    )
    assert dataset.train.n_pairs == registered.n_train_pairs
    assert dataset.test.n_pairs == registered.n_test_pairs
    assert dataset.train.sha256 == embedded().dataset.train.sha256


def test_the_list_has_every_benchmark_in_order(tmp_path: Path) -> None:
    put(tmp_path / "gowalla")
    rows = available(tmp_path)
    assert [row.name for row in rows] == list(BENCHMARKS)
    by_name = {row.name: row for row in rows}
    assert by_name["gowalla"].where == str(tmp_path / "gowalla")
    assert by_name["yelp2018"].where is None
    assert by_name["yelp2018"].how_to_get == "ratiorec data fetch yelp2018"
    assert by_name["synthetic"].where == "built in"


def test_a_row_of_the_list_is_ready_for_json(tmp_path: Path) -> None:
    assert available(tmp_path, registry=REGISTRY)[0].to_json() == {
        "name": "tiny",
        "n_users": 3,
        "n_items": 5,
        "n_train_pairs": 5,
        "n_test_pairs": 2,
        "where": None,
        "how_to_get": "ratiorec data fetch tiny",
    }


def test_the_registry_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        BENCHMARKS["gowalla"] = TINY  # type: ignore[index]


def test_whatever_can_be_downloaded_is_pinned() -> None:
    for benchmark in BENCHMARKS.values():
        if isinstance(benchmark.origin, OnTheWeb | InAWheel):
            assert all(
                len(f.git_blob or f.sha256 or "") in (40, 64) for f in benchmark.origin.files
            )
        for digest in (benchmark.train_sha256, benchmark.test_sha256):
            assert digest is None or len(bytes.fromhex(digest)) == 32


@pytest.mark.parametrize("name", ["gowalla", "yelp2018", "amazon-book-75", "amazon-cds"])
def test_the_real_benchmark_is_the_registered_one(name: str) -> None:
    if not (REAL_DATA / name / "train.txt").exists():
        pytest.skip(f"no {name} in $RATIOREC_DATA")
    dataset = load(name, data_dir=REAL_DATA)
    registered = BENCHMARKS[name]
    assert dataset.test is not None
    assert dataset.train.n_pairs == registered.n_train_pairs
    assert dataset.test.n_pairs == registered.n_test_pairs
    assert np.array_equal(dataset.train.users.ids, np.arange(registered.n_users))


def test_a_real_benchmark_with_one_pair_moved_is_refused(tmp_path: Path) -> None:
    if not (REAL_DATA / "gowalla" / "train.txt").exists():
        pytest.skip("no gowalla in $RATIOREC_DATA")
    source = REAL_DATA / "gowalla"
    lines = (source / "train.txt").read_bytes().split(b"\n")
    lines[1] = lines[1].rsplit(b" ", 1)[0] + b" 40980"
    put(tmp_path / "gowalla", b"\n".join(lines), (source / "test.txt").read_bytes())
    with pytest.raises(DataError, match="this copy of gowalla is cut or altered"):
        load("gowalla", data_dir=tmp_path)
