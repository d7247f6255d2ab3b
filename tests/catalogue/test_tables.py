"""Tables of items from every form that they come in, and what is refused."""

from __future__ import annotations

import datetime as dt
import gzip
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from ratiorec.catalogue.tables import IdTable, overview
from ratiorec.errors import DataError, DataNotFoundError, MissingExtraError, UnknownChoiceError

TEXT = '''sku,name,kind,price,labels,about
tea-01,Assam,tea,3.5,organic|fair,"Malty,
from the ""north"""
tea-02,Darjeeling,tea,,organic,NULL
bread-01,Rye,bread,2,,true
'''
COLUMNS: dict[str, list[Any]] = {
    "sku": ["tea-01", "tea-02", "bread-01"],
    "name": ["Assam", "Darjeeling", "Rye"],
    "kind": ["tea", "tea", "bread"],
    "price": [3.5, None, 2],
    "labels": [["organic", "fair"], ["organic"], None],
    "about": ['Malty,\nfrom the "north"', None, "true"],
}
ROWS = [
    {
        "kind": "tea",
        "price": 3.5,
        "labels": ["fair", "organic"],
        "about": 'Malty,\nfrom the "north"',
    },
    {"kind": "tea", "price": None, "labels": ["organic"], "about": None},
    {"kind": "bread", "price": 2, "labels": [], "about": "true"},
]
KINDS = {"kind": "category", "price": "number", "labels": "tags", "about": "category"}


def written(folder: Path, text: str, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def parquet_file(folder: Path) -> Path:
    parquet.write_table(pa.table(COLUMNS), folder / "items.parquet", row_group_size=2)
    return folder / "items.parquet"


def feather_file(folder: Path) -> Path:
    feather.write_feather(pa.table(COLUMNS), str(folder / "items.feather"))
    return folder / "items.feather"


def packed(folder: Path) -> Path:
    (folder / "items.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    return folder / "items.csv.gz"


def parts(folder: Path) -> Path:
    (folder / "parts").mkdir()
    for name, start, end in (("a", 0, 1), ("b", 1, 3)):
        part = pa.table(COLUMNS).slice(start, end - start)
        parquet.write_table(part, folder / "parts" / f"{name}.parquet")
    return folder / "parts"


def text_parts(folder: Path) -> str:
    header, first, rest = (
        TEXT.split("\n", 1)[0],
        TEXT.split("tea-02")[0],
        "tea-02" + TEXT.split("tea-02")[1],
    )
    written(folder, first, "1.csv")
    written(folder, f"{header}\n{rest}", "2.csv")
    return str(folder / "*.csv")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda folder: written(folder, TEXT),
    "windows": lambda folder: written(folder, "\ufeff" + TEXT.replace("\n", "\r\n")),
    "tsv": lambda folder: written(
        folder, TEXT.replace(",", "\t").replace("Malty\t", "Malty,"), "i.tsv"
    ),
    "packed": packed,
    "text parts": text_parts,
    "parquet": parquet_file,
    "parts": parts,
    "feather": feather_file,
    "pandas": lambda folder: pd.DataFrame(COLUMNS),
    "polars": lambda folder: pl.DataFrame(COLUMNS, strict=False),
    "arrow": lambda folder: pa.table(COLUMNS),
    "dictionary": lambda folder: COLUMNS,
    "arrays": lambda folder: COLUMNS | {"price": np.array([3.5, np.nan, 2])},
}


@pytest.mark.parametrize("form", SOURCES)
def test_a_table_is_the_same_whatever_it_is_read_from(form: str, tmp_path: Path) -> None:
    table = IdTable.read(SOURCES[form](tmp_path))
    assert table.ids.tolist() == COLUMNS["sku"]
    assert table.titles is not None
    assert table.titles.tolist() == COLUMNS["name"]
    assert table.attributes.kinds == KINDS
    found = table.attributes.rows(range(3))
    found[0]["about"] = str(found[0]["about"]).replace("\r\n", "\n")
    assert found == ROWS


def test_the_report_says_what_was_taken_for_what(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    assert IdTable.read(path).lines() == [
        f"read {path}: item = 'sku', title = 'name'; 3 rows",
        "columns: kind (category), price (number, 1 missing), labels (tags, 1 missing), "
        "about (category, 1 missing)",
        "note: the attribute 'kind' is called 'item_kind' in tables of lists",
    ]


def test_an_overview_says_what_is_in_each_column(tmp_path: Path) -> None:
    table = IdTable.read(written(tmp_path, TEXT), column_kinds={"about": "text"})
    assert overview(table.attributes)[1:] == [
        ["kind", "category", "0", "tea, bread"],
        ["price", "number", "1", "2 to 3.5"],
        ["labels", "tags", "1", "organic, fair"],
        ["about", "text", "1", "2 texts"],
    ]


@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("a,Item-ID,title", "Item-ID"),
        ("id,artist,title", "id"),
        ("artist,TrackId,title", "TrackId"),
        ("movieId,title,genres", "movieId"),
        ("product,asin,x", "asin"),
        ("product,x,y", "product"),
    ],
)
def test_the_column_of_ids_is_found_by_its_name(tmp_path: Path, header: str, column: str) -> None:
    table = IdTable.read(written(tmp_path, f"{header}\nA,B,C\nD,E,F\n"))
    assert table.roles["item"] == column


