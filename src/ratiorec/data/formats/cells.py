"""Cells of delimited text, cut at delimiters and line ends outside quotes, and their codes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ONE_BYTE_DELIMITER = "\x1f"  # replaces a longer one
_QUOTE, _LF, _CR = 34, 10, 13
_QUOTED = re.compile(r'"((?:[^"]|"")*+)"?(.*)', re.DOTALL)


class Rows(NamedTuple):
    """Whole rows of a text.

    `text` has one byte for each line end and delimiter; `ends` are the places of the line ends
    that end a row, `widths` the numbers of cells of each row, `cells` all of these, and `starts`
    the places where they begin. A blank line is a row of one empty cell.
    """

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    widths: NDArray[np.int64]
    cells: list[bytes]
    starts: NDArray[np.int64]
    is_quoted: bool

    @property
    def line_ends(self) -> NDArray[np.int64]:
        """The places of all line ends, those in quotes too."""
        return np.flatnonzero(self.text == _LF)


def cut(content: bytes, delimiter: str, *, has_quotes: bool, is_last: bool) -> tuple[Rows, bytes]:
    """The rows that end in the content, and what is left over for the next.

    Where nothing follows (`is_last`), the end of the content ends a row, except in open quotes.
    """
    mark = delimiter.encode()
    if len(mark) > 1:
        content = content.replace(mark, ONE_BYTE_DELIMITER.encode())
        mark = ONE_BYTE_DELIMITER.encode()
    if is_last and content[-1:] not in (b"\n", b"\r", b""):
        content += b"\n"
    outside: NDArray[np.bool_] | None
    if has_quotes and b'"' in content:
        text, outside, n_rest = _quoted_rows(content, mark[0], is_last=is_last)
    else:
        text, outside, n_rest = _plain_rows(content, is_last=is_last)
    is_cut = (text == mark[0]) | (text == _LF)
    cuts = np.flatnonzero(is_cut if outside is None else is_cut & outside)
    is_end = text[cuts] == _LF
    widths = np.diff(np.flatnonzero(is_end), prepend=-1)
    starts = np.append(0, cuts[:-1] + 1)[: len(cuts)]
    cells = _split(text, cuts, mark, is_quoted=outside is not None)
    rows = Rows(text, cuts[is_end], widths, cells, starts, outside is not None)
    return rows, content[len(content) - n_rest :]


def texts_of(cells: Sequence[bytes], delimiter: str, *, is_quoted: bool) -> list[str]:
    """Cells as text without their quotes; bytes that are no UTF-8 stay as surrogates."""
    texts = [cell.decode(errors="surrogateescape") for cell in cells]
    if is_quoted:
        texts = [_unquoted(text) if text[:1] == '"' else text for text in texts]
    if len(delimiter.encode()) > 1:
        texts = [text.replace(ONE_BYTE_DELIMITER, delimiter) for text in texts]
    return texts


def first_rows(
    content: bytes, delimiter: str, *, has_quotes: bool, is_last: bool
) -> list[list[str]]:
    """The rows at the start of a text, without blank lines."""
    rows, _ = cut(content, delimiter, has_quotes=has_quotes, is_last=is_last)
    texts = texts_of(rows.cells, delimiter, is_quoted=rows.is_quoted)
    shown = [text.encode(errors="surrogateescape").decode(errors="replace") for text in texts]
    stops = np.cumsum(rows.widths).tolist()
    cut_up = [shown[a:b] for a, b in zip([0, *stops], stops, strict=False)]
    return [row for row in cut_up if row != [""]]


def _plain_rows(content: bytes, *, is_last: bool) -> tuple[NDArray[np.uint8], None, int]:
    """The bytes of whole rows, where no cell is quoted, and how many are left over."""
    end = content.rfind(b"\n") + 1 or content.rfind(b"\r", 0, -1) + 1
    rows = content if is_last else content[:end]
    n_rest = len(content) - len(rows)
    if b"\r" in rows:
        rows = rows.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return np.frombuffer(rows, np.uint8), None, n_rest


def _quoted_rows(
    content: bytes, delimiter: int, *, is_last: bool
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], int]:
    """The bytes of whole rows, which of them are outside quotes, and how many are left over."""
    text = np.frombuffer(content, np.uint8)
    outside = _outside_quotes(text, delimiter)
    breaks = np.flatnonzero(((text == _LF) | (text == _CR)) & outside)
    if len(breaks) and not is_last and text[breaks[-1]] == _CR:
        breaks = breaks[breaks < len(text) - 1]  # its other half may be yet to come
    end = int(breaks[-1]) + 1 if len(breaks) else 0
    text, outside = text[:end].copy(), outside[:end]
    returns = (text == _CR) & outside
    is_pair = returns & np.append(text[1:] == _LF, False)
    text[returns] = _LF
    return text[~is_pair], outside[~is_pair], len(content) - end


def _outside_quotes(text: NDArray[np.uint8], delimiter: int) -> NDArray[np.bool_]:
    """Whether each byte is outside quotes: an even number of quotes stands before it.

    That holds where every other quote begins a cell or doubles the one before it; else the quotes
    are gone through one by one, since those inside a bare cell are letters like any other.
    """
    is_quote = text == _QUOTE
    quotes = np.flatnonzero(is_quote)
    before = text[quotes[::2] - 1]
    begins = (before == delimiter) | (before == _LF) | (before == _CR) | (before == _QUOTE)
    if not (begins | (quotes[::2] == 0)).all():
        is_quote = np.zeros_like(is_quote)
        is_quote[_quotes_around_cells(text.tobytes(), quotes.tolist(), delimiter)] = True
    n_before: NDArray[np.uint8] = np.cumsum(is_quote, dtype=np.uint8)  # its last bit is enough
    outside: NDArray[np.bool_] = n_before % 2 == 0
    return outside


def _quotes_around_cells(text: bytes, quotes: list[int], delimiter: int) -> list[int]:
    found: list[int] = []
    is_inside, doubled = False, -1
    for place in quotes:
        if place == doubled:
            found.append(place)
        elif is_inside:
            found.append(place)
            is_inside = text[place + 1 : place + 2] == b'"'
            doubled = place + 1 if is_inside else -1
        elif not place or text[place - 1] in (delimiter, _LF, _CR):
            found.append(place)
            is_inside = True
    return found


def _split(
    text: NDArray[np.uint8], cuts: NDArray[np.int64], delimiter: bytes, *, is_quoted: bool
) -> list[bytes]:
    """What stands between the cuts."""
    content = text.tobytes()
    if not is_quoted:
        return content.replace(b"\n", delimiter).split(delimiter)[:-1]
    if b"\xff" not in content:  # no byte of UTF-8
        marked = text.copy()
        marked[cuts] = 0xFF
        return marked.tobytes().split(b"\xff")[:-1]
    starts = [0, *(cuts[:-1] + 1).tolist()]
    return [content[start:end] for start, end in zip(starts, cuts.tolist(), strict=True)]


def _unquoted(text: str) -> str:
    """What is in quotes, each doubled quote as one, and what may follow them."""
    inner = text[1:-1]
    if text[1:].endswith('"') and '"' not in inner:
        return inner
    parts = _QUOTED.fullmatch(text)
    assert parts is not None
    return parts[1].replace('""', '"') + parts[2]


# Codes: equal bytes have equal codes, looked up for a whole column at once

_WORD, _MOST_WORDS = 8, 8  # bytes a word; a longer cell is looked up by itself
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_SLOTS_PER_CODE = 8


class Codebook:
    """Codes in the order of first appearance.

    A dictionary holds every cell. In front of it stands a table of slots, by a hash of the cell's
    words; what it finds is compared word by word, so that a row goes to the dictionary only if its
    cell is new, is long, or shares its slot. Numpy does this several times as fast.
    """

    def __init__(self) -> None:
        self._codes: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._slots = np.full(1 << 16, -1, np.int32)
        self._hashes = np.zeros(0, np.uint64)
        self._lengths = np.zeros(0, np.int64)
        self._starts = np.zeros(0, np.int64)
        self._words = np.zeros(_MOST_WORDS, np.uint64)  # of all codes, and room to read beyond

    def __len__(self) -> int:
        return len(self._codes)

    def newest(self, n: int) -> list[bytes]:
        """The cells of the last codes, in their order."""
        return list(islice(reversed(self._codes), n))[::-1]

    def encode(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], cells: Sequence[bytes]
    ) -> NDArray[np.int32]:
        """The codes of cells that begin at these places of a text."""
        lengths = np.fromiter(map(len, cells), np.int64, len(cells))
        keys = _keys(text, starts, lengths)
        hashes = lengths.astype(np.uint64)
        for key in keys:
            hashes = (hashes ^ key) * _FACTOR
            hashes ^= hashes >> _SHIFT
        codes: NDArray[np.int32] = self._slots[self._slots_of(hashes)]
        unknown = np.flatnonzero(~self._is_right(codes, keys, lengths))
        if len(unknown):
            n_before = len(self)
            found = [self._codes[cells[row]] for row in unknown.tolist()]
            codes[unknown] = found
            new, first = np.unique(codes[unknown], return_index=True)
            rows = unknown[first[new >= n_before]]
            self._learn([key[rows] for key in keys], lengths[rows], hashes[rows])
        return codes

    def _slots_of(self, hashes: NDArray[np.uint64]) -> NDArray[Any]:
        return hashes >> np.uint64(65 - len(self._slots).bit_length())

    def _is_right(
        self, codes: NDArray[np.int32], keys: list[NDArray[np.uint64]], lengths: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each code stands for the cell with these words and this length."""
        if not len(self):
            return np.zeros(len(codes), dtype=bool)
        is_right: NDArray[np.bool_] = (codes >= 0) & (self._lengths[codes] == lengths)
        starts = self._starts[codes]
        for place, key in enumerate(keys):
            is_beyond = lengths <= place * _WORD
            is_right &= is_beyond | (self._words[starts + place] == key)
        return is_right

    def _learn(
        self, keys: list[NDArray[np.uint64]], lengths: NDArray[np.int64], hashes: NDArray[np.uint64]
    ) -> None:
        """Take the words of new codes into the table."""
        is_long = lengths > _WORD * _MOST_WORDS
        n_words = np.where(is_long, 0, -(-lengths // _WORD))
        is_used = np.arange(len(keys)) < n_words[:, None]
        end = len(self._words) - _MOST_WORDS
        self._starts = np.append(self._starts, end + np.cumsum(n_words) - n_words)
        self._lengths = np.append(self._lengths, np.where(is_long, -1, lengths))
        self._hashes = np.append(self._hashes, hashes)
        room = np.zeros(_MOST_WORDS, np.uint64)
        words = np.stack(keys, axis=1)[is_used]
        self._words = np.concatenate([self._words[:end], words, room])
        while len(self._slots) < _SLOTS_PER_CODE * len(self):
            self._slots = np.full(2 * len(self._slots), -1, np.int32)
        self._slots[self._slots_of(self._hashes)] = np.arange(len(self), dtype=np.int32)


def _keys(
    text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> list[NDArray[np.uint64]]:
    """The words of each cell, filled up with zeros; the first ones of a long cell."""
    padded = np.append(text, np.zeros(_WORD * _MOST_WORDS, np.uint8))
    windows = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
    longest = int(lengths.max(initial=0))
    keys = []
    for place in range(0, min(max(longest, 1), _WORD * _MOST_WORDS), _WORD):
        n_bytes = np.clip(lengths - place, 0, _WORD)
        inside = np.minimum(starts + place, len(windows) - 1)
        keys.append(windows[inside] & _MASKS[n_bytes])
    return keys
