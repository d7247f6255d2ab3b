"""A whole report with realistic exhibits, laid out by a real browser."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ratiorec_lab.reproduce.exhibits import (
    Bar,
    BarExhibit,
    BarPanel,
    CurveExhibit,
    Exhibit,
    Measured,
    Panel,
    Row,
    Series,
    TableExhibit,
)
from ratiorec_lab.reproduce.markdown import write_markdown
from ratiorec_lab.reproduce.page import write_page
from support.browser import browse, needs_chromium, probed

pytestmark = needs_chromium

# Boxes of text are as high as the font asks, letters are not: a shared pixel is no overlap.
PROBE = """<script>addEventListener("load", () => {
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const boxes = (root, what) => [...root.querySelectorAll(what)].map(
    e => [e.textContent, e.getBoundingClientRect()]).filter(([, box]) => box.width > 1);
  const overlaps = (root, what) => boxes(root, what).flatMap(([text, box], k, all) =>
    all.slice(k + 1).filter(([, other]) => meet(box, other)).map(([other]) => [text, other]));
  const all = what => [...document.querySelectorAll(what)];
  const size = e => parseFloat(getComputedStyle(e).fontSize);
  const root = document.documentElement;
  const charts = all("svg"), links = all("nav a, sup a");
  const seen = {
    shown: innerWidth,
    needed: root.scrollWidth,
    charts: charts.length,
    unseen: all("svg, img").filter(e => {
      const box = e.getBoundingClientRect(); return box.width < 100 || box.height < 100;
    }).length,
    unnamed: charts.filter(e => e.getAttribute("role") !== "img"
      || !e.querySelector("title").textContent || !e.querySelector("desc").textContent).length,
    chart_overlaps: charts.flatMap(e => overlaps(e, "text")),
    outside: charts.flatMap(e => {
      const edge = e.getBoundingClientRect();
      return boxes(e, "text").filter(([, a]) => a.left < edge.left - 1 || a.right > edge.right + 1
        || a.top < edge.top - 1 || a.bottom > edge.bottom + 1).map(([text]) => text);
    }),
    cell_overlaps: all(".figures tr").flatMap(
      e => overlaps(e, "th, .figure > span:not(.unseen), td:not(:has(*))")),
    clipped: all(".figures th, .figures td, dd, dt, li, .notes, p").filter(
      e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent),
    letters: Math.min(...all("th, td, td span, li, p, dd, dt, summary").filter(
      e => e.textContent).map(size)),
    chart_letters: Math.min(...all("svg text").map(
      e => size(e) * e.ownerSVGElement.getScreenCTM().a)),
    scrolling: all(".card > .scroll").filter(e => e.scrollWidth > e.clientWidth + 1).length,
    levels: all("h1, h2, h3, h4, h5, h6").map(e => Number(e.tagName[1])),
    ground: getComputedStyle(document.body).backgroundColor,
    links: links.length,
    astray: [],
  };
  for (const link of links) {
    location.hash = link.getAttribute("href");
    const target = document.querySelector(":target");
    const named = target && target.querySelector("h2, sup");
    if (!named || named.textContent !== link.textContent) seen.astray.push(link.textContent);
    const top = target ? target.getBoundingClientRect().top : -1;
    if (top < -1 || top > innerHeight) seen.astray.push([link.textContent, top]);
  }
  all("details").forEach(e => { e.open = true; });
  seen.needed_open = root.scrollWidth;
  seen.numbers = all("details table").map(e => e.getBoundingClientRect().height);
  parent.document.documentElement.dataset.probe = JSON.stringify(seen);
})</script>"""

DATA_SETS = ("Gowalla", "Yelp2018", "Amazon-Book", "Amazon-CDs")
METHODS = {
    "NGCF": 0.1567,
    "Mult-VAE": 0.1644,
    "ENMF": 0.1512,
    "LightGCN": 0.1828,
    "LightGCN-DNS": 0.1842,
    "EASE": 0.1765,
    "SLIM": 0.1699,
    "item-kNN": 0.1570,
    "UltraGCN": 0.1862,
    "GF-CF": 0.1849,
    "BSPM": 0.1920,
    "DREGN-CF with uniform weights and a rather long name": 0.1549,
    "DREGN-CF": 0.1810,
    "DREGN-CF-fast": None,  # not in the paper
}
CUT = "cut by the time budget at epoch 570"
TITLE = "The paper’s tables and figures"
FACTS = {
    "protocol": "stopping step chosen on a tenth of the training pairs, refit on all of them, "
    "test part looked at once",
    "seeds": "0, 1, 2",
    "machine": "one NVIDIA H200, 16 cores; times of rows (a) to (h) include evaluation",
    "commit": "30201a0c1f0c7d1f6a9d3c55d7d2b8f0a1b2c3d4",
    "command": "ratiorec reproduce --seeds 3 --tables 2,3 --figures 3,4,5,6,7",
}


def measured(published: float | None, place: int, *, around: float | None = None) -> Measured:
    """Three seeds around a figure that is a little off the published one."""
    middle = (around or published or 0.0) * (1 + 0.012 * math.sin(2.1 * place))
    values = tuple(middle + 0.0004 * math.sin(place + k) for k in range(3))
    remark = CUT if place % 17 == 3 else "one seed of three diverged" if place % 29 == 5 else ""
    return Measured(values[: 1 if place % 11 == 7 else 3], published, remark)


def effectiveness_table() -> TableExhibit:
    columns = tuple(f"{name} {metric}" for name in DATA_SETS for metric in ("R@20", "nDCG@20"))
    shares = (1.0, 0.85, 0.38, 0.31, 0.265, 0.21, 0.9, 0.6)
    rows = []
    for place, (name, value) in enumerate(METHODS.items()):
        figures = [None if value is None else round(value * share, 4) for share in shares]
        entries = tuple(
            Measured((), figure, "no run yet")
            if name == "SLIM"
            else measured(figure, 8 * place + k, around=None if value else 0.186 * shares[k])
            for k, figure in enumerate(figures)
        )
        rows.append(Row(name, entries))
    return TableExhibit(
        "table-2",
        "Table 2. Overall ranking effectiveness",
        "Recall and nDCG of the first 20 places on the test parts of four data sets.",
        columns,
        tuple(rows),
        remarks=(
            "LightGCN stays 1.1 % below the published recall on Gowalla: the published run chose "
            "its epoch on the test part, ours on validation pairs.",
            "SLIM was not run: its solver needs more memory than the machine has.",
        ),
    )


def ablation_table() -> TableExhibit:
    rows = {
        "(a) PU": ("", "", "", "", "uniform", 0.1021, 0.1232),
        "(b) DRE": ("✓", "", "", "", "uniform", 0.1024, 0.1327),
        "(c) w/o IS": ("✓", "", "✓", "✓", "hard-sample", 0.1808, 0.1542),
        "(d) w/o NN": ("✓", "✓", "", "✓", "hard-sample", 0.1798, 0.1537),
        "(e) Uni-W": ("✓", "✓", "✓", "", "uniform", 0.1549, 0.1324),
        "(f) Pop-W": ("✓", "✓", "✓", "", "popularity", 0.1575, 0.1347),
        "(g) Static": ("✓", "✓", "✓", "", "hard-sample", 0.1176, 0.0955),
        "(h) Full": ("✓", "✓", "✓", "✓", "hard-sample", 0.1810, 0.1541),
    }
    return TableExhibit(
        "table-3",
        "Table 3. Ablation on Gowalla",
        "What each part of the risk adds; a tick says that the part is there.",
        ("DRE", "IS", "NN", "adaptive", "weights", "R@20", "nDCG@20"),
        tuple(
            Row(
                name,
                (
                    *map(str, words),
                    measured(recall, 5 * k),
                    measured(ndcg, 5 * k + 1),
                ),
            )
            for k, (name, (*words, recall, ndcg)) in enumerate(rows.items())
        ),
        remarks=("Row (g) trains a first model whose weights are then frozen.",),
    )


def efficiency_bars() -> BarExhibit:
    figures = {
        "NGCF": (1804.0, 30_214.0),
        "Mult-VAE": (41.2, 612.0),
        "ENMF": (88.1, 931.5),
        "LightGCN": (283.4, 12_360.0),
        "LightGCN with dynamically drawn candidates, official settings": (None, 17_118.0),
        "DREGN-CF": (3.6, 72.0),
        "DREGN-CF-fast": (1.92, None),
    }
    return BarExhibit(
        "figure-3",
        "Figure 3. Training time",
        "Seconds of training until the chosen step; published times are of another machine.",
        tuple(
            BarPanel(
                f"Training time on {name}",
                "seconds",
                tuple(
                    Bar(method, value and value * (1 + k), published and published * (1 + k))
                    for method, (value, published) in figures.items()
                ),
                log=True,
            )
            for k, name in enumerate(DATA_SETS[:3])
        ),
        remarks=("Times are not comparable across machines; orders of magnitude are.",),
    )


def rise(scale: float, tempo: float, steps: list[int]) -> tuple[tuple[float, float], ...]:
    return tuple((float(n), scale * (1 - math.exp(-((n / tempo) ** 0.7)))) for n in steps)


def training_curves() -> CurveExhibit:
    steps = list(range(4, 2404, 4))
    speeds = {
        "LightGCN": (0.0421, 900.0),
        "LightGCN-DNS": (0.0446, 500.0),
        "Uni-W": (0.0333, 160.0),
        "DREGN-CF": (0.0482, 60.0),
    }
    panels = []
    for metric, share in (("R@20", 1.0), ("nDCG@20", 0.78)):
        ours = [
            Series(name, rise(share * scale, tempo, steps[: 140 if name == "Uni-W" else None]))
            for name, (scale, tempo) in speeds.items()
        ]
        published = [
            Series(name, rise(1.02 * share * scale, tempo, steps[9::30]), is_published=True)
            for name, (scale, tempo) in list(speeds.items())[::3]
        ]
        panels.append(
            Panel(f"{metric} while training", "step", metric, (*ours, *published), log_x=True)
        )
    return CurveExhibit(
        "figure-5",
        "Figure 5. Training curves on Amazon-Book",
        "Quality on the test part after each step, which no choice depends on.",
        tuple(panels),
        remarks=("The curve of Uni-W ends where its time budget did.",),
    )


def sensitivity_curves() -> CurveExhibit:
    weights = [0.01 * 2**k for k in range(6)]

    def hill(top: float, best: float) -> tuple[tuple[float, float], ...]:
        return tuple((x, top - 0.006 * math.log(x / best) ** 2) for x in weights)

    def panel(name: str, level: float) -> Panel:
        series = (
            Series("R@20", hill(level, 0.06)),
            Series("R@20", hill(1.004 * level, 0.055), is_published=True),
            Series("nDCG@20", hill(0.86 * level, 0.05)),
            Series("nDCG@20", hill(0.865 * level, 0.05), is_published=True),
        )
        return Panel(name, "λ", "on validation pairs", series, log_x=True)

    levels = (0.181, 0.069, 0.048)
    panels = tuple(panel(*pair) for pair in zip(DATA_SETS, levels, strict=False))
    return CurveExhibit(
        "figure-6", "Figure 6. Effect of λ", "The weight of the penalty on embeddings.", panels
    )


def exhibits() -> list[Exhibit]:
    return [
        effectiveness_table(),
        ablation_table(),
        efficiency_bars(),
        training_curves(),
        sensitivity_curves(),
    ]


def awkward_exhibits() -> list[Exhibit]:
    """Long words, hostile ones, and figures that no axis has a place for."""
    word = "<script>" + "Donaudampfschifffahrtsgesellschaftskapitän" * 4 + "|&amp;"
    odd = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300)
    points = tuple((x, y) for x in odd for y in odd)
    lines = [Series(f"{word} {k // 2}", points, is_published=k % 2 == 1) for k in range(9)]
    short = [Series(f"model {k}", ((1.0, 1.0), (2.0 + k, 1.0))) for k in range(9)]
    bars = [Bar(word, value, other) for value in (None, *odd) for other in (None, 3.0, math.nan)]
    return [
        TableExhibit(
            word,
            word,
            word,
            (word, "short", "text"),
            (
                Row(word, (Measured((0.1, 0.2), 0.1, word), Measured(odd, math.nan, word), word)),
                Row("b", (Measured((), 0.1), Measured((-123456.7,), 1e-9), "")),
            ),
            remarks=(word, word),
        ),
        CurveExhibit(
            word,
            word,
            word,
            (
                Panel(word, word, word, tuple(lines), log_x=True, log_y=True),
                Panel("many", "x", "y", (*lines[:2], *short)),
                Panel("none", "x", "y", ()),
                Panel("one", "x", "y", (Series("a", ((3.0, 3.0),)),)),
            ),
        ),
        BarExhibit(
            word,
            word,
            word,
            (
                BarPanel(word, word, tuple(bars), log=True),
                BarPanel("linear", "y", (Bar("up", 3.0, 2.0), Bar("down", -2.0, -123456789.0))),
                BarPanel("none", "y", ()),
            ),
        ),
    ]


def probe(
    shown: Sequence[Exhibit], folder: Path, *, width: int, dark: bool = False, paper: bool = False
) -> dict[str, Any]:
    """What a browser of this width makes of a report."""
    write_page(folder / "report.html", shown, title=TITLE, facts=FACTS)
    text = (folder / "report.html").read_text(encoding="utf-8")
    if paper:
        text = text.replace("@media print{", "@media all{")
    return probed(text, PROBE, folder, width=width, dark=dark)


SCREENS = [(1280, False), (400, False), (1280, True), (400, True)]  # width, and whether dark


@pytest.fixture(scope="module", params=SCREENS, ids=str)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    width, dark = request.param
    found = probe(exhibits(), tmp_path_factory.mktemp("seen"), width=width, dark=dark)
    return {**found, "prefers_dark": dark}


def test_the_page_does_not_scroll_sideways_with_its_numbers_closed_or_open(seen):
    assert seen["needed"] <= seen["shown"]
    assert seen["needed_open"] <= seen["shown"]


def test_every_plot_is_seen_and_has_a_text_alternative(seen):
    assert seen["charts"] == 3 + 2 + 3
    assert seen["unseen"] == 0
    assert seen["unnamed"] == 0


def test_no_words_of_a_plot_meet_or_leave_it(seen):
    assert seen["chart_overlaps"] == []
    assert seen["outside"] == []


def test_no_cells_of_a_table_meet_or_are_clipped(seen):
    assert seen["cell_overlaps"] == []
    assert seen["clipped"] == []


def test_letters_can_be_read(seen):
    assert seen["letters"] >= 11
    assert seen["chart_letters"] >= 10


def test_tables_scroll_by_themselves_on_a_phone_only(seen):
    assert seen["scrolling"] == (2 if seen["shown"] == 400 else 0)


def test_headings_are_in_order(seen):
    levels = seen["levels"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_every_link_leads_to_its_place(seen):
    assert seen["links"] > 6
    assert seen["astray"] == []


def test_the_numbers_of_every_plot_can_be_opened(seen):
    assert len(seen["numbers"]) == seen["charts"]
    assert min(seen["numbers"]) > 50


def test_a_reader_gets_the_ground_that_is_preferred(seen):
    brightness = sum(map(int, re.findall(r"\d+", seen["ground"])))
    assert brightness < 150 if seen["prefers_dark"] else brightness > 600


def test_on_paper_the_widest_table_fits_the_sheet(tmp_path):
    seen = probe(exhibits(), tmp_path, width=674, paper=True)  # A4 without its margins
    assert seen["needed"] <= 674
    assert seen["scrolling"] == 0
    assert seen["cell_overlaps"] == []


def test_awkward_exhibits_fit_the_screen_and_their_words_do_not_meet(tmp_path):
    seen = probe(awkward_exhibits(), tmp_path, width=400)
    assert seen["charts"] == 7
    assert seen["unseen"] == 0
    assert seen["needed"] <= 400
    assert seen["needed_open"] <= 400
    assert seen["chart_overlaps"] == []
    assert seen["outside"] == []
    assert seen["cell_overlaps"] == []
    assert seen["clipped"] == []


def test_the_plots_beside_a_text_are_images_with_a_size(tmp_path):
    write_markdown(tmp_path / "report.md", exhibits(), title=TITLE, facts=FACTS)
    plots = sorted(tmp_path.glob("*.svg"))
    assert len(plots) == 3
    shown = "".join(f'<img src="{plot.name}">' for plot in plots)
    script = """<script>addEventListener("load", () => {
      document.documentElement.dataset.sizes = JSON.stringify(
        [...document.images].map(e => [e.naturalWidth, e.naturalHeight]));
    })</script>"""
    sizes = re.search(r'data-sizes="(.*?)"', browse(shown + script, tmp_path))
    assert sizes
    assert all(width > 800 and height > 300 for width, height in json.loads(sizes[1]))