def test_columns_of_ids_and_titles_may_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    table = IdTable.read(path, id_column="NAME", title_column="sku")
    assert table.ids.tolist() == COLUMNS["name"]
    assert table.titles is not None
    assert table.titles.tolist() == COLUMNS["sku"]
    with pytest.raises(UnknownChoiceError, match=r"'skuu'.*did you mean sku"):
        IdTable.read(path, id_column="skuu")
    with pytest.raises(DataError, match="both id and title"):
        IdTable.read(path, title_column="sku")


def test_users_have_a_table_without_titles(tmp_path: Path) -> None:
    path = written(tmp_path, "customer,name,segment\nann,Ann,gold\nbob,Bob,\n")
    table = IdTable.read(path, kind="user")
    assert (table.ids.tolist(), table.titles, table.kind) == (["ann", "bob"], None, "user")
    assert table.attributes.row(0) == {"name": "Ann", "segment": "gold"}


def test_ids_are_those_of_a_log(tmp_path: Path) -> None:
    assert IdTable.read(written(tmp_path, "id,x\n12,1\n7,2\n")).ids.dtype == np.int64
    texts = IdTable.read(written(tmp_path, "id,x\n007,1\n7,2\n")).ids.tolist()
    assert texts == ["007", "7"]
    gaps = IdTable.read(pd.DataFrame({"id": [3.0, 1.0], "x": ["a", "b"]}))
    assert gaps.ids.tolist() == [3, 1]


def test_a_kind_may_be_forced(tmp_path: Path) -> None:
    path = written(tmp_path, "id,brand,stock\na,1,no\nb,02,yes\n")
    table = IdTable.read(path, column_kinds={"brand": "category", "stock": "text"})
    assert table.attributes.kinds == {"brand": "category", "stock": "text"}
    assert table.attributes.row(1)["brand"] == "02"
    with pytest.raises(UnknownChoiceError, match="did you mean stock"):
        IdTable.read(path, column_kinds={"stok": "text"})
    with pytest.raises(UnknownChoiceError, match=r"no such kind.*'txt'.*did you mean text"):
        IdTable.read(path, column_kinds={"stock": "txt"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ("the file is empty", "rows of items")),
        ("sku,name\n", ("there are no rows", "sku, name")),
        ("sku\na\nb\n", ("this is no table", "'sku'")),
        ("a,b\n1,2\n", ("no column of item ids", "'a', 'b'", "id_column")),
        ("sku,x,x\na,1,2\n", ("two columns have one name", "'x' and 'x'")),
        ("sku,x,X\na,1,2\n", ("two columns have one name", "'x' and 'X'")),
        ("sku,x\na,1\nb,2\na,3\n", ("item id is there twice", "line 4", "'a', as in line 2")),
        ("sku,x\n,1\nb,2\n", ("missing item id", "line 2")),
        ("sku,x\na,1\nb,2,3\n", ("another number of columns", "line 3")),
    ],
)
def test_a_table_that_cannot_be_used_is_told(
    tmp_path: Path, text: str, told: tuple[str, ...]
) -> None:
    with pytest.raises(DataError) as caught:
        IdTable.read(written(tmp_path, text))
    for part in told:
        assert part in str(caught.value)


