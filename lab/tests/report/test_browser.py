"""A demo's report and a page of awkward charts, laid out by a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec_lab.report.charts import Mark, Series, bar_chart, line_chart, scatter_chart
from ratiorec_lab.report.page import (
    Columns,
    Entry,
    Estimate,
    Figure,
    Group,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Section,
    Table,
    render,
)
from support.browser import needs_chromium, probed

pytestmark = needs_chromium

# Boxes of text are as high as the font asks, letters are not: a shared pixel is no overlap.
PROBE = """<script>addEventListener("load", () => {
  const overlaps = [], outside = [];
  for (const svg of document.querySelectorAll("svg")) {
    const edge = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].map(e => [e, e.getBoundingClientRect()]);
    boxes.forEach(([e, a], k) => {
      if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1
          || a.bottom > edge.bottom + 1) outside.push(e.textContent);
      for (const [other, b] of boxes.slice(k + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
          overlaps.push([e.textContent, other.textContent]);
    });
  }
  const root = document.documentElement;
  parent.document.documentElement.dataset.probe = JSON.stringify({
    overlaps, outside, shown: innerWidth, needed: root.scrollWidth,
    charts: document.querySelectorAll("svg").length,
    letters: Math.min(...[...document.querySelectorAll("svg text")].map(
      e => parseFloat(getComputedStyle(e).fontSize) * e.ownerSVGElement.getScreenCTM().a)),
    ground: getComputedStyle(document.body).backgroundColor,
    scrolling: [...document.querySelectorAll(".scroll")].filter(
      e => e.scrollWidth > e.clientWidth).length,
  });
})</script>"""


def probe(page: Page, folder: Path, *, width: int, dark: bool = False) -> dict[str, Any]:
    """What a browser of this width makes of a page."""
    return probed(render(page), PROBE, folder, width=width, dark=dark)


@pytest.mark.parametrize("width", [1280, 400])
def test_a_report_fits_the_screen_and_its_words_do_not_meet(tmp_path, width):
    seen = probe(demo_page(), tmp_path, width=width)
    assert seen["charts"] == 4
    assert seen["needed"] <= width
    assert seen["overlaps"] == []
    assert seen["outside"] == []


def test_on_a_phone_letters_can_be_read_and_a_wide_table_scrolls_by_itself(tmp_path):
    seen = probe(demo_page(), tmp_path, width=400)
    assert seen["letters"] >= 10
    assert seen["scrolling"] == 1


def test_awkward_charts_fit_the_screen_and_their_words_do_not_meet(tmp_path):
    seen = probe(awkward_page(), tmp_path, width=400)
    assert seen["charts"] == len(awkward_charts())
    assert seen["needed"] <= 400
    assert seen["overlaps"] == []
    assert seen["outside"] == []


def test_a_reader_who_prefers_dark_gets_dark(tmp_path):
    light = probe(demo_page(), tmp_path, width=1280)["ground"]
    dark = probe(demo_page(), tmp_path, width=1280, dark=True)["ground"]
    assert sum(map(int, re.findall(r"\d+", light))) > 600
    assert sum(map(int, re.findall(r"\d+", dark))) < 150


def awkward_charts() -> list[str]:
    words = {"title": "A title that goes on and on " * 4, "x_label": "x" * 90, "y_label": "y" * 90}
    short = {"title": "T", "x_label": "x", "y_label": "y"}
    named = {"title": "T", "y_label": "y"}
    line = np.arange(10)
    return [
        line_chart([Series("series with a long name " * 4, line, line)], **words),
        line_chart([Series(f"m{k}", line, line + k / 9) for k in range(6)], **short),
        line_chart([Series(f"model number {k}", line, line * k) for k in range(13)], **short),
        line_chart([Series("a", line, line * 1e6)], **short, mark=Mark(0, "at the very left end")),
        line_chart([Series("a", line, -line / 1e7)], **short, mark=Mark(9, "mark at the right")),
        line_chart([Series("東京の推薦", line, line), Series("WWWW", line, line / 2)], **short),
        line_chart([Series("a", 10.0**line, 10.0**-line)], **short, log_x=True, log_y=True),
        line_chart([Series("a", [123456.7, 123456.8], [1, 1])], **short),
        line_chart([Series("a", [3], [3])], **short),
        line_chart([], **words),
        scatter_chart([1, 1.1], [0.9, 2.6], **short, log_x=True, log_y=True, diagonal=True),
        scatter_chart(10.0 ** (line * 30 - 150), line, **short, log_x=True, max_points=4),
        bar_chart([f"configuration {k}" for k in range(30)], range(30), **named),
        bar_chart([f"c{k}" for k in range(60)], range(60), **named),
        bar_chart(["most popular items", "kNN"], [1e-7, -1e-7], **named),
        bar_chart(["a", "b"], [3.0, 5e4], **named, errors=[(1, 9), (4e4, 6e4)], log_y=True),
    ]


def awkward_page() -> Page:
    wide = Table([f"column {k}" for k in range(30)], [list(range(30))], "wide")
    word = "Donaudampfschifffahrtsgesellschaftskapitän" * 3
    figures = Columns([Figure(chart) for chart in awkward_charts()])
    return Page(
        word, word, [Section(word, Paragraph(word), wide, figures, KeyValues({word: word}))]
    )


def training_curve() -> str:
    epochs = np.arange(5, 101, 5)
    rise, fall = 1 - np.exp(-epochs / 18), np.maximum(epochs - 65, 0) * 0.00008
    return line_chart(
        [
            Series("Recall@20", epochs, 0.182 * rise - fall),
            Series("nDCG@20", epochs, 0.155 * rise - fall),
        ],
        title="Validation while training",
        x_label="epoch",
        y_label="mean over users",
        mark=Mark(65, "chosen epoch 65"),
    )


def weighting_curves() -> str:
    names = ["uniform weights", "popularity, α = ½", "hard samples", "no correction"]
    steps = np.arange(1, 241)
    return line_chart(
        [
            Series(name, steps, (0.12 + 0.02 * k) * (1 - np.exp(-steps / (20 + 12 * k))))
            for k, name in enumerate(names)
        ],
        title="How fast each weighting rises",
        x_label="step",
        y_label="Recall@20 on validation data",
    )


def ratio_plot() -> str:
    rng = np.random.default_rng(3)
    true = 10 ** rng.normal(0, 0.8, 12_000)
    return scatter_chart(
        true,
        true**0.93 * 10 ** rng.normal(0, 0.18, 12_000),
        title="Estimated against true ratio",
        x_label="true ratio",
        y_label="estimated ratio",
        log_x=True,
        log_y=True,
        diagonal=True,
    )


def recall_bars() -> str:
    return bar_chart(
        ["Most popular", "Item-kNN", "LightGCN", "DREGN-CF"],
        [0.0612, 0.1570, 0.1771, 0.1816],
        title="Recall@20 on the test part",
        y_label="mean over users, with 95 % intervals",
        errors=[(0.0590, 0.0634), (0.1530, 0.1610), (0.1730, 0.1812), (0.1775, 0.1857)],
    )


def metric_table() -> Table:
    means = {
        "DREGN-CF": (
            Estimate(0.1816, 0.1775, 0.1857),
            Estimate(0.1542, 0.1508, 0.1577),
            Estimate(0.5261, 0.5180, 0.5342),
            0.4127,
            3.61,
        ),
        "Most popular": (
            Estimate(0.0612, 0.0590, 0.0634),
            Estimate(0.0491, 0.0473, 0.0509),
            Estimate(0.2312, 0.2244, 0.2380),
            0.0021,
            0.02,
        ),
    }
    return Table(
        ["Model", "Recall@20", "nDCG@20", "Hit rate@20", "Coverage@20", "Seconds"],
        [(name, *cells) for name, cells in means.items()],
        "Test part; below each mean its bootstrap 95 % interval over users. The best is marked.",
        highest=(1, 2, 3, 4),
        lowest=(5,),
    )


def recommendation_lists() -> Columns:
    lists = {
        "Ada": (
            [("Letters from the Coast", "3.41", "in test"), ("A Slow Tide", "3.12")],
            ["Night Train to Lisbon", "The Quiet Harbour", "Salt and Cinnamon"],
        ),
        "Benedikt": (
            [("Signal Lost", "4.02", "in test"), ("Orbit Ten", "3.96")],
            ["Engines of the Deep", "Orbit Nine", "The Last Relay", "Copper Moon"],
        ),
        "Chinonso": (
            [
                ("The Weekday Kitchen", "2.95"),
                ("The Sourdough Baker’s Notebook", "2.90", "in test"),
            ],
            ["Garden Rooms", "Bread, Slowly"],
        ),
    }
    return Columns(
        [
            Group(
                name,
                Listing(
                    "Recommended, with estimated ratio", [Entry(*e) for e in best], numbered=True
                ),
                Listing("History", history),
            )
            for name, (best, history) in lists.items()
        ]
    )


def demo_page() -> Page:
    facts = {"Users": 2000, "Items": 1200, "Pairs": 58214, "Density": "2.43 %", "Training": "3.6 s"}
    curves = [
        Figure(training_curve(), "The dashed line is where training stops."),
        Figure(weighting_curves(), "Every weighting with the same encoder and batch."),
    ]
    plots = [
        Figure(ratio_plot(), "One point a pair; on the dashed line the estimate is exact."),
        Figure(recall_bars(), "Thin strokes are bootstrap intervals."),
    ]
    return Page(
        "Recommendations by density ratio",
        "DREGN-CF trained on synthetic pairs whose true ratio is known, beside the list of most "
        "popular items. The stopping epoch was chosen on validation data; the test part was "
        "looked at once, at the end.",
        [
            Section("At a glance", KeyValues({**facts, "Rank correlation": 0.943})),
            Section("Training", Paragraph("Means over the held-out pairs."), Columns(curves)),
            Section("Measured on the test part", metric_table()),
            Section("Recommendations", recommendation_lists()),
            Section("How good is the ratio?", Columns(plots)),
        ],
        footer="ratiorec 0.1.0 · seed 0",
    )
