"""Headers that are no known names: refused with a guess; rows of words stay usable."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ratiorec.data.formats import Columns, read
from ratiorec.errors import DataError


def file_of(folder: Path, *lines: str) -> Path:
    path = folder / "pairs.csv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def refusal(path: Path, **options: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read(path, **options)  # type: ignore[arg-type]
    return caught.value


def purchases(n: int = 200) -> list[str]:
    draw = random.Random(0)
    return [
        f"{draw.choice(['DE', 'AT', 'CH'])},K{draw.randrange(60)},A-{draw.randrange(40)}"
        for _ in range(n)
    ]


def test_a_header_of_unknown_words_is_refused_with_the_columns_and_a_guess(tmp_path: Path) -> None:
    path = file_of(tmp_path, "land,kunde,artikel", *purchases())
    error = refusal(path)
    assert error.found == "the columns 'land', 'kunde', 'artikel'"
    assert "columns=Columns(user='kunde', item='artikel')" in error.wanted
    assert "header=False" in error.wanted
    assert read(path, columns=Columns(user="kunde", item="artikel")).users.ids[0][0] == "K"


@pytest.mark.parametrize(
    ("header", "row", "guess"),
    [
        ("cust_no,article_no", "ada,tea", "user='cust_no', item='article_no'"),
        ("artikel,kunde", "tea,ada", "user='kunde', item='artikel'"),
        ("alpha,beta", "ada@x.org,tea-1", "user='alpha', item='beta'"),
        ("Alpha,Beta", "ada,tea", "user='Alpha', item='Beta'"),
    ],
)
def test_a_short_file_below_unknown_words_is_refused_with_a_guess(
    tmp_path: Path, header: str, row: str, guess: str
) -> None:
    assert f"columns=Columns({guess})" in refusal(file_of(tmp_path, header, row)).wanted


def test_a_first_line_that_may_be_either_says_so(tmp_path: Path) -> None:
    error = refusal(file_of(tmp_path, "ada,tea", "bob,jam", "cy,pies"))
    assert error.what == "the first line may be column names or a row"
    assert error.where.endswith("line 1")
    assert "'ada', 'tea'" in error.found
    assert read(tmp_path / "pairs.csv", header=False).n_pairs == 3
    assert read(tmp_path / "pairs.csv", columns=Columns("ada", "tea")).n_pairs == 2


@pytest.mark.parametrize(
    "lines",
    [
        ["ada,tea", "bob,jam", "cy,pies", "ada,jam"],  # the user comes again
        ["ada,tea", "bob,jam", "cy,pies", "bob,tea"],  # the item does
        ["u17,tea", "u4,jam", "u230,pies"],  # digits, as in all that follow
        ["ada@x.org,tea", "bob@y.org,jam", "cy@z.org,pies"],
        ["ada,SKU-77", "bob,SKU-1", "cy,SKU-250"],
        ["xkcdqwertyui,tea", "Bqwlmnoprstu,jam", "Zqwlmnoprsta,pie", "kqwlmnoprstb,ale"],
        ["ada,tea,2024-05-01", "bob,jam,2024-05-02"],
    ],
)
def test_rows_of_words_without_a_header_are_read(tmp_path: Path, lines: list[str]) -> None:
    assert read(file_of(tmp_path, *lines)).n_pairs == len(lines)


def test_a_misspelt_column_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    path = file_of(tmp_path, "customer,sku,country", "a,b,DE")
    assert "did you mean customer?" in refusal(path, columns=Columns(user="custmer")).wanted
    assert "did you mean" not in refusal(path, columns=Columns(user="xyz")).wanted