def test_a_number_that_cannot_be_read_is_told_by_its_row(tmp_path: Path) -> None:
    path = written(tmp_path, 'sku,price\na,"1\n2"\nb,cheap\nc,3\n')
    with pytest.raises(DataError, match=r"line 3: column price.*line 4: column price.*'cheap'"):
        IdTable.read(path, column_kinds={"price": "number"})


def test_bytes_that_are_no_text_are_told_by_their_row(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes("sku,name\na,Tee\nb,Käse\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"not UTF-8.*line 3.*iconv"):
        IdTable.read(path)
    path.write_bytes("sku,größe\na,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"not UTF-8.*line 1.*iconv"):
        IdTable.read(path)


def test_bad_rows_are_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    rows = "sku,price,name\na,1,A\n,2,B\nc,x,C\nd,4\na,5,E\nf,6,F\ng,7,\xff\n"
    path.write_bytes(rows.encode("latin-1"))
    table = IdTable.read(path, column_kinds={"price": "number"}, on_bad_rows="skip")
    assert table.ids.tolist() == ["a", "f"]
    assert table.titles is not None
    assert table.titles.tolist() == ["A", "F"]
    assert table.attributes.rows([0, 1]) == [{"price": 1}, {"price": 6}]
    assert table.n_dropped == 5
    assert table.lines()[0].endswith("; 7 rows, 5 dropped")


def test_of_two_rows_with_one_id_the_one_that_can_be_used_stays(tmp_path: Path) -> None:
    path = written(tmp_path, "sku,price\na,cheap\na,2\na,3\nb,4\n")
    table = IdTable.read(path, column_kinds={"price": "number"}, on_bad_rows="skip")
    assert table.ids.tolist() == ["a", "b"]
    assert table.attributes.columns["price"].plain() == [2, 4]
    assert table.n_dropped == 2


def test_rows_of_parts_are_told_by_their_file(tmp_path: Path) -> None:
    written(tmp_path, "sku,x\na,1\n", "1.csv")
    written(tmp_path, "sku,x\nb,1\na,2\n", "2.csv")
    with pytest.raises(DataError, match=r"2\.csv, line 3.*1\.csv, line 2"):
        IdTable.read(tmp_path)
    written(tmp_path, "sku,y\nc,1\n", "3.csv")
    with pytest.raises(DataError, match="the parts have different columns"):
        IdTable.read(tmp_path)


def test_a_column_that_is_no_attribute_is_left_out_and_told() -> None:
    ragged = [[1.0], [2.0, 3.0]]
    frame = pa.table({"id": ["a", "b"], "vector": ragged, "": [1, 2], "on": [True, None]})
    table = IdTable.read(frame)
    assert table.attributes.rows([0, 1]) == [{"on": 1}, {"on": None}]
    assert [line for line in table.lines() if "left out" in line] == [
        "note: the column '' is left out: it has no name",
        "note: the column 'vector' is left out: it holds vectors of 1 and 2 numbers",
    ]


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        (pa.table({"id": ["a", "b", "c"], "image": [[0.5, 1], None, [2, -1]]}), {}),
        ({"id": ["a", "b", "c"], "image": [np.array([0.5, 1]), None, (2, -1)]}, {}),
        ({"id": ["a", "b", "c"], "image": ["[0.5, 1]", None, "2 -1"]}, {"image": "vector"}),
    ],
)
def test_lists_of_numbers_are_vectors(source: Any, kinds: dict[str, Any]) -> None:
    table = IdTable.read(source, column_kinds=kinds).attributes
    assert table.kinds == {"image": "vector"}
    assert table.rows(range(3)) == [{"image": [0.5, 1]}, {"image": None}, {"image": [2, -1]}]
    assert table.asked_for(["all"], where="attributes").kinds == {}
    assert table.asked_for(["image"], where="attributes").columns["image"].plain()[1] is None


def test_a_matrix_has_a_vector_in_each_row_and_other_arrays_are_left_out() -> None:
    image = np.array([[0.5, 1], [np.nan, 1], [2, -1]])
    table = IdTable.read({"id": ["a", "b", "c"], "image": image, "cube": np.ones((3, 2, 2))})
    assert table.attributes.kinds == {"image": "vector"}
    assert table.attributes.columns["image"].plain() == [[0.5, 1], None, [2, -1]]
    assert table.left_out == {"cube": "it holds float64 of the shape (3, 2, 2)"}


def odd_columns() -> list[Any]:
    days = [dt.timedelta(1), None, dt.timedelta(3)]
    times = [dt.time(1), None, dt.time(3)]
    ids = {"id": ["a", "b", "c"], "n": [1, 2, 3]}
    periods = pd.period_range("2026-01", periods=3, freq="M")
    return [
        pd.DataFrame({**ids, "odd": pd.to_timedelta(days)}),
        pd.DataFrame({**ids, "odd": periods}),
        pd.DataFrame({**ids, "odd": [1j, 2j, 3j]}),
        pd.DataFrame({**ids, "odd": pd.interval_range(0, 3)}),
        pd.DataFrame({**ids, "odd": [{"a": 1}, None, {"a": 2}]}),
        pl.DataFrame({**ids, "odd": times}),
        pl.DataFrame({**ids, "odd": days}),
        pl.DataFrame({**ids, "odd": [{"a": 1}, None, {"a": 2}]}),
        {**ids, "odd": times},
    ]


@pytest.mark.parametrize("source", odd_columns(), ids=lambda source: type(source).__module__)
def test_a_column_of_values_that_are_no_attribute_is_left_out_by_name(source: Any) -> None:
    table = IdTable.read(source)
    assert table.attributes.kinds == {"n": "number"}
    assert re.search(
        "time|period|complex|interval|dict|Time|Duration|Struct", table.left_out["odd"]
    )


def decimals(*digits: str | None) -> list[Decimal | None]:
    return [None if one is None else Decimal(one) for one in digits]


@pytest.mark.parametrize(
    "frame", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=lambda made: made.__module__
)
def test_decimals_are_numbers(frame: Any) -> None:
    price, code = decimals("1.50", None, "4.2"), decimals("9007199254740993", "5", None)
    table = IdTable.read(frame({"id": ["a", "b", "c"], "price": price, "code": code})).attributes
    assert table.kinds == {"price": "number", "code": "category"}
    assert table.columns["price"].plain() == [1.5, None, 4.2]
    assert table.columns["code"].plain() == ["9007199254740993", "5", None]


SHORT = [3.1, None, 4.2]


@pytest.mark.parametrize(
    "column",
    [
        np.array(SHORT, np.float32),
        np.array(SHORT, np.float16),
        [np.float32(3.1), None, np.float32(4.2)],
        pd.Series(SHORT, dtype="float32"),
        pd.Series(SHORT, dtype="Float32"),
        pd.Series(np.array(SHORT, np.float16)),
        pl.Series(SHORT, dtype=pl.Float32),
        pa.array(SHORT, pa.float32()),
        pa.array(np.array(SHORT, np.float16)),
    ],
    ids=lambda column: f"{type(column).__module__} {getattr(column, 'dtype', '')}",
)
def test_narrow_numbers_are_those_that_were_meant(column: Any) -> None:
    frames = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}
    frame: Any = pa.table if isinstance(column, pa.Array) else frames.get(type(column), dict)
    table = IdTable.read(frame({"id": ["a", "b", "c"], "price": column}))
    assert table.attributes.columns["price"].plain() == SHORT


