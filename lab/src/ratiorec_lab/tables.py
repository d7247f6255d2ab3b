"""Tables in writing: Markdown for pages, aligned columns for a terminal, and figures in short."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def in_seconds(value: float | None) -> str:
    """Three digits with a unit; nothing for nothing.

    >>> in_seconds(0.01234), in_seconds(75), in_seconds(1234.4), in_seconds(None)
    ('12.3 ms', '75 s', '1,234 s', '')
    """
    if value is None:
        return ""
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{in_digits(value)} s"


def in_megabytes(value: float) -> str:
    """Three digits with the unit.

    >>> in_megabytes(2.345), in_megabytes(1234)
    ('2.35 MB', '1,234 MB')
    """
    return f"{in_digits(value)} MB"


def in_digits(value: float | None) -> str:
    """Three digits, or all those before the point; nothing for nothing.

    >>> in_digits(0.27041), in_digits(12345.6), in_digits(None)
    ('0.27', '12,346', '')
    """
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def markdown_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()
) -> str:
    """A table in Markdown; cells are Markdown already, and columns in `right` stand to the right.

    >>> print(markdown_table(["a", "b"], [["x", "1"]], right=[1]))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    rule = ["---:" if place in right else "---" for place in range(len(headers))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headers, rule, *rows))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns, the first row being headers.

    Figures stand to the right; names and remarks, whose columns have no header, to the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if header else str.ljust for header in rows[0]]
    columns = list(zip(sides, widths, strict=True))
    return [
        "  ".join(side(cell, n) for cell, (side, n) in zip(row, columns, strict=True)).rstrip()
        for row in rows
    ]
