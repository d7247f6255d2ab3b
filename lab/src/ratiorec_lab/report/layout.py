"""The frame of a chart: axes below a title, ticks for people, and SVG without ids."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import style as mpl_style
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import ArrayLike, NDArray

from ratiorec_lab.report.style import colour
from ratiorec_lab.report.writing import clean, tick_labels

WIDTH = 400.0
"""Narrow on purpose: scaled down to a phone the letters can still be read."""
SIZE, LINE = 12.5, 16.0
INK, MUTED, RULE, CARD = (colour(name) for name in ("ink", "muted", "rule", "card"))
_FARTHEST = 1e150  # from zero on an axis: the ratio of two values must be a number
_TITLE_LETTERS = 42  # on a line
_COLOURS = {
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": MUTED,
    "grid.color": RULE,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


@contextmanager
def drawing() -> Iterator[None]:
    """The style of all charts, whatever a reader's own settings of matplotlib are."""
    sheet = Path(__file__).parent / "report.mplstyle"
    with warnings.catch_warnings(), mpl_style.context(["default", sheet, _COLOURS]):
        # the reader's browser has glyphs that the font for measuring has not
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def drawable(values: ArrayLike, *, log: bool) -> NDArray[np.bool_]:
    """Which values have a place on an axis of this kind."""
    numbers = np.asarray(values, dtype=np.float64)
    possible = np.abs(numbers) <= _FARTHEST  # which neither NaN nor infinity is
    return possible & (numbers >= 1 / _FARTHEST) if log else possible


@lru_cache(maxsize=4096)  # the same names stand in chart after chart
def text_width(text: str) -> float:
    """The width of a line of text in points."""
    font = FontProperties(family="DejaVu Sans", size=SIZE)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def shorten(text: str, room: float) -> str:
    """The text on one line where it fits, else as much of it as does, with an ellipsis."""
    kept = text = " ".join(clean(text).split())
    while kept and text_width(kept + "…" * (kept != text)) > room:
        kept = kept[:-1]
    return kept if kept == text else kept.rstrip() + "…"


def wrap(text: str, room: float, *, n_lines: int) -> list[str]:
    """The text in at most `n_lines` lines of this width."""
    lines = textwrap.wrap(clean(text), int(room / (0.58 * SIZE)))
    whole = [*lines[: n_lines - 1], " ".join(lines[n_lines - 1 :])]
    return [shorten(line, room) for line in whole if line]


class Chart:
    """Axes below a title; the name of the y axis and a note stand between them."""

    def __init__(self, title: str, y_label: str = "", note: str = "") -> None:
        self.title, self.height = title, 200.0
        self.figure = Figure(dpi=72, layout="constrained")  # a pixel is a point
        lines = textwrap.wrap(clean(title), _TITLE_LETTERS, max_lines=2, placeholder="…")
        self.figure.suptitle("\n".join(lines), x=0, ha="left", size=14, weight="bold")
        self.axes = self.figure.subplots()
        room = 0.8 * WIDTH - text_width(note)
        self.axes.set_title(shorten(y_label, room), loc="left")
        self.axes.set_title(clean(note), loc="right")

    def set_x(self, values: ArrayLike, label: str, *, log: bool) -> None:
        """The values that the x axis must hold; how many ticks it has depends on the layout."""
        self._x = np.asarray(values, dtype=np.float64)
        self.axes.set(xscale="log" if log else "linear", xlabel=shorten(label, 0.7 * WIDTH))
        self._set_ticks("x", self._x, n=10)

    def set_y(self, values: ArrayLike, *, log: bool) -> None:
        """The values that the y axis must hold."""
        self.axes.set_yscale("log" if log else "linear")
        self._set_ticks("y", np.asarray(values, dtype=np.float64), n=6)
        self.axes.grid(axis="y")

    def _set_ticks(self, name: str, values: NDArray[np.float64], *, n: int) -> list[float]:
        axis = self.axes.xaxis if name == "x" else self.axes.yaxis
        is_log = axis.get_scale() == "log"
        ends, ticks = place_ticks(float(values.min()), float(values.max()), log=is_log, n=n)
        self.axes.set(**{f"{name}lim": ends})
        axis.set_ticks(ticks, tick_labels(ticks))
        axis.set_ticks([], minor=True)
        return ticks

    def write(
        self,
        text: str,
        at: tuple[float, float],
        offset: tuple[float, float] = (0, 0),
        coords: Any = "data",
        **look: Any,
    ) -> None:
        """One line of text whose middle stands at this height, moved by so many points."""
        place = {"xycoords": coords, "textcoords": "offset points", "annotation_clip": False}
        self.axes.annotate(clean(text), at, offset, **place, **({"va": "center"} | look))

    def add_legend(self, handles: Sequence[Artist], names: Sequence[str], room: float) -> None:
        """The names above the axes, in as many columns as there is room for."""
        shown = [shorten(name, room - 3 * SIZE) for name in names]
        self.axes.legend(
            handles,
            # matplotlib hides names that begin with an underscore
            [f" {name}" if name.startswith("_") else name for name in shown],
            loc="lower left",
            bbox_to_anchor=(0, 1 + (27 if self.axes.get_title("left") else 5) / self.height),
            ncols=max(1, int(room / (max(map(text_width, shown)) + 3.5 * SIZE))),
        )

    def lay_out(self) -> None:
        """Give the axes their height, and as many ticks from left to right as stay apart."""
        self.figure.set_size_inches(WIDTH / 72, self.height / 72 + 1.4)
        self._constrain()
        lost = self.height - self.axes.get_window_extent().height
        self.figure.set_figheight(self.figure.get_figheight() + lost / 72)
        self._constrain()
        for n in range(10, 2, -1):
            ticks = self._set_ticks("x", self._x, n=n)
            places = self.axes.transData.transform([(x, self.axes.get_ylim()[0]) for x in ticks])
            widths = np.array([text_width(label) for label in tick_labels(ticks)])
            if (np.diff(places[:, 0]) >= (widths[1:] + widths[:-1] + SIZE) / 2).all():
                break

    def _constrain(self) -> None:
        engine = self.figure.get_layout_engine()
        assert engine is not None
        engine.execute(self.figure)

    def svg(self, description: str) -> Markup:
        """The chart as markup, with words for those who do not see it."""
        self.lay_out()
        return self._as_markup(description)

    def nothing(self) -> Markup:
        """The chart of nothing, which says so."""
        self.height = 110.0
        self.axes.set(xticks=[], yticks=[])
        self.axes.spines[:].set(visible=True, color=RULE)
        self.axes.text(0.5, 0.5, "no data", ha="center", va="center", color=MUTED)
        self.figure.set_size_inches(WIDTH / 72, 150 / 72)
        return self._as_markup("There are no data to draw.")

    def _as_markup(self, description: str) -> Markup:
        file = io.BytesIO()
        no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        self.figure.savefig(file, format="svg", metadata=no_metadata)
        root = ET.fromstring(file.getvalue())
        size = root.attrib["viewBox"]
        _strip(root)
        root.attrib = {"viewBox": size, "role": "img", "class": "chart"}
        for place, (tag, text) in enumerate((("title", self.title), ("desc", description))):
            root.insert(place, ET.Element(tag))
            root[place].text = clean(text)
        return Markup(ET.tostring(root, encoding="unicode", short_empty_elements=False))