def test_whole_numbers_that_would_lose_digits_are_categories(tmp_path: Path) -> None:
    many, some = [9007199254740993, 9007199254740992, 2**60], [2**60, 2**53, 5]
    path = written(
        tmp_path,
        "id,many,some\n"
        + "".join(f"{n},{a},{b}\n" for n, a, b in zip("abc", many, some, strict=True)),
    )
    columns = {"id": ["a", "b", "c"], "many": np.array(many), "some": np.array(some)}
    signless = {**columns, "many": np.array(many, np.uint64)}
    for source in (path, columns, signless, pd.DataFrame(columns), pl.DataFrame(columns)):
        table = IdTable.read(source).attributes
        assert table.kinds == {"many": "category", "some": "number"}
        assert table.columns["many"].plain() == list(map(str, many))
    asked = IdTable.read(columns, column_kinds={"many": "number", "some": "category"}).attributes
    assert asked.kinds == {"many": "number", "some": "category"}
    assert asked.columns["some"].plain() == list(map(str, some))


def test_titles_that_are_no_text_are_refused() -> None:
    with pytest.raises(DataError, match=r"titles cannot be read.*column name.*lists of numbers"):
        IdTable.read({"id": ["a"], "name": [[1.0]]})


def test_dates_are_texts_that_sort_as_they_should() -> None:
    days = pd.to_datetime(["2024-05-01", None])
    table = IdTable.read(
        pd.DataFrame({"id": ["a", "b"], "since": days, "at": days + pd.Timedelta("1h")})
    )
    assert table.attributes.rows([0, 1]) == [
        {"since": "2024-05-01", "at": "2024-05-01T01:00:00"},
        {"since": None, "at": None},
    ]


