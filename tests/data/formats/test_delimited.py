"""Text files: dialects, ids as written, and every way in which they can be wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from ratiorec.data.formats import Columns, read
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, DataNotFoundError


def write(folder: Path, text: str | bytes, name: str = "pairs.csv") -> Path:
    path = folder / name
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def pairs_of(data: Interactions) -> set[tuple[Any, Any]]:
    user_ids, item_ids = data.users.ids[data.pair_users], data.items.ids[data.indices]
    return set(zip(user_ids.tolist(), item_ids.tolist(), strict=True))


def refusal(path: Path, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return caught.value


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", "::", " "])
@pytest.mark.parametrize("header", ["user{0}item\n", ""])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.dat", "a.csv.gz"])
def test_the_delimiter_and_the_header_are_found_out(
    tmp_path: Path, delimiter: str, header: str, name: str
) -> None:
    text = (header + "ann{0}x1\nbob{0}x2\nann{0}x2\n").format(delimiter)
    assert pairs_of(read(write(tmp_path, text, name))) == {
        ("ann", "x1"),
        ("bob", "x2"),
        ("ann", "x2"),
    }


def test_any_delimiter_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, 'a,b<>c\n"d<>e"<>f\n')
    assert pairs_of(read(path, delimiter="<>", header=False)) == {("a,b", "c"), ("d<>e", "f")}


def test_a_long_delimiter_is_found_wherever_the_file_is_cut(tmp_path: Path) -> None:
    n_rows = 300_000  # several of the pieces in which the file is read
    rows = [f"{row % 7}::{row}::1" for row in range(n_rows)]
    data = read(write(tmp_path, "\n".join(rows), "ratings.dat"))
    assert data.n_pairs == n_rows
    assert data.user_degrees.sum() == n_rows
    assert data.n_users == 7


def test_a_semicolon_goes_before_a_decimal_comma(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b;3,5\nc;d;4,0\n")
    assert pairs_of(read(path)) == {("a", "b"), ("c", "d")}


def test_spaces_in_names_are_no_delimiters(tmp_path: Path) -> None:
    path = write(tmp_path, "ann lee,red hat\nbob ray,big box\n")
    assert pairs_of(read(path, header=False)) == {("ann lee", "red hat"), ("bob ray", "big box")}


def test_quotes_hold_delimiters_quotes_and_line_breaks(tmp_path: Path) -> None:
    path = write(tmp_path, 'user,item\n"lee, ann","a ""b"""\nbob,"two\nlines"\n')
    assert pairs_of(read(path)) == {("lee, ann", 'a "b"'), ("bob", "two\nlines")}


def test_line_breaks_in_quotes_are_kept_wherever_the_file_is_cut(tmp_path: Path) -> None:
    n_rows = 150_000  # several of the blocks that are parsed side by side
    rows = [f'"a\n{row % 7}","b\n{row}"' for row in range(n_rows)]
    data = read(write(tmp_path, "\n".join(["user,item", *rows])))
    assert (data.n_users, data.n_items, data.n_pairs) == (7, n_rows, n_rows)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_line_ending_is_understood(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, ending.join(["user,item", "1,2", "3,4", ""]))
    assert pairs_of(read(path)) == {(1, 2), (3, 4)}


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffuser,item\n\n1,2\n\n3,4\n\n")
    assert pairs_of(read(path)) == {(1, 2), (3, 4)}


def test_gzip_is_known_by_its_bytes_not_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b"user,item\n1,2\n"))
    assert pairs_of(read(path)) == {(1, 2)}


def test_weights_and_timestamps_come_by_name(tmp_path: Path) -> None:
    data = read(write(tmp_path, "rating,item,ts,user\n0.5,a,30,ann\n2,a,20,ann\n"))
    assert data.weights is not None
    assert data.timestamps is not None
    assert data.weights.tolist() == [0.5 + 2.0]
    assert data.timestamps.tolist() == [30]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["10", "20"], [10, 20]),
        (["1.5", "2"], [1.5, 2.0]),
        (["1970-01-01", "1970-01-02"], [0, 86_400 * 10**6]),
        (["1970-01-01 00:00:01", "1970-01-01 00:00:00.5"], [10**6, 5 * 10**5]),
        (["1970-01-01T00:00:01Z", "1970-01-01T01:00:00+01:00"], [10**6, 0]),
        (["1970-01-01 00:00:01 UTC", "1970-01-01 00:00:00Z"], [10**6, 0]),
        (["1970-01-01 00:00:01 UTC", "1970-01-01T01:00:00+01:00"], [10**6, 0]),
    ],
)
def test_times_are_numbers_or_dates(
    tmp_path: Path, cells: list[str], expected: list[float]
) -> None:
    data = read(write(tmp_path, f"user,item,time\n1,1,{cells[0]}\n2,2,{cells[1]}\n"))
    assert data.timestamps is not None
    assert data.timestamps.tolist() == expected


