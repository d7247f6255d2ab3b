"""Tables of the pages, read back."""

from __future__ import annotations


def cells(text: str) -> list[list[str]]:
    """The cells of a table, header first, without its rule."""
    header, _, *found = (line[2:-2].split(" | ") for line in text.splitlines() if line[:1] == "|")
    return [header, *found]


def rows(text: str) -> list[dict[str, str]]:
    """The rows of a table, by column."""
    header, *found = cells(text)
    return [dict(zip(header, row, strict=True)) for row in found]
