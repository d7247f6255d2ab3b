"""The regenerated tables and figures as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from ratiorec_lab.report import page
from ratiorec_lab.reproduce import drawing
from ratiorec_lab.reproduce.exhibits import (
    AGREES,
    DIFFERS,
    NOTE,
    CurveExhibit,
    Exhibit,
    TableExhibit,
    by_side,
    runs_of,
)
from ratiorec_lab.reproduce.published import dataset_name
from ratiorec_lab.reproduce.verdict import RULES, Claim, Verdict, summary
from ratiorec_lab.reproduce.wording import OURS, PUBLISHED, Cell, WordedTable, worded

_WIDTHS = {".": 0.55, ",": 0.55, "−": 1.35}  # of signs, in widths of a digit
_LONGEST_FIGURE = 16  # a text as short as this, such as a time with its unit, is not broken
_LEAD = "The paper’s tables and figures, regenerated and set beside what was published."


def write_page(
    path: Path,
    exhibits: Sequence[Exhibit],
    *,
    title: str,
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict] = (),
    links: Mapping[str, str] = MappingProxyType({}),
    other: str | None = None,
) -> None:
    """One HTML file with the verdicts first and how it was measured last, whole or not at all.

    `other` is the report of the protocol `paper`, where there is one: empty for this one.
    """
    evidence = Evidence.of(exhibits, other)
    first = [page.Section("Verdict", verdict_tables(verdicts, evidence), "verdict")]
    last = [page.Section("How it was measured", [page.KeyValues(facts, in_lines=True)], "facts")]
    sections = [
        *first[: len(verdicts)],
        *_sections(exhibits),
        *last[: len(facts)],
    ]
    footer = "Made by ratiorec reproduce."
    page.write(page.Page(title, _LEAD, sections, footer=footer, links=links), path)


HEADINGS = {AGREES: "Where we agree", DIFFERS: "Where we differ", NOTE: "Notes"}


def _sections(exhibits: Sequence[Exhibit]) -> Iterator[page.Section]:
    taken: set[str] = set()
    for number, exhibit in enumerate(exhibits, 1):
        section = _section(exhibit, number)
        yield replace(section, anchor="") if section.anchor in taken else section
        taken.add(section.anchor)


def _section(exhibit: Exhibit, number: int) -> page.Section:
    told = [
        Remarks(HEADINGS[side], [*map(_with_units, sentences)])
        for side, sentences in by_side(exhibit.remarks).items()
    ]
    runs = [(name, [*map(file_link, paths)]) for name, paths in runs_of(exhibit)]
    files = [Files(runs)] if runs else []
    blocks = [*_blocks(exhibit, number), *told, *files]
    return page.Section(exhibit.title, blocks, anchor_of(exhibit))


def anchor_of(exhibit: Exhibit) -> str:
    """A name that a link may lead to, whatever the exhibit is called."""
    return "x-" + re.sub(r"[^A-Za-z0-9_-]+", "-", exhibit.id)


def _blocks(exhibit: Exhibit, number: int) -> Iterator[page.Block]:
    if isinstance(exhibit, TableExhibit):
        yield FigureTable.of(exhibit, f"note-{number}-")
        return
    yield page.Paragraph(exhibit.caption)
    if isinstance(exhibit, CurveExhibit):
        figures = [
            page.Figure(drawing.curve_chart(one), drawing.undrawn(one), drawing.curve_numbers(one))
            for one in exhibit.panels
        ]
    else:
        figures = [
            page.Figure(drawing.bar_chart(one), numbers=drawing.bar_numbers(one))
            for one in exhibit.panels
        ]
    yield page.Columns(figures)


@dataclass(frozen=True)
class Remarks:
    """What a reader must know of an exhibit, in sentences of one side."""

    heading: str
    sentences: Sequence[str]


class Link(NamedTuple):
    """Words that lead somewhere."""

    to: str
    text: str


def file_link(path: str) -> Link:
    """A link to the file of a run, called by its data set and seed."""
    *_, dataset, name = path.split("/")
    seed = re.search(r"-seed(\d+)\.json$", name)
    text = f"{dataset_name(dataset)}, seed {seed[1]}" if seed else f"{dataset}/{name}"
    return Link(quote(path), text)


@dataclass(frozen=True)
class Files:
    """The files of the runs behind each line of a table."""

    rows: Sequence[tuple[str, Sequence[Link]]]


class Evidence(NamedTuple):
    """The exhibits of this report, and where that of the protocol `paper` is."""

    titles: Mapping[str, str]
    other: str | None

    @classmethod
    def of(cls, exhibits: Sequence[Exhibit], other: str | None) -> Evidence:
        return cls({exhibit.id: exhibit.title for exhibit in exhibits}, other)

    def links(self, claim: Claim) -> list[Link]:
        """Where the runs of a claim are shown, as far as that is there."""
        names = (claim.exhibit, *claim.also)
        return list(dict.fromkeys(link for name in names for link in self._links(name)))

    def _links(self, name: str) -> Iterator[Link]:
        own = name.removeprefix("paper:")
        if own == name or self.other == "":
            if own in self.titles:
                yield Link(f"#x-{own}", self.titles[own])
        elif self.other is not None:
            yield Link(f"{self.other}#x-{own}", f"{self.titles.get(own, own)} (protocol paper)")


class VerdictRow(NamedTuple):
    """A claim in words."""

    sentence: str
    where: Sequence[str]
    status: str
    figures: Sequence[str]
    links: Sequence[Link]


@dataclass(frozen=True)
class VerdictTable:
    """Claims with their verdicts and links to the evidence."""

    caption: str
    rows: Sequence[VerdictRow]
    rules: Sequence[str] = ()

    @classmethod
    def of(
        cls, caption: str, verdicts: Sequence[Verdict], evidence: Evidence, rules: Sequence[str]
    ) -> VerdictTable:
        """The verdicts in words."""
        rows = [
            VerdictRow(
                one.claim.sentence,
                _with_units(re.sub(r"(Table|Figure) ", "\\1\N{NO-BREAK SPACE}", one.where)).split(
                    "; "
                ),
                one.status,
                _with_units(one.figures).split("; "),
                evidence.links(one.claim),
            )
            for one in verdicts
        ]
        return cls(caption, rows, rules)


def verdict_tables(verdicts: Sequence[Verdict], evidence: Evidence) -> list[VerdictTable]:
    """What the paper says, then other readings of it."""
    said = [one for one in verdicts if one.claim.is_papers]
    read = [one for one in verdicts if not one.claim.is_papers]
    caption = f"{len(said)} statements of the paper: {summary(said)}."
    tables = [VerdictTable.of(caption, said, evidence, RULES)]
    if read:
        told = "other readings of them, by other clocks or with other settings, not in the paper"
        caption = f"{len(read)} {told}: {summary(read)}."
        tables.append(VerdictTable.of(caption, read, evidence, ()))
    return tables


@dataclass(frozen=True)
class FigureTable:
    """A table whose cells hold our figure above the published one."""

    table: TableExhibit
    words: WordedTable
    anchor: str  # what the names of its notes begin with

    @classmethod
    def of(cls, table: TableExhibit, anchor: str) -> FigureTable:
        words = worded(table)
        rows = tuple((name, tuple(map(_unbroken, cells))) for name, cells in words.rows)
        read = _with_units(words.how_to_read)
        return cls(table, replace(words, rows=rows, how_to_read=read), anchor)

    @property
    def corner(self) -> list[str]:
        """What the upper and the lower line of a cell are."""
        cells = [cell for _, row in self.words.rows for cell in row]
        lines = [OURS] if any(cell.is_figure for cell in cells) else []
        return lines + ([PUBLISHED] if any(cell.published for cell in cells) else [])

    @property
    def digits(self) -> list[str]:
        """How many digits' widths the longest figure of each column needs."""
        columns = zip(*(cells for _, cells in self.words.rows), strict=True)
        return [f"{max(map(_digits, cells), default=0.0):g}" for cells in columns]


def _digits(cell: Cell) -> float:
    texts = (cell.ours * cell.is_figure, cell.published)
    return max(sum(_WIDTHS.get(one, 1.0) for one in text) for text in texts)


def _unbroken(cell: Cell) -> Cell:
    """A short text, such as a time with its unit, stays on one line."""
    if not cell.is_text or len(cell.ours) > _LONGEST_FIGURE:
        return cell
    return replace(cell, ours=cell.ours.replace(" ", "\N{NO-BREAK SPACE}"))


def _with_units(sentence: str) -> str:
    """The sentence with per cent signs that stay with their figures."""
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", sentence)
