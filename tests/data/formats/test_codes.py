"""Codes of cells: those of a dictionary, whatever the cells and however they come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.data.formats import cells as cutting
from ratiorec.data.formats.cells import Codebook

cells = st.one_of(
    st.sampled_from([b"", b"\0", b"a", b"a\0", b"12345678", b"123456789", b"x" * 63, b"x" * 64]),
    st.sampled_from([b"x" * 65, b"x" * 65 + b"y", b"x" * 200]),
    st.binary(max_size=20),
)


def encode(book: Codebook, batch: list[bytes]) -> list[int]:
    text = np.frombuffer(b",".join(batch) + b"\n", np.uint8)
    lengths = [len(cell) + 1 for cell in batch]
    return book.encode(text, np.cumsum(lengths) - lengths, batch).tolist()


@given(batches=st.lists(st.lists(cells, min_size=1), max_size=4))
def test_codes_are_those_of_a_dictionary(batches: list[list[bytes]]) -> None:
    book, known = Codebook(), dict[bytes, int]()
    for batch in batches:
        n_before = len(known)
        assert encode(book, batch) == [known.setdefault(cell, len(known)) for cell in batch]
        assert book.newest(len(known) - n_before) == list(known)[n_before:]


def test_cells_that_share_a_slot_keep_their_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "_FACTOR", np.uint64(0))  # one hash for all
    book, batch = Codebook(), [b"a", b"b", b"a", b"12345678abc", b"12345678abd"]
    for _ in range(3):
        assert encode(book, batch) == [0, 1, 0, 2, 3]


def test_the_table_grows_with_the_codes() -> None:
    book = Codebook()
    batches = [
        [b"user-%d" % (row * 7919 % 30_011) for row in range(start, start + 9000)]
        for start in range(0, 60_000, 9000)
    ]
    known = dict[bytes, int]()
    for batch in batches:
        assert encode(book, batch) == [known.setdefault(cell, len(known)) for cell in batch]
    assert len(book._slots) > 1 << 16
