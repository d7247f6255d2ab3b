"""A report: one HTML file that needs nothing else to be read.

A page is a value made of values; `render` turns it into text and `write` into a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ratiorec.files import atomic_write
from ratiorec_lab.report.markup import Markup, escape, join, tag
from ratiorec_lab.report.style import style_sheet
from ratiorec_lab.report.tables import Cell, Estimate, Table, cell_text

__all__ = [
    "Block",
    "Cell",
    "Columns",
    "Details",
    "Entry",
    "Estimate",
    "Facts",
    "Figure",
    "Group",
    "KeyValues",
    "Listing",
    "Page",
    "Paragraph",
    "Section",
    "Table",
    "render",
    "write",
]

# Nothing may be loaded and nothing may run: the file is all there is.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Block(Protocol):
    """A part of a section."""

    def html(self, level: int) -> Markup:
        """The block as markup, with its headings at this level."""
        ...


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str

    def html(self, level: int) -> Markup:
        return tag("p", escape(self.text))


@dataclass(frozen=True)
class Figure:
    """A chart with words below it."""

    svg: Markup
    caption: str = ""

    def html(self, level: int) -> Markup:
        caption = tag("figcaption", escape(self.caption)) if self.caption else join()
        return tag("figure", self.svg, caption)


@dataclass(frozen=True)
class KeyValues:
    """Figures worth seeing first, each under its name."""

    pairs: Mapping[str, Cell]

    def html(self, level: int) -> Markup:
        return tag(
            "dl",
            *(
                tag("div", tag("dt", escape(key)), tag("dd", escape(cell_text(value))))
                for key, value in self.pairs.items()
            ),
        )


@dataclass(frozen=True)
class Facts:
    """What a reader may want to look up, each line under its name."""

    pairs: Mapping[str, str]

    def html(self, level: int) -> Markup:
        return tag(
            "dl",
            *(
                tag("div", tag("dt", escape(key)), tag("dd", escape(value)))
                for key, value in self.pairs.items()
            ),
            class_="facts",
        )


@dataclass(frozen=True)
class Details:
    """A block that is there for those who open it."""

    summary: str
    block: Block

    def html(self, level: int) -> Markup:
        return tag("details", tag("summary", escape(self.summary)), self.block.html(level))


@dataclass(frozen=True)
class Entry:
    """One line of a listing, with a note at its end and a badge behind its text."""

    text: str
    note: str = ""
    badge: str = ""

    def html(self) -> Markup:
        badge = tag("span", escape(self.badge), class_="badge") if self.badge else join()
        gap = escape(" " if self.badge else "")
        note = tag("span", escape(self.note), class_="note") if self.note else join()
        return tag("li", tag("span", escape(self.text), gap, badge, class_="what"), note)


@dataclass(frozen=True)
class Listing:
    """Entries below a heading, numbered where their order is a ranking."""

    heading: str
    entries: Sequence[Entry | str]
    numbered: bool = False

    def html(self, level: int) -> Markup:
        lines = [Entry(line) if isinstance(line, str) else line for line in self.entries]
        content = tag("ol" if self.numbered else "ul", *(line.html() for line in lines))
        if not lines:
            content = tag("p", escape("nothing"))
        return tag("div", _heading(self.heading, level), content, class_="listing")


@dataclass(frozen=True, init=False)
class Group:
    """Blocks that belong together, below a heading of their own."""

    heading: str
    blocks: tuple[Block, ...]

    def __init__(self, heading: str, *blocks: Block) -> None:
        object.__setattr__(self, "heading", heading)
        object.__setattr__(self, "blocks", blocks)

    def html(self, level: int) -> Markup:
        return join(
            _heading(self.heading, level), *(block.html(level + 1) for block in self.blocks)
        )


@dataclass(frozen=True)
class Columns:
    """Blocks side by side, each on a card; on a narrow screen one below another."""

    blocks: Sequence[Block]
    least_width: float | None = None  # of a card, in letters' sizes; charts need more than words

    def html(self, level: int) -> Markup:
        style = None if self.least_width is None else f"--least:{self.least_width:g}rem"
        cards = [_card(block, level) for block in self.blocks]
        return tag("div", *cards, class_="columns", style=style)


_WITHOUT_CARD = (Paragraph, KeyValues, Facts, Columns)


@dataclass(frozen=True, init=False)
class Section:
    """A heading and what stands below it."""

    heading: str
    blocks: tuple[Block, ...]

    def __init__(self, heading: str, *blocks: Block) -> None:
        object.__setattr__(self, "heading", heading)
        object.__setattr__(self, "blocks", blocks)

    def html(self, name: str) -> Markup:
        """The section, which a link can reach under this name."""
        blocks = [
            block.html(3) if isinstance(block, _WITHOUT_CARD) else _card(block, 3)
            for block in self.blocks
        ]
        return tag("section", _heading(self.heading, 2), *blocks, id=name)


@dataclass(frozen=True)
class Page:
    """A whole report; the footer is the place for how it came about."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str = ""


def render(page: Page) -> str:
    """The page as one HTML document."""
    names = [f"section-{number}" for number in range(1, len(page.sections) + 1)]
    links = [
        tag("li", tag("a", escape(section.heading), href=f"#{name}"))
        for name, section in zip(names, page.sections, strict=True)
    ]
    contents = tag("nav", tag("ul", *links), aria_label="Contents") if len(links) > 2 else join()
    lead = tag("p", escape(page.lead), class_="lead") if page.lead else join()
    body = tag(
        "body",
        tag("header", _heading(page.title, 1), lead, contents),
        tag(
            "main",
            *(section.html(name) for name, section in zip(names, page.sections, strict=True)),
        ),
        tag("footer", tag("p", escape(page.footer))) if page.footer else join(),
    )
    head = (
        '<meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"/>'
        '<meta name="color-scheme" content="light dark"/>'
        f"<title>{escape(page.title)}</title><style>{style_sheet()}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en-GB"><head>{head}</head>\n{body}</html>\n'


def write(page: Page, path: str | Path) -> None:
    """Write the page to a file, whole or not at all."""
    content = render(page).encode()
    with atomic_write(Path(path)) as handle:
        handle.write(content)


def _heading(text: str, level: int) -> Markup:
    return tag(f"h{min(level, 6)}", escape(text))


def _card(block: Block, level: int) -> Markup:
    return tag("div", block.html(level), class_="card")