def test_the_third_and_fourth_columns_without_header_are_weight_and_time(tmp_path: Path) -> None:
    data = read(write(tmp_path, "1::10::4.5::900\n2::20::1.5::800\n", "ratings.dat"))
    assert data.weights is not None
    assert data.timestamps is not None
    assert data.weights.tolist() == [4.5, 1.5]
    assert data.timestamps.tolist() == [900, 800]


def test_a_third_column_of_words_without_header_is_no_weight(tmp_path: Path) -> None:
    data = read(write(tmp_path, "ann,x1,view,2024-05-01\nbob,x2,buy,2024-05-02\n"))
    assert data.weights is None
    assert data.timestamps is not None
    assert data.timestamps[1] - data.timestamps[0] == 86_400 * 10**6


def test_a_header_can_be_denied(tmp_path: Path) -> None:
    path = write(tmp_path, "user,item\nann,x1\n")
    assert pairs_of(read(path, header=False)) == {("user", "item"), ("ann", "x1")}


def test_a_row_taken_for_a_header_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path, "ann,book\nbob,lamp\n")
    assert "header=False" in refusal(path).wanted
    assert pairs_of(read(path, header=False)) == {("ann", "book"), ("bob", "lamp")}


def test_a_header_of_other_names_is_noticed_above_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, "buyer,thing\n1,2\n3,4\n")
    assert "'buyer', 'thing'" in refusal(path).found
    assert pairs_of(read(path, columns=Columns(user="buyer", item="thing"))) == {(1, 2), (3, 4)}
    assert pairs_of(read(path, columns=Columns(user=1, item=0))) == {(2, 1), (4, 3)}


def test_integers_written_plainly_are_integers_in_ascending_order(tmp_path: Path) -> None:
    data = read(write(tmp_path, "user,item\n10,-5\n9,300\n"))
    assert data.users.ids.tolist() == [9, 10]
    assert data.items.ids.tolist() == [-5, 300]


@pytest.mark.parametrize("odd", ["007", "+7", "7.5", " 7", "1e3", "9223372036854775808"])
def test_an_id_that_would_lose_characters_keeps_its_column_text(tmp_path: Path, odd: str) -> None:
    data = read(write(tmp_path, f"user,item\n12,1\n{odd},1\n3,2\n"))
    assert data.users.ids.tolist() == ["12", odd, "3"]
    assert data.items.ids.tolist() == [1, 2]


def test_text_ids_are_numbered_by_first_appearance(tmp_path: Path) -> None:
    data = read(write(tmp_path, "user,item\nzoe,b\nann,c\nzoe,a\n"))
    assert data.users.ids.tolist() == ["zoe", "ann"]
    assert data.items.ids.tolist() == ["b", "c", "a"]


def test_uuids_in_text_are_stored_in_canonical_form(tmp_path: Path) -> None:
    upper = "12345678-9ABC-DEF0-1234-56789ABCDEF0"
    data = read(write(tmp_path, f"user,item\n{upper},x\n{upper.lower()},y\n"))
    assert data.users.ids.tolist() == [upper.lower()]


def test_an_inter_file_is_read_by_its_typed_header(tmp_path: Path) -> None:
    text = 'rating:float\tuser_id:token\titem_id:token\n3\tann\t"q\n5\tbob\tx\n'
    data = read(write(tmp_path, text, "toy.inter"))
    assert pairs_of(data) == {("ann", '"q'), ("bob", "x")}
    assert data.weights is not None
    assert data.weights.tolist() == [3.0, 5.0]
    named = read(tmp_path / "toy.inter", columns=Columns(user="item_id", item="user_id"))
    assert pairs_of(named) == {('"q', "ann"), ("x", "bob")}


def test_columns_that_are_not_used_may_hold_anything(tmp_path: Path) -> None:
    path = write(tmp_path, b"user,item,title\n1,2,caf\xe9\n3,4,\n")
    assert pairs_of(read(path)) == {(1, 2), (3, 4)}


# What is wrong with a file, one test each


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none.csv")
    assert isinstance(error, DataNotFoundError)
    assert isinstance(error, FileNotFoundError)
    assert error.where.endswith("none.csv")


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path).found == "no file"
    write(tmp_path, "PK", "photo.jpg")
    assert refusal(tmp_path).found == "1 other files"


@pytest.mark.parametrize(
    ("name", "suffix"), [("a.xlsx", ".xlsx"), ("a.parquet.gz", ".gz"), ("a.gz", ".gz"), ("a", "")]
)
def test_an_unknown_suffix_is_refused_with_the_known_ones(
    tmp_path: Path, name: str, suffix: str
) -> None:
    error = refusal(write(tmp_path, "1,2\n", name))
    assert error.found == f"the suffix {suffix!r}"
    assert ".parquet" in error.wanted


@pytest.mark.parametrize("text", ["", "\n\n", "\r\n"])
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str, name: str) -> None:
    assert refusal(write(tmp_path, text, name)).what == "the file is empty"


@pytest.mark.parametrize("text", ["user,item\n", "user,item"])
def test_a_header_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    error = refusal(write(tmp_path, text))
    assert error.what == "there are no rows"
    assert error.found == "column names only: user, item"