def place_ticks(
    low: float, high: float, *, log: bool, n: int
) -> tuple[tuple[float, float], list[float]]:
    """The ends of an axis and at most about `n` ticks: decades on a wide logarithmic one.

    >>> place_ticks(0.03, 0.18, log=False, n=6)
    ((0.0, 0.2), [0.0, 0.05, 0.1, 0.15, 0.2])
    >>> place_ticks(0.02, 3000.0, log=True, n=10)[1]
    [0.1, 1.0, 10.0, 100.0, 1000.0]
    """
    size = max(abs(low), abs(high)) or 1.0
    if high - low <= 1e-9 * size:
        low, high = low - size / 20 * bool(low), high + size / 20
    even = MaxNLocator(n - 1, steps=[1, 2, 5, 10])
    if not log:
        ticks = _within(-np.inf, np.inf, even.tick_values(low, high))
        return (min(low, ticks[0]), max(high, ticks[-1])), ticks
    rim = (high / low) ** 0.04
    low, high = low / rim, high * rim
    powers = [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)))]
    fine = [digit * power for power in powers for digit in (1, 2, 5)] if len(powers) <= 3 else []
    wide = LogLocator(numticks=n).tick_values(low, high) if len(powers) > 1 else []
    found = [_within(low, high, ticks) for ticks in (fine, wide, even.tick_values(low, high))]
    return (low, high), next((ticks for ticks in found if 1 < len(ticks) <= n), found[-1])


def _within(low: float, high: float, ticks: Iterable[float]) -> list[float]:
    return [float(f"{tick:.12g}") for tick in ticks if low <= tick <= high]


def _strip(root: ET.Element) -> None:
    """Take away ids, fonts and namespaces; an artist's own id, which has no digits, is a class."""
    shapes: dict[str, dict[str, str]] = {}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        name, given = element.get("id", ""), dict(element.attrib)
        kept = {"class": name} if element.tag == "g" and name.isalpha() else {}
        if element.tag == "path" and name:
            shapes[f"#{name}"] = given
        if element.tag == "use":
            shape = shapes[next(value for key, value in given.items() if key.endswith("href"))]
            style = f"{shape.get('style', '')}; {given.get('style', '')}"
            given = {**_shape(element, shape["d"]), "style": style}
        for key in ("d", "x", "y", "cx", "cy", "r", "transform", "style"):
            if key in given and not given[key].startswith("rotate(-0"):
                kept[key] = _style(given[key]) if key == "style" else _few_digits(given[key])
        element.attrib = kept
        element.text, element.tail = element.text if element.tag == "text" else None, None
    for element in [*root.iter()]:
        for unused in element.findall("defs"):
            element.remove(unused)


def _shape(use: ET.Element, outline: str) -> dict[str, str]:
    """A marker where it is used: a circle, or the short line of a tick."""
    x, y = use.get("x", "0"), use.get("y", "0")
    if "C" in outline:
        use.tag = "circle"
        return {"cx": x, "cy": y, "r": outline.split()[2]}
    use.tag = "path"
    return {"d": outline, "transform": f"translate({x} {y})"}


def _few_digits(text: str) -> str:
    return " ".join(re.sub(r"(\.\d\d)\d+", r"\1", text).split())


def _style(text: str) -> str:
    """A style without its font: the page has its own.

    >>> _style("font: 700 14px 'DejaVu Sans', sans-serif; fill: #1c2430; fill: #1c2430")
    'font-weight: 700; font-size: 14px; fill: #1c2430'
    """
    text = re.sub(r"font: (\d+) ", r"font-weight: \1; font: ", text)
    text = re.sub(r"font: (\S+px)[^;]*", r"font-size: \1", text)
    parts = [part.strip() for part in text.split(";")]
    return "; ".join(dict.fromkeys(p for p in parts if p and not p.startswith("font-family")))
