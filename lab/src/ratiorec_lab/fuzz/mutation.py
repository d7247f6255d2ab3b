"""Mutation of valid files: bytes changed, cut, repeated and spliced, words put in."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

Change = Callable[[bytearray, random.Random], None]

NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    255,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
)
"""Values at which counts, offsets and sizes go wrong."""
WORDS = (
    *(b"", b"0", b"-1", b"nan", b"inf", b"-inf", b"1e400", b"1e-400", b"NULL", b"true", b"2**31"),
    *(
        b"9" * 30,
        b"9" * 5000,
        b"0" * 40,
        b"1_0",
        b"3.0",
        b'"',
        b'""',
        b"'",
        b"\r\n",
        b"\n\n",
        b"\r",
    ),
    *(b"\t", b",", b";", b"|", b"::", b" ", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(
        "٣".encode(),
        "\u202e\u2028".encode(),
        b"2024-02-30",
        b"9999-12-31T23:59:60Z",
        b"-0",
        b"=1+1",
    ),
    *(b"[" * 200, b"{" * 200, b"{}", b"[]", b"null", b'{"k": 1e999}', b"\x1f"),
)


def mutated(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """The content with one to eight changes, one of which may take a piece of another file."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        change = rng.choice(_CHANGES)
        if change is _splice:
            _splice(changed, rng, rng.choice(others or [content]))
        else:
            change(changed, rng)
    return bytes(changed)


def _place(content: bytearray, rng: random.Random) -> int:
    """Anywhere, and more often near the ends, where headers and footers are."""
    near = min(len(content), 64)
    return rng.choice(
        (rng.randint(0, len(content)), rng.randint(0, near), len(content) - rng.randint(0, near))
    )


def _flip(content: bytearray, rng: random.Random) -> None:
    if content:
        content[_place(content, rng) % len(content)] ^= 1 << rng.randrange(8)


def _overwrite_byte(content: bytearray, rng: random.Random) -> None:
    if content:
        content[_place(content, rng) % len(content)] = rng.randrange(256)


def _overwrite_number(content: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 2, 4, 4, 8, 8))
    place, number = _place(content, rng), rng.choice(NUMBERS) + rng.choice((-1, 0, 0, 0, 1))
    if rng.random() < 0.5:
        place -= place % size
    content[place : place + size] = struct.pack("<q", number % 2**63)[:size]


def _cut_end(content: bytearray, rng: random.Random) -> None:
    del content[_place(content, rng) :]


def _cut_piece(content: bytearray, rng: random.Random) -> None:
    place = _place(content, rng)
    del content[place : place + rng.choice((1, 2, 4, 8, 64, 512))]


def _repeat_piece(content: bytearray, rng: random.Random) -> None:
    place = _place(content, rng)
    piece = content[place : place + rng.choice((1, 8, 64, 512))]
    content[place:place] = piece * rng.choice((1, 2, 50))


def _insert_word(content: bytearray, rng: random.Random) -> None:
    place = _place(content, rng)
    content[place : place + rng.choice((0, 0, 1, 4))] = rng.choice(WORDS)


def _splice(content: bytearray, rng: random.Random, other: bytes = b"") -> None:
    start, place = _place(bytearray(other), rng), _place(content, rng)
    piece = other[start : start + rng.choice((4, 16, 256, 4096))]
    content[place : place + rng.choice((0, len(piece)))] = piece


_CHANGES: tuple[Change, ...] = (
    *(_flip, _flip, _overwrite_byte, _overwrite_number, _overwrite_number, _cut_end, _cut_piece),
    *(_repeat_piece, _insert_word, _insert_word, _splice),
)
