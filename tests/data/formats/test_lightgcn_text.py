"""Folders in LightGCN form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ratiorec.files
from ratiorec.data.formats import read_lightgcn, write_lightgcn
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError, DataNotFoundError, StorageError


def folder_of(path: Path, train: str, test: str | None = None) -> Path:
    (path / "train.txt").write_text(train)
    if test is not None:
        (path / "test.txt").write_text(test)
    return path


def pairs_of(data: Interactions | None) -> set[tuple[Any, Any]]:
    assert data is not None
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return set(zip(user_ids.tolist(), item_ids.tolist(), strict=True))


def refusal(folder: Path, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read_lightgcn(folder, **options)
    return caught.value


def test_one_line_a_user_gives_the_pairs_of_both_parts(tmp_path: Path) -> None:
    dataset = read_lightgcn(folder_of(tmp_path, "0 2 1\n1 0\n", "1 12\n0 3\n"))
    assert pairs_of(dataset.train) == {(0, 1), (0, 2), (1, 0)}
    assert pairs_of(dataset.test) == {(1, 12), (0, 3)}
    assert (dataset.train.n_users, dataset.train.n_items) == (2, 12 + 1)
    assert dataset.train.items.is_dense
    assert dataset.test is not None
    assert dataset.test.items is dataset.train.items
    assert dataset.name == tmp_path.name


def test_a_folder_without_test_part_is_read(tmp_path: Path) -> None:
    assert read_lightgcn(folder_of(tmp_path, "0 1\n")).test is None


@pytest.mark.parametrize("train", ["0 1\n3\n1 0", "0 1 \r\n3 \r\n1  0\r\n\r\n", "3\n0\t1\n1 0\n\n"])
def test_a_user_without_items_blanks_and_line_endings_are_understood(
    tmp_path: Path, train: str
) -> None:
    dataset = read_lightgcn(folder_of(tmp_path, train))
    assert pairs_of(dataset.train) == {(0, 1), (1, 0)}
    assert dataset.train.n_users == 3 + 1


def test_a_repeated_item_is_merged(tmp_path: Path) -> None:
    assert read_lightgcn(folder_of(tmp_path, "0 1 1 2 1\n0 2\n")).train.n_pairs == 2


def test_known_sizes_make_room_for_items_without_pairs(tmp_path: Path) -> None:
    train = read_lightgcn(folder_of(tmp_path, "0 1\n"), n_users=5, n_items=9).train
    assert (train.n_users, train.n_items) == (5, 9)


@pytest.mark.parametrize(
    ("train", "what", "found"),
    [
        ("0 1\n1 x2 3\n", "not a line of indices", "'x2' in '1 x2 3'"),
        ("0 1\n1 2.5\n", "not a line of indices", "'2.5' in '1 2.5'"),
        ("0 1\n1,2,3\n", "not a line of indices", "'1,2,3' in '1,2,3'"),
        ("0 1\nann 2\n", "not a line of indices", "'ann' in 'ann 2'"),
        ("0 1\n1 99999999999999999999\n", "not a line of indices", "'99999999999999999999' in"),
        ("0 1\n1 -2\n", "a negative index", "'-2' in '1 -2'"),
        ("0 1\n 2 3\n", "a line without user", "' 2 3'"),
        ("0 1\n\n2 3\n", "a line without user", "''"),
    ],
)
def test_a_ragged_or_foreign_line_is_refused_by_number(
    tmp_path: Path, train: str, what: str, found: str
) -> None:
    error = refusal(folder_of(tmp_path, train))
    assert error.what == what
    assert error.where == f"{tmp_path / 'train.txt'}, line 2"
    assert error.found.startswith(found)


def test_bytes_that_are_not_utf_8_are_a_foreign_line(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(b"0 1\n1 \xff\n")
    assert refusal(tmp_path).where.endswith("line 2")


@pytest.mark.parametrize(
    ("sizes", "kind", "line"),
    [({"n_items": 8}, "item", 2), ({"n_users": 3}, "user", 3), ({"n_users": 2}, "user", 1)],
)
def test_an_index_out_of_range_is_refused_by_line(
    tmp_path: Path, sizes: dict[str, int], kind: str, line: int
) -> None:
    error = refusal(folder_of(tmp_path, "0 1\n", "2 7\n1 8 9\n5 0\n"), **sizes)
    assert error.what == f"{kind} index out of range"
    assert error.where == f"{tmp_path / 'test.txt'}, line {line}"
    assert error.wanted == f"0 to {next(iter(sizes.values())) - 1}"


def test_indices_with_enormous_gaps_are_refused(tmp_path: Path) -> None:
    error = refusal(folder_of(tmp_path, "0 2000000000\n"))
    assert error.what == "these are not dense indices"
    assert "2000000000" in error.found


def test_a_folder_without_train_part_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert isinstance(error, DataNotFoundError)
    assert error.found == "no train.txt in the folder"
    assert refusal(tmp_path / "none").found == "no such folder"


@pytest.mark.parametrize("train", ["", "\n", " \n"])
def test_an_empty_train_part_is_refused(tmp_path: Path, train: str) -> None:
    assert refusal(folder_of(tmp_path, train)).what == "the file is empty"


def test_a_pair_in_both_parts_is_refused(tmp_path: Path) -> None:
    error = refusal(folder_of(tmp_path, "0 1 2\n1 0\n", "0 2 3\n"))
    assert error.found.startswith("1 such pairs")


# Written and read back

dense_pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 7)), min_size=1)
texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\n", exclude_categories=("Cs",)), min_size=1
)


def dataset_over(
    users: Vocabulary, items: Vocabulary, train: set[tuple[int, int]], test: set[tuple[int, int]]
) -> Dataset:
    parts = [
        Interactions.from_indices(users, items, *(zip(*pairs, strict=True) if pairs else ((), ())))
        for pairs in (train, test - train)
    ]
    return Dataset("toy", *parts)


def assert_same(one: Dataset, other: Dataset) -> None:
    assert other.train.users.ids.tolist() == one.train.users.ids.tolist()
    assert other.train.items.ids.tolist() == one.train.items.ids.tolist()
    assert other.train.sha256 == one.train.sha256
    assert one.test is not None
    assert other.test is not None
    assert other.test.sha256 == one.test.sha256


@given(train=dense_pairs, test=dense_pairs)
def test_dense_data_written_are_read(
    tmp_path_factory: pytest.TempPathFactory,
    train: set[tuple[int, int]],
    test: set[tuple[int, int]],
) -> None:
    folder = tmp_path_factory.mktemp("dense")
    users, items = Vocabulary.dense(6, kind="user"), Vocabulary.dense(8, kind="item")
    dataset = dataset_over(users, items, train, test)
    write_lightgcn(dataset, folder)
    assert_same(dataset, read_lightgcn(folder))


@given(
    user_ids=st.lists(texts, min_size=6, max_size=6, unique=True),
    item_ids=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=8, max_size=8, unique=True),
    train=dense_pairs,
)
def test_ids_of_any_kind_written_are_read(
    tmp_path_factory: pytest.TempPathFactory,
    user_ids: list[str],
    item_ids: list[int],
    train: set[tuple[int, int]],
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    users = Vocabulary([*user_ids, "x"], "user")  # type: ignore[arg-type]
    dataset = dataset_over(users, Vocabulary(item_ids, "item"), train, set())  # type: ignore[arg-type]
    write_lightgcn(dataset, folder)
    assert_same(dataset, read_lightgcn(folder))


@given(
    lines=st.lists(st.permutations(range(6)), min_size=3, max_size=3),
    lengths=st.lists(st.integers(0, 6), min_size=3, max_size=3),
)
def test_the_order_of_a_line_is_read_and_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[int]], lengths: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("order")
    text = "".join(
        " ".join(map(str, [user, *line[:n]])) + "\n"
        for user, (line, n) in enumerate(zip(lines, lengths, strict=True))
    )
    (folder / "train.txt").write_text(text)
    dataset = read_lightgcn(folder, n_items=6)
    (folder / "train.txt").unlink()
    write_lightgcn(dataset, folder)
    assert (folder / "train.txt").read_text() == text


def test_of_a_repeated_item_the_last_place_stays(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 4 2 4 3\n1 1\n0 2\n")  # and a second line of user 0
    train = read_lightgcn(tmp_path).train
    assert train.indices[train.by_moment()].tolist() == [4, 3, 2, 1]


def test_pairs_with_timestamps_are_written_the_earliest_first(tmp_path: Path) -> None:
    data = Interactions.from_indices(
        Vocabulary.dense(2, kind="user"),
        Vocabulary.dense(4, kind="item"),
        [0, 0, 0, 1],
        [0, 1, 3, 2],
        timestamps=[30, 10, 20, 5],
    )
    write_lightgcn(Dataset("timed", data), tmp_path)
    assert (tmp_path / "train.txt").read_text() == "0 1 3 0\n1 2\n"


def toy() -> Dataset:
    users = Vocabulary.from_ids(["ann lee", "bob"], kind="user")
    items = Vocabulary.from_ids([30, 10, 20], kind="item")
    return dataset_over(users, items, {(0, 0), (1, 2)}, {(0, 1)})


def test_the_files_are_those_of_the_public_benchmarks(tmp_path: Path) -> None:
    write_lightgcn(toy(), tmp_path / "new" / "toy")
    written = {path.name: path.read_text() for path in (tmp_path / "new" / "toy").iterdir()}
    assert written == {
        "train.txt": "0 0\n1 2\n",
        "test.txt": "0 1\n",
        "user_list.txt": "org_id remap_id\nann lee 0\nbob 1\n",
        "item_list.txt": "org_id remap_id\n30 0\n10 1\n20 2\n",
    }


def test_files_of_an_older_dataset_are_removed(tmp_path: Path) -> None:
    write_lightgcn(toy(), tmp_path)
    (tmp_path / "notes.md").write_text("mine")
    users, items = Vocabulary.dense(2, kind="user"), Vocabulary.dense(1, kind="item")
    write_lightgcn(Dataset("new", dataset_over(users, items, {(1, 0)}, set()).train), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.md", "train.txt"]
    assert read_lightgcn(tmp_path).train.n_users == 2


def test_a_failed_write_leaves_the_older_files_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lightgcn(toy(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def no_room(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ratiorec.files.os, "fsync", no_room)
    users, items = Vocabulary.dense(2, kind="user"), Vocabulary.dense(1, kind="item")
    other = dataset_over(users, items, {(1, 0)}, {(0, 0)})
    with pytest.raises(StorageError, match="No space left"):
        write_lightgcn(other, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="could not make the folder"):
        write_lightgcn(toy(), tmp_path / "file" / "toy")


def test_an_id_with_a_line_break_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    users = Vocabulary.from_ids(["two\nlines"], kind="user")
    items = Vocabulary.dense(1, kind="item")
    with pytest.raises(DataError, match="line"):
        write_lightgcn(dataset_over(users, items, {(0, 0)}, set()), tmp_path / "toy")
    assert not (tmp_path / "toy").exists()


def test_a_list_with_further_columns_is_read(tmp_path: Path) -> None:
    folder_of(tmp_path, "0 0 1\n")
    (tmp_path / "item_list.txt").write_text("org_id remap_id extra\nB00 1 m.1\nB01 0 m.2\n")
    assert read_lightgcn(tmp_path).train.items.ids.tolist() == ["B01", "B00"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a 0\nb 1\n", 1),
        ("org_id remap_id\na 0\nb\n", 3),
        ("org_id remap_id\na 0\nb x\n", 3),
        ("org_id remap_id\na 0\nb 0\n", 3),
        ("org_id remap_id\na 5\nb 0\n", 2),
    ],
)
def test_a_list_that_is_no_list_is_refused_by_line(tmp_path: Path, text: str, line: int) -> None:
    folder_of(tmp_path, "0 0 1\n")
    (tmp_path / "item_list.txt").write_text(text)
    error = refusal(tmp_path)
    assert error.what == "not a line of an id list"
    assert error.where.endswith(f"item_list.txt, line {line}")


def test_a_list_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder_of(tmp_path, "0 0 1\n")
    (tmp_path / "item_list.txt").write_bytes(b"org_id remap_id\n\xff 0\nb 1\n")
    assert refusal(tmp_path).what == "the text is not UTF-8"


def test_an_index_beyond_the_list_is_out_of_range(tmp_path: Path) -> None:
    folder_of(tmp_path, "0 0 2\n")
    (tmp_path / "item_list.txt").write_text("org_id remap_id\na 0\nb 1\n")
    assert refusal(tmp_path).what == "item index out of range"


# The public benchmarks, where they are at hand

needs_benchmarks = pytest.mark.skipif(
    "RATIOREC_DATA" not in os.environ, reason="RATIOREC_DATA names no folder of benchmarks"
)


@needs_benchmarks
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("gowalla", (29_858, 40_981, 810_128, 217_242)),
        ("yelp2018", (31_668, 38_048, 1_237_259, 324_147)),
        ("amazon-book-75", (52_643, 91_599, 1_794_414, 603_378)),
        ("amazon-cds", (43_169, 35_648, 604_475, 172_951)),
    ],
)
def test_a_benchmark_has_its_published_counts(name: str, counts: tuple[int, ...]) -> None:
    folder = Path(os.environ["RATIOREC_DATA"]) / name
    if not folder.exists():
        pytest.skip(f"no {name} in RATIOREC_DATA")
    dataset = read_lightgcn(folder, n_users=counts[0], n_items=counts[1])
    assert dataset.test is not None
    train = read_lightgcn(folder).train
    assert (train.n_users, train.n_items, train.n_pairs, dataset.test.n_pairs) == counts
