"""Ids have one form, whatever they were read from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratiorec.data.formats import read
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import DataError


def users_of(folder: Path, *cells: str) -> list[Any]:
    rows = "".join(f"{cell},x{n}\n" for n, cell in enumerate(cells))
    (folder / "x.csv").write_text(f"user,item\n{rows}")
    ids: list[Any] = read(folder / "x.csv").users.ids.tolist()
    return ids


def test_whole_numbers_are_one_user_from_every_source(tmp_path: Path) -> None:
    assert users_of(tmp_path, "3", "12") == [3, 12]
    assert users_of(tmp_path, "3.0", "12.0") == [3, 12]
    pq.write_table(pa.table({"user": [3.0, 12.0], "item": [1, 2]}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet").users.ids.tolist() == [3, 12]
    frame = pd.DataFrame({"user": [3.0, 12.0], "item": [1, 2]})
    assert Interactions.from_frame(frame).users.ids.tolist() == [3, 12]
    assert Interactions.from_frame(frame.astype({"user": str})).users.ids.tolist() == ["3", "12"]


def test_two_forms_of_a_whole_number_are_one_user(tmp_path: Path) -> None:
    assert users_of(tmp_path, "3", "12", "3.0", "-4.0") == [-4, 3, 12]


@pytest.mark.parametrize("cells", [("3.0", "3.5"), ("007", "7"), ("007", "7.0"), ("3.0", "ann")])
def test_ids_that_are_not_all_whole_numbers_stay_as_they_are_written(
    tmp_path: Path, cells: tuple[str, ...]
) -> None:
    assert users_of(tmp_path, *cells) == list(cells)


@pytest.mark.parametrize("odd", ["3.5", "ann"])
def test_one_id_in_two_forms_beside_other_text_is_refused(tmp_path: Path, odd: str) -> None:
    with pytest.raises(DataError, match="one user id is written in two forms") as caught:
        users_of(tmp_path, "3", "3.0", odd)
    assert caught.value.found == f"'3' and '3.0', beside {odd!r}, which is no whole number"


@pytest.mark.parametrize("stored", [[3, 12], ["3", "12"], ["3.0", "12.0", "ann"]])
def test_a_vocabulary_finds_a_whole_number_in_either_form(stored: list[Any]) -> None:
    ids = stored if isinstance(stored[0], int) else np.array(stored, dtype=object)
    vocabulary = Vocabulary(np.asarray(ids), "user")
    assert vocabulary.indices(["12", "12.0", 12, 12.0, np.int32(12)]).tolist() == [1] * 5
    assert vocabulary.indices(["012", "12.5"], on_unknown="skip").tolist() == [-1, -1]


def test_quotes_around_an_id_are_no_part_of_it(tmp_path: Path) -> None:
    assert users_of(tmp_path, '"ann"', "ann", '"bob"') == ["ann", "bob"]
