"""The regenerated tables and figures as Markdown, with their plots in files beside it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ratiorec.files import atomic_write
from ratiorec_lab.report.markup import Markup, clean
from ratiorec_lab.reproduce import drawing
from ratiorec_lab.reproduce.exhibits import (
    BarPanel,
    CurveExhibit,
    Exhibit,
    Panel,
    Series,
    TableExhibit,
)
from ratiorec_lab.reproduce.wording import Cell, column_text, figure_text, is_writable, worded

# An entity never has a meaning in Markdown; what is common in names stays readable.
_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "|": "&#124;",
        "\\": "&#92;",
        "`": "&#96;",
        "$": "&#36;",
        **{letter: f"\\{letter}" for letter in "*_[]~#!"},
    }
)
_LONGEST_NAME = 60


def write_markdown(
    path: Path, exhibits: Sequence[Exhibit], *, title: str, facts: Mapping[str, str]
) -> None:
    """A text in GitHub's Markdown, and beside it one SVG file for each figure.

    The drawings are written first: a text that is there has all of them.
    """
    lines = [f"# {inline(title)}", "", *_facts(facts)]
    plots: dict[str, Markup] = {}
    for exhibit in exhibits:
        drawn = _sheet(exhibit)
        name = "" if drawn is None else _file_name(path.stem, exhibit.id, plots)
        if drawn is not None:
            plots[name] = drawn
        lines += [f"## {inline(exhibit.title)}", "", *_exhibit(exhibit, name)]
        lines += _remarks(exhibit.remarks)
    for name, drawn in plots.items():
        _write(path.with_name(name), f"{drawn}\n")
    _write(path, "\n".join(lines).rstrip("\n") + "\n")


def _write(path: Path, text: str) -> None:
    content = text.encode()
    with atomic_write(path) as handle:
        handle.write(content)


def inline(text: str) -> str:
    """Plain words as Markdown that means nothing but them, on one line.

    >>> inline("a|b <i> *c*"), inline("- 1 %")
    ('a&#124;b &lt;i&gt; \\\\*c\\\\*', '\\\\- 1 %')
    """
    safe = " ".join(clean(text).split()).translate(_ESCAPES).replace("://", "&#58;//")
    # At the beginning of a line these would make a list, a heading or a rule.
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", safe)


def _file_name(stem: str, exhibit: str, taken: Collection[str]) -> str:
    """A name that is safe in a path and in a link, and that no other plot has."""
    plain = _plain(f"{stem}-{exhibit}")
    numbers = itertools.count(2)
    name = f"{plain}.svg"
    while name in taken:
        name = f"{plain}-{next(numbers)}.svg"
    return name


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:_LONGEST_NAME] or "figure"


def _sheet(exhibit: Exhibit) -> Markup | None:
    if isinstance(exhibit, TableExhibit):
        return None
    if isinstance(exhibit, CurveExhibit):
        charts = [drawing.curve_chart(panel) for panel in exhibit.panels]
    else:
        charts = [drawing.bar_chart(panel) for panel in exhibit.panels]
    return drawing.sheet(charts, title=exhibit.title) if charts else None


def _facts(facts: Mapping[str, str]) -> Iterator[str]:
    yield from (f"- **{inline(key)}**: {inline(value)}" for key, value in facts.items())
    yield ""


def _table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, words: Collection[int] = ()
) -> Iterator[str]:
    """Cells that are Markdown already; figures to the right, unless a column holds words."""
    yield _line(headers)
    yield _line([":---" if k == 0 or k in words else "---:" for k in range(len(headers))])
    yield from map(_line, rows)
    yield ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _exhibit(exhibit: Exhibit, plot: str) -> Iterator[str]:
    yield from (inline(exhibit.caption), "")
    if isinstance(exhibit, TableExhibit):
        yield from _figures(exhibit)
        return
    if plot:
        yield from (f"![{inline(exhibit.title)}]({plot})", "")
    for panel in exhibit.panels:
        yield from (f"**{inline(panel.title)}**", "")
        yield from _ends(panel) if isinstance(panel, Panel) else _bars(panel)


def _figures(table: TableExhibit) -> Iterator[str]:
    words = worded(table)
    rows = [[inline(name), *map(_cell, cells)] for name, cells in words.rows]
    columns = zip(*(cells for _, cells in words.rows), strict=True)
    texts = [k for k, cells in enumerate(columns, 1) if all(cell.is_text for cell in cells)]
    yield from _table(["", *map(inline, table.columns)], rows, words=texts)
    if words.how_to_read:
        yield from (words.how_to_read, "")
    for letter, remark in words.notes.items():
        yield from (f"<sup>{letter}</sup> {inline(remark)}", "")


def _cell(cell: Cell) -> str:
    """Our figure above the published one."""
    if cell.is_text:
        return inline(cell.ours)
    note = f"<sup>{cell.note}</sup>" if cell.note else ""
    ours = f"**{cell.ours}**" if cell.is_best else cell.ours
    upper = " ".join(filter(None, (ours, cell.spread))) + note
    lower = ", ".join(filter(None, (cell.published, cell.difference)))
    return _unbroken(f"{upper}<br>{lower}" if lower else upper)


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _ends(panel: Panel) -> Iterator[str]:
    """Where each curve ends and where it is highest."""
    headers = ["", f"last {panel.x_label}", f"last {panel.y_label}", "highest", "there"]
    write = column_text([y for one in panel.series for _, y in _known(one)])
    rows = []
    for one in panel.series:
        known = _known(one)
        if known:
            last, best = known[-1], max(known, key=lambda point: point[1])
            texts = [figure_text(last[0]), write(last[1]), write(best[1]), figure_text(best[0])]
        else:
            texts = ["no points", "", "", ""]
        rows.append([inline(drawing.series_name(one)), *texts])
    yield from _table([*map(inline, headers)], rows)
    if told := drawing.undrawn(panel):
        yield from (inline(told), "")


def _known(series: Series) -> list[tuple[float, float]]:
    return [(x, y) for x, y in series.points if is_writable(x) and is_writable(y)]


def _bars(panel: BarPanel) -> Iterator[str]:
    headers = [panel.value_label, drawing.OURS, drawing.PUBLISHED, "difference"]
    rows = [[inline(name), *texts] for name, *texts in drawing.bar_rows(panel)]
    yield from _table([*map(inline, headers)], rows)


def _remarks(remarks: Sequence[str]) -> Iterator[str]:
    if remarks:
        yield from ("### Where we differ", "")
        yield from (f"- {inline(remark)}" for remark in remarks)
        yield ""
