"""Codes of cells: equal bytes have equal codes, looked up for a whole column at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
