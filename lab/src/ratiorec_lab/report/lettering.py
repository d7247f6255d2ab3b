"""How much room text takes, guessed without the reader's fonts.

The widths are those of a wide sans-serif face, so that in a narrower one text still fits.
"""

from __future__ import annotations

import unicodedata

_THIN = frozenset("iljtfrI.,:;'|!()[] /-·")
_BROAD = frozenset("mwMWOQGDNH%@&—…×−+=<>")


def text_width(text: str, size: float) -> float:
    """The width of a line of text set in letters of this size."""
    return size * sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.1
    if letter in _THIN:
        return 0.42
    if letter in _BROAD:
        return 0.95
    return 0.7 if letter.isupper() else 0.64


def shorten(text: str, size: float, room: float) -> str:
    """The text itself where it fits, else as much of it as does, with an ellipsis."""
    if text_width(text, size) <= room:
        return text
    kept = text
    while kept and text_width(kept + "…", size) > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def wrap(text: str, size: float, room: float, *, n_lines: int) -> list[str]:
    """The text in at most `n_lines` lines; what does not fit is shortened.

    >>> wrap("most popular", size=10, room=60, n_lines=2)
    ['most', 'popular']
    """
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (text_width(longer, size) <= room or len(lines) == n_lines):
            lines[-1] = longer
        else:
            lines.append(word)
    return [shorten(line, size, room) for line in lines]