def test_categories_of_a_frame_are_categories() -> None:
    frame = pd.DataFrame({"id": [1, 2], "kind": pd.Categorical(["tea", None], ["jam", "tea"])})
    table = IdTable.read(frame)
    assert table.attributes.rows([0, 1]) == [{"kind": "tea"}, {"kind": None}]


def test_what_holds_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no table of items"):
        IdTable.read(3)
    with pytest.raises(DataError, match="the columns differ in length"):
        IdTable.read({"id": ["a", "b"], "x": [1]})
    for lone in (5, "ab", np.array(5)):
        with pytest.raises(DataError, match=r"no list of values.*column x of items"):
            IdTable.read({"id": ["a", "b"], "x": lone})
    with pytest.raises(DataNotFoundError, match="a file with users"):
        IdTable.read(tmp_path / "none.csv", kind="user")
    (tmp_path / "items.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"unknown file format.*\.parquet"):
        IdTable.read(tmp_path / "items.json")


def test_parquet_without_pyarrow_is_told_and_csv_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = parquet_file(tmp_path), written(tmp_path, TEXT)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"ratiorec\[arrow\]"):
        IdTable.read(paths[0])
    assert len(IdTable.read(paths[1])) == 3


def test_a_table_longer_than_a_piece_of_a_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratiorec.data.formats.delimited._BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr("ratiorec.data.formats.delimited._SAMPLE_BYTES", 1 << 10)
    lines = [f'i{n},"Title {n},\nline two",{n / 2},{"a|b" if n % 2 else "b"}' for n in range(500)]
    table = IdTable.read(written(tmp_path, "\n".join(["id,title,price,tags", *lines])))
    assert table.ids.tolist() == [f"i{n}" for n in range(500)]
    assert table.titles is not None
    assert table.titles[499] == "Title 499,\nline two"
    assert table.attributes.row(499) == {"price": 249.5, "tags": ["a", "b"]}
