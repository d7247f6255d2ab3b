"""Cells of delimited text: bytes cut at delimiters and line ends that stand outside quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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