def test_a_wrong_delimiter_is_refused_with_a_better_one(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "user,item\n1,2\n"), delimiter=";")
    assert error.what == "the rows have one column only"
    assert "','" in error.wanted
    assert "';'" in error.found


def test_an_empty_delimiter_is_refused(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "1,2\n"), delimiter="").where == "delimiter"


def test_a_file_without_any_delimiter_is_refused(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "ann\nbob\n"))
    assert error.what == "the rows have one column only"
    assert "'ann'" in error.found


def test_a_missing_column_is_refused_with_the_columns_found(tmp_path: Path) -> None:
    path = write(tmp_path, "user_id,thing\nann,x\n")
    assert refusal(path).found == "the columns 'user_id', 'thing'"
    assert "'sku'" in refusal(path, columns=Columns(item="sku")).wanted


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz"])
def test_bytes_that_are_not_utf_8_are_refused_by_line(tmp_path: Path, name: str) -> None:
    error = refusal(write(tmp_path, b"user,item\nann,x\nj\xf6rg,y\n", name))
    assert error.what == "the text is not UTF-8"
    assert "line 3" in error.where
    assert error.found == r"b'\xf6'"


def test_another_encoding_of_plain_letters_is_refused(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "user,item\nann,x\n".encode("utf-16")))
    assert error.what == "the text is not UTF-8"
    assert "UTF-16" in error.found


@pytest.mark.parametrize("missing", ["", " ", "NaN", "nan", "null", "NULL", "None", "<NA>"])
@pytest.mark.parametrize("row", ["{},x", "ann,{}"])
def test_a_missing_id_is_refused_by_line(tmp_path: Path, missing: str, row: str) -> None:
    error = refusal(write(tmp_path, f"user,item\n\nann,x\n{row.format(missing)}\nbob,y\n"))
    assert error.what == f"missing {'user' if row.startswith('{') else 'item'} id"
    assert error.where.endswith("line 4")
    assert error.found == repr(missing)


def test_the_line_of_a_row_counts_line_breaks_in_quotes(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, 'user,item\n"two\nlines",x\n,y\n'))
    assert error.where.endswith("line 4")


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("-1", "a weight is negative"),
        ("nan", "a weight is not a finite number"),
        ("inf", "a weight is not a finite number"),
        ("much", "a weight cannot be read"),
        ("", "a weight cannot be read"),
    ],
)
def test_a_weight_that_is_no_weight_is_refused_by_line(
    tmp_path: Path, cell: str, what: str
) -> None:
    error = refusal(write(tmp_path, f"user,item,weight\n1,1,1\n2,2,{cell}\n3,3,1\n"))
    assert error.what == what
    assert error.where.endswith("line 3")


@pytest.mark.parametrize("bad_row", range(7))
def test_a_word_among_the_weights_is_found_in_any_row(tmp_path: Path, bad_row: int) -> None:
    rows = [f"{row},{row},{'x' if row == bad_row else '1'}" for row in range(7)]
    error = refusal(write(tmp_path, "\n".join(["user,item,weight", *rows])))
    assert error.where.endswith(f"line {bad_row + 2}")


def test_a_word_far_down_a_headerless_weight_column_is_refused(tmp_path: Path) -> None:
    rows = [f"{row},{row % 10},1" for row in range(20_000)] + ["5,5,often"]
    error = refusal(write(tmp_path, "\n".join(rows)))
    assert error.found == "'often'"
    assert error.where.endswith("line 20001")


def test_a_time_that_is_no_time_is_refused_by_line(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "user,item,date\n1,1,2024-01-31\n2,2,31/01/2024\n"))
    assert error.what == "a timestamp cannot be read"
    assert error.where.endswith("line 3")
    assert error.found == "'31/01/2024'"


@pytest.mark.parametrize("row", ["3", "3,4,5"])
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz"])
def test_a_ragged_row_is_refused_by_line(tmp_path: Path, row: str, name: str) -> None:
    error = refusal(write(tmp_path, f"user,item\n1,2\n\n{row}\n5,6\n", name))
    assert error.what == "a row has another number of columns"
    assert error.where.endswith("line 4")
    assert error.found == f"{row.count(',') + 1} columns: {row!r}"


def test_a_quote_that_never_ends_is_refused(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, 'user,item\n1,2\n"3,4\n5,6\n'))
    assert error.what.startswith("a quote is never closed")
    assert error.where.endswith("line 3")


@pytest.mark.parametrize("n_rows", [10, 200_000])
def test_a_truncated_gzip_is_refused(tmp_path: Path, n_rows: int) -> None:
    text = "user,item\n" + "".join(f"{row},{row * 7 % 1009}\n" for row in range(n_rows))
    path = write(tmp_path, text, "pairs.csv.gz")
    path.write_bytes(path.read_bytes()[:-20])
    error = refusal(path)
    assert error.what == "the file cannot be read to its end"
    assert error.where == str(path)


def test_a_damaged_gzip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "user,item\n" + "1,2\n" * 1000, "pairs.csv.gz")
    content = bytearray(path.read_bytes())
    content[15] ^= 0xFF
    path.write_bytes(content)
    assert refusal(path).what == "the file cannot be read to its end"
