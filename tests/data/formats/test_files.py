"""Parquet, Arrow and sparse matrices on disk, and what every format must agree on."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.formats import Columns, read
from ratiorec.data.formats.binary import TRUST
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError
from support.matrices import dense_matrix

TABLE = pa.table(
    {
        "title": ["t"] * 4,
        "item_id": ["b", "a", "b", "c"],
        "user_id": [9, 7, 7, 9],
        "rating": [1.0, 2.0, 3.0, 4.0],
        "timestamp": [1, 2, 3, 4],
    }
)


def pairs_of(data: Interactions) -> set[tuple[Any, Any]]:
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return set(zip(user_ids.tolist(), item_ids.tolist(), strict=True))


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=2)


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_feather(table: pa.Table, path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table)


BINARY = {
    "p.parquet": write_parquet,
    "p.arrow": write_arrow,
    "p.ipc": write_stream,
    "p.feather": write_feather,
}


def refusal(path: Path, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return caught.value


@pytest.mark.parametrize("name", BINARY)
def test_binary_tables_are_read_by_column_name(tmp_path: Path, name: str) -> None:
    BINARY[name](TABLE, tmp_path / name)
    data = read(tmp_path / name)
    assert data.users.ids.tolist() == [7, 9]
    assert data.items.ids.tolist() == ["b", "a", "c"]
    assert pairs_of(data) == {(9, "b"), (7, "a"), (7, "b"), (9, "c")}
    assert data.weights is not None
    assert data.timestamps is not None
    assert data.weights.tolist() == [3.0, 2.0, 1.0, 4.0]
    assert data.timestamps.tolist() == [3, 2, 1, 4]


@pytest.mark.parametrize("name", BINARY)
def test_binary_tables_are_read_by_given_columns(tmp_path: Path, name: str) -> None:
    BINARY[name](TABLE, tmp_path / name)
    columns = Columns(user="title", item=2, weight="", timestamp="")
    assert pairs_of(read(tmp_path / name, columns=columns)) == {("t", 7), ("t", 9)}


@pytest.mark.parametrize("name", BINARY)
def test_text_columns_stored_as_dictionaries_are_read(tmp_path: Path, name: str) -> None:
    encoded = TABLE.set_column(1, "item_id", TABLE["item_id"].dictionary_encode())
    BINARY[name](encoded, tmp_path / name)
    assert read(tmp_path / name).items.ids.tolist() == ["b", "a", "c"]


@pytest.mark.parametrize("name", BINARY)
def test_a_missing_id_in_a_binary_table_is_refused_by_row(tmp_path: Path, name: str) -> None:
    table = TABLE.set_column(1, "item_id", pa.array(["b", "a", None, "c"]))
    BINARY[name](table, tmp_path / name)
    error = refusal(tmp_path / name)
    assert error.what == "missing item id"
    assert error.where == f"{tmp_path / name}, row 3 (the first is row 1)"


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_table_without_rows_is_refused(tmp_path: Path, name: str) -> None:
    BINARY[name](TABLE.slice(0, 0), tmp_path / name)
    assert refusal(tmp_path / name).what == "there are no rows"


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_table_without_the_column_is_refused(tmp_path: Path, name: str) -> None:
    BINARY[name](TABLE.rename_columns(["a", "b", "c", "d", "e"]), tmp_path / name)
    assert refusal(tmp_path / name).found == "the columns 'a', 'b', 'c', 'd', 'e'"


@pytest.mark.parametrize("name", [*BINARY, "p.npz"])
def test_a_file_that_only_claims_its_format_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("user,item\n1,2\n" * 10)
    error = refusal(tmp_path / name)
    assert error.what.startswith("the file cannot be read as")
    assert error.where == str(tmp_path / name)


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_file_cut_short_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    BINARY[name](TABLE, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    assert refusal(path).what.startswith("the file cannot be read as")


def test_an_empty_parquet_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").touch()
    assert refusal(tmp_path / "p.parquet").what == "the file is empty"


def test_a_negative_weight_in_parquet_is_refused_by_row(tmp_path: Path) -> None:
    pq.write_table(TABLE.set_column(3, "rating", pa.array([1, 2, 3, -4])), tmp_path / "p.parquet")
    error = refusal(tmp_path / "p.parquet")
    assert error.what == "a weight is negative"
    assert "row 4" in error.where


def test_a_sparse_matrix_file_is_read(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_array(np.array([[0, 2.0], [3.0, 0], [0, 0]]))
    scipy.sparse.save_npz(tmp_path / "m.npz", matrix)
    np.testing.assert_array_equal(dense_matrix(read(tmp_path / "m.npz")), matrix.toarray())


def test_a_file_of_plain_arrays_is_no_sparse_matrix(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", a=np.arange(3))
    assert refusal(tmp_path / "m.npz").what == "the file cannot be read as a sparse matrix"


# What was written is what is read, in every format

words = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\x1f", exclude_categories=("Cs",)),
    min_size=1,
    max_size=6,
).filter(lambda word: word.strip() and word.lower() not in ("nan", "null", "none", "<na>"))
plain_words = st.text("abcxyzäß漢🙂-_.#", min_size=1, max_size=6)
any_pairs = st.lists(st.tuples(words, words), min_size=1, max_size=30)
plain_pairs = st.lists(st.tuples(plain_words, plain_words), min_size=1, max_size=30)
integer_pairs = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 20)), min_size=1, max_size=30
)


def as_text(pairs: list[tuple[Any, Any]], delimiter: str, *, header: str = "user,item") -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([header.split(","), *pairs])
    return text.getvalue().encode()


def as_words(pairs: set[tuple[Any, Any]]) -> set[tuple[str, str]]:
    return {(str(user), str(item)) for user, item in pairs}


@pytest.mark.parametrize(
    ("name", "delimiter"), [("p.csv", ","), ("p.tsv", "\t"), ("p.csv.gz", ",")]
)
@given(pairs=st.one_of(any_pairs, integer_pairs))
def test_text_written_is_text_read(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    delimiter: str,
    pairs: list[tuple[Any, Any]],
) -> None:
    path = tmp_path_factory.mktemp("text") / name
    content = as_text(pairs, delimiter)
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    data = read(path, delimiter=delimiter, header=True)
    assert as_words(pairs_of(data)) == as_words(set(pairs))


@given(pairs=plain_pairs)
def test_an_inter_file_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("inter") / "p.inter"
    lines = ["user_id:token\titem_id:token", *("\t".join(pair) for pair in pairs)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert pairs_of(read(path)) == set(pairs)


@pytest.mark.parametrize("name", BINARY)
@given(pairs=st.one_of(any_pairs, integer_pairs))
def test_a_binary_table_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, name: str, pairs: list[tuple[Any, Any]]
) -> None:
    path = tmp_path_factory.mktemp("binary") / name
    users, items = zip(*pairs, strict=True)
    BINARY[name](pa.table({"user": users, "item": items}), path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(TRUST, "1")  # a process for each of many files would take its time
        assert pairs_of(read(path)) == set(pairs)


@given(pairs=st.one_of(plain_pairs, integer_pairs), data=st.data())
def test_permuted_rows_change_the_order_of_ids_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[Any, Any]], data: st.DataObject
) -> None:
    rows = [(*pair, place) for place, pair in enumerate(pairs, 1)]
    shuffled = data.draw(st.permutations(rows))
    folder = tmp_path_factory.mktemp("permuted")
    read_back = []
    for name, table in (("one.csv", rows), ("other.csv", shuffled)):
        (folder / name).write_bytes(as_text(table, ",", header="user,item,weight"))
        read_back.append(read(folder / name))
    one, other = read_back
    aligned = other.aligned_to(one.users, one.items)
    assert aligned.sha256 == one.sha256
    np.testing.assert_array_equal(aligned.weights, one.weights)
    assert sorted(one.users.ids.tolist()) == sorted(other.users.ids.tolist())
    assert one.users.ids.dtype == other.users.ids.dtype


def test_threads_do_not_change_the_order_of_ids(tmp_path: Path) -> None:
    rows = [(f"u{row * 7919 % 5003}", f"i{row * 31 % 997}") for row in range(200_000)]
    (tmp_path / "p.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in rows))
    n_threads = pa.cpu_count()
    try:
        orders = []
        for n in (1, 4):
            pa.set_cpu_count(n)
            orders.append(read(tmp_path / "p.csv").users.ids.tolist())
    finally:
        pa.set_cpu_count(n_threads)
    assert orders[0] == orders[1] == list(dict.fromkeys(user for user, _ in rows))


def ordered_pairs(data: Interactions) -> list[tuple[Any, Any]]:
    """The pairs in the order in which the source had them."""
    assert data.order is not None
    rows = np.argsort(data.order)
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return list(zip(user_ids[rows].tolist(), item_ids[rows].tolist(), strict=True))


ROWS = [("b", "x"), ("a", "z"), ("b", "y"), ("a", "x"), ("b", "x"), ("a", "y"), ("c", "y")]
KEPT = [("a", "z"), ("b", "y"), ("a", "x"), ("b", "x"), ("a", "y"), ("c", "y")]


@pytest.mark.parametrize("name", [*BINARY, "x.csv", "x.csv.gz", "frame", "pairs"])
def test_the_order_of_the_rows_survives_every_reader(tmp_path: Path, name: str) -> None:
    users, items = zip(*ROWS, strict=True)
    table, path = pa.table({"user": users, "item": items}), tmp_path / name
    if name == "frame":
        data = Interactions.from_frame(table)
    elif name == "pairs":
        data = Interactions.from_pairs(users, items)
    else:
        if name in BINARY:
            BINARY[name](table, path)
        else:
            text = "user,item\n" + "".join(f"{user},{item}\n" for user, item in ROWS)
            path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        data = read(path)
    assert ordered_pairs(data) == KEPT


def test_rows_with_timestamps_need_no_order_and_a_matrix_has_none(tmp_path: Path) -> None:
    write_parquet(TABLE, tmp_path / "x.parquet")
    data = read(tmp_path / "x.parquet")
    assert data.order is None
    assert data.moments is data.timestamps is not None
    assert read(tmp_path / "x.parquet", columns=Columns(timestamp="")).order is not None
    assert Interactions.from_csr(scipy.sparse.eye_array(3, format="csr")).moments is None
