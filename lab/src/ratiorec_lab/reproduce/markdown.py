"""A report as Markdown, with its figures in files beside it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ratiorec.files import atomic_write
from ratiorec_lab.report.writing import clean
from ratiorec_lab.reproduce import drawing
from ratiorec_lab.reproduce.exhibits import (
    CurveExhibit,
    Exhibit,
    Panel,
    TableExhibit,
    by_side,
    runs_of,
)
from ratiorec_lab.reproduce.page import (
    HEADINGS,
    Evidence,
    Link,
    anchor_of,
    file_link,
    verdict_tables,
)
from ratiorec_lab.reproduce.verdict import Verdict
from ratiorec_lab.reproduce.wording import Cell, WordedTable, panel_table, worded

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
    path: Path,
    exhibits: Sequence[Exhibit],
    *,
    title: str,
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict] = (),
    links: Mapping[str, str] = MappingProxyType({}),
    other: str | None = None,
) -> None:
    """A text in GitHub's Markdown, and beside it one SVG file for each figure.

    The verdicts come first and how it was measured last. The drawings are written first: a text
    that is there has all of them. `other` is the report of the protocol `paper`.
    """
    lines = [f"# {inline(title)}", ""]
    if links:
        lines += [" · ".join(f"[{inline(text)}]({to})" for to, text in links.items()), ""]
    lines += _verdicts(verdicts, Evidence.of(exhibits, other))
    plots: dict[str, str] = {}
    for exhibit in exhibits:
        lines += [f'<a id="{anchor_of(exhibit)}"></a>', "", f"## {inline(exhibit.title)}", ""]
        lines += [inline(exhibit.caption), ""]
        if (drawn := _plot(exhibit)) is not None:
            name = _file_name(path.stem, exhibit.id, plots)
            plots[name] = drawn
            lines += [f"![{inline(exhibit.title)}]({name})", ""]
        lines += _body(exhibit)
        for side, sentences in by_side(exhibit.remarks).items():
            lines += [f"### {HEADINGS[side]}", "", *(f"- {inline(r)}" for r in sentences), ""]
        lines += _files(exhibit)
    if facts:
        lines += ["## How it was measured", ""]
        lines += [*(f"- **{inline(key)}**: {inline(value)}" for key, value in facts.items()), ""]
    for name, drawn in plots.items():
        _write(path.with_name(name), f"{drawn}\n")
    _write(path, "\n".join(lines).rstrip("\n") + "\n")


def _verdicts(verdicts: Sequence[Verdict], evidence: Evidence) -> Iterator[str]:
    if not verdicts:
        return
    yield from ("## Verdict", "")
    for table in verdict_tables(verdicts, evidence):
        yield from (inline(table.caption), "")
        yield _line(["claim", "verdict", "found", "in the paper", "evidence"])
        yield _line([":---"] * 5)
        for row in table.rows:
            cells = [_escaped(row.sentence), f"**{row.status}**"]
            cells += ["<br>".join(map(_escaped, lines)) for lines in (row.figures, row.where)]
            yield _line([*cells, "<br>".join(map(_link, row.links))])
        yield ""
        for rule in table.rules:
            yield from (inline(rule), "")


def _link(link: Link) -> str:
    return f"[{_escaped(link.text)}]({link.to})"


def _files(exhibit: Exhibit) -> Iterator[str]:
    """The files of the runs, for those who open them."""
    if runs := runs_of(exhibit):
        yield from ("<details><summary>Files of the runs</summary>", "")
        for name, paths in runs:
            yield f"- {inline(name)}: {', '.join(_link(file_link(path)) for path in paths)}"
        yield from ("", "</details>", "")


def _write(path: Path, text: str) -> None:
    content = text.encode()
    with atomic_write(path) as handle:
        handle.write(content)


def inline(text: str) -> str:
    """Plain words as Markdown that means nothing but them, on one line.

    >>> inline("a|b <i> *c*"), inline("- 1 %")
    ('a&#124;b &lt;i&gt; \\\\*c\\\\*', '\\\\- 1 %')
    """
    # At the beginning of a line these would make a list, a heading or a rule.
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", _escaped(text))


def _escaped(text: str) -> str:
    return " ".join(clean(text).split()).translate(_ESCAPES).replace("://", "&#58;//")


def _file_name(stem: str, exhibit: str, taken: Collection[str]) -> str:
    """A name that is safe in a path and in a link, and that no other plot has."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", f"{stem}-{exhibit}").strip("-")[:_LONGEST_NAME]
    names = (f"{plain or 'figure'}{end}.svg" for end in ("", *(f"-{k}" for k in range(2, 1000))))
    return next(name for name in names if name not in taken)


def _plot(exhibit: Exhibit) -> str | None:
    if isinstance(exhibit, TableExhibit) or not exhibit.panels:
        return None
    if isinstance(exhibit, CurveExhibit):
        charts = [drawing.curve_chart(panel) for panel in exhibit.panels]
    else:
        charts = [drawing.bar_chart(panel) for panel in exhibit.panels]
    return drawing.sheet(charts, title=exhibit.title)


def _body(exhibit: Exhibit) -> Iterator[str]:
    if isinstance(exhibit, TableExhibit):
        yield from _table(worded(exhibit))
        return
    for panel in exhibit.panels:
        yield from (f"**{inline(panel.title)}**", "")
        yield from _table(worded(panel_table(panel)))
        if isinstance(panel, Panel) and (told := drawing.undrawn(panel)):
            yield from (inline(told), "")


def _table(table: WordedTable) -> Iterator[str]:
    """Names to the left, everything else to the right."""
    rows = [[_escaped(name), *map(_cell, cells)] for name, cells in table.rows]
    yield _line(["", *map(_escaped, table.columns)])
    yield _line([":---", *("---:" for _ in table.columns)])
    yield from map(_line, rows)
    yield ""
    if table.how_to_read:
        yield from (table.how_to_read, "")
    for letter, remark in table.notes.items():
        yield from (f"<sup>{letter}</sup> {inline(remark)}", "")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    """Our figure above the published one."""
    if cell.is_text:
        return _escaped(cell.ours)
    ours = f"**{cell.ours}**" if cell.is_best else cell.ours
    note = f"<sup>{cell.note}</sup>" if cell.note else ""
    upper = " ".join(filter(None, (ours, cell.spread))) + note
    whole = f"{upper}<br>{cell.lower}" if cell.lower else upper
    return whole.replace(" ", "\N{NO-BREAK SPACE}")
