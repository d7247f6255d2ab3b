"""Reports laid out by a real browser, wide and narrow, light and dark."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec_lab.report.charts import (
    Bar,
    Dot,
    Series,
    bar_chart,
    dot_chart,
    line_chart,
    scatter_chart,
    sheet,
)
from ratiorec_lab.report.page import (
    Columns,
    Estimate,
    Figure,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Section,
    Table,
    render,
)
from ratiorec_lab.report.writing import format_number
from ratiorec_lab.reproduce import exhibits as e
from ratiorec_lab.reproduce.page import write_page
from ratiorec_lab.reproduce.verdict import Check, Claim, Verdict
from support.browser import probed, visit

# Boxes of text are as high as the font asks, letters are not: two shared pixels are no overlap.
PROBE = """
  const all = what => [...document.querySelectorAll(what)];
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  const light = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(c => c / 255).map(
    c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4).reduce(
    (sum, c, k) => sum + c * [.2126, .7152, .0722][k], 0);
  const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const style = (e, what) => getComputedStyle(e)[what];
  const seen = {shown: innerWidth, charts: all("svg").length, overlaps: [], outside: [], faint: [],
    ground: light(style(document.body, "backgroundColor")), letters: 99, clipped: all(
    "th, td, dd, dt, li, p").filter(x => x.scrollWidth > x.clientWidth + 1).map(
    x => x.textContent)};
  for (const svg of all("svg")) {
    const edge = svg.getBoundingClientRect(), words = [...svg.querySelectorAll("text")];
    const card = light(style(svg.closest(".card"), "backgroundColor"));
    const boxes = words.map(x => [x.textContent, x.getBoundingClientRect()]);
    boxes.forEach(([text, a], k) => {
      if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1
          || a.bottom > edge.bottom + 1) seen.outside.push(text);
      for (const [other, b] of boxes.slice(k + 1))
        if (meet(a, b)) seen.overlaps.push([text, other]);
      if (contrast(light(style(words[k], "fill")), card) < 4.5) seen.faint.push(text);
      seen.letters = Math.min(seen.letters,
        parseFloat(style(words[k], "fontSize")) * svg.getScreenCTM().a);
    });
  }
  const top = x => x.getBoundingClientRect().top;
  seen.contents = all("nav").filter(x => x.offsetParent).map(
    x => top(x) > top(all("section > h2")[0]) ? "below" : "above");
  seen.sections = all("section > h2").map(x => x.textContent);
  seen.tables = all("main table").map(x => x.className);
  seen.dead = all('a[href^="#"]').filter(x => !document.getElementById(x.hash.slice(1))).length;
  seen.scrolling = all(".card > .scroll").filter(x => x.scrollWidth > x.clientWidth + 1).length;
  all("details").forEach(x => { x.open = true; });
  seen.needed = document.documentElement.scrollWidth;
  return seen;
"""
RESULTS = Path(__file__).parents[3] / "results" / "reproduce"
SCREENS = [(width, dark) for width in (1280, 400) for dark in (False, True)]
RISE = 1 - np.exp(-np.arange(5, 101, 5) / 18)


def rise(top: float, tempo: float, n: int) -> list[tuple[float, float]]:
    return [(float(k), top * (1 - math.exp(-((k / tempo) ** 0.7)))) for k in range(4, n, 4)]


@cache
def report() -> str:
    """Charts, tables and lists as the demonstration, a comparison and a benchmark have them."""
    epochs, steps = np.arange(5, 101, 5), np.arange(1, 241)
    true = 10 ** np.random.default_rng(3).normal(0, 0.8, 3000)
    metrics = ["Recall@20", "nDCG@20"]
    curve = {"title": "Validation while searching for the stopping step", "x_label": "epoch"}
    weights = ["uniform weights", "popularity, α = ½", "hard samples", "no correction"]
    ratio = {"x_label": "true ratio", "y_label": "estimated ratio", "log_x": True, "log_y": True}
    presets = [("DREGN-CF", 0.1816), ("Most popular", 0.0612), ("item-kNN, 200 neighbours", 0.157)]
    estimates = [(name, Estimate(value, value - 0.004, value + 0.004)) for name, value in presets]
    solved = [*((10 * 1.03**k, 0.15 + k / 3000) for k in range(4)), (400, 0.17), (300, 0.14)]
    charts = [
        line_chart(
            [Series(name, epochs, (0.18 - k / 30) * RISE) for k, name in enumerate(metrics)],
            **curve,
            y_label="on held-out pairs",
            mark=(65, "chosen: epoch 65"),
        ),
        line_chart(
            [
                Series(name, steps, (0.12 + 0.02 * k) * (1 - np.exp(-steps / (20 + 12 * k))))
                for k, name in enumerate(weights)
            ],
            title="How fast each weighting rises",
            x_label="step",
            y_label="Recall@20 on validation data",
        ),
        scatter_chart(true, true**0.9, title="Estimated and true", **ratio, diagonal=True),
        bar_chart(
            [Bar(name, one.value, None, one.low, one.high) for name, one in estimates],
            title="Recall@20 on the test part",
            value_label="mean over users",
            write=format_number,
        ),
        dot_chart(
            [
                Dot("dregn-cf, CUDA graph", "1.1 ms, 11 × floor", 1.1e-3, 1e-3, 1.2e-3, 1e-4),
                Dot("dense PyTorch with a long name", "658 µs", 6.6e-4, 6e-4, 7e-4, colour=1),
            ],
            title="One whole training step, the dealing of its batch included",
            value_label="seconds, logarithmic",
        ),
        line_chart(
            [Series(f"model {k}", [x], [y]) for k, (x, y) in enumerate(solved)],
            title="Quality for time",
            x_label="training seconds",
            y_label="recall@20",
            log_x=True,
        ),
    ]
    rows = [[name, *[one] * 5] for name, one in estimates]
    table = Table(["", *(f"metric {k}@20" for k in range(5))], rows, "Means", highest=(1, 2))
    listed = [("training.min_steps_between_validations", "24"), ("risk.generator", "least-squares")]
    page = Page(
        "Recommendations by density ratio",
        "A lead of some length, which says what was done.",
        [
            Section("At a glance", [KeyValues({"users": 2000, "density": 0.0243}), table]),
            Section("Alone", [Paragraph("Words."), Figure(charts[0], "A caption beside it.")]),
            Section("Side by side", [Columns([Figure(one, "Below.") for one in charts[1:]])]),
            Section("Lists", [Columns([Listing("A name", listed, numbered=True)] * 3)]),
        ],
        footer="Made by a test.",
    )
    return render(page)


def exhibits(word: str = "DREGN-CF") -> list[e.Exhibit]:
    figure = e.Measured((0.1811, 0.1813, 0.1809), 0.1828, "cut by the time budget at epoch 570")
    columns = tuple(f"{name} {m}" for name in ("Gowalla", "Yelp2018") for m in ("R@20", "nDCG@20"))
    names = ("LightGCN", "LightGCN-DNS, official settings", word)
    curves = [
        e.Series(name, tuple(rise(0.05 - k / 100, 60 * 9**k, 900 + 600 * k)))
        for k, name in enumerate(names)
    ]
    published = e.Series(word, tuple(rise(0.031, 4000, 2000)[::40]), is_published=True)
    bars = tuple(
        e.Bar(name, 3.6 * 40**k if k else None, 72.0 * 9**k) for k, name in enumerate(names)
    )
    return [
        e.TableExhibit(
            "t",
            "Table 2",
            "A caption.",
            (*columns, "words"),
            tuple(e.Row(name, (*[figure] * 4, "759 ms")) for name in names),
            remarks=("LightGCN stays 1.1 % below.",) * 9,
        ),
        e.CurveExhibit(
            "c",
            "Figure 5",
            "A caption.",
            tuple(
                e.Panel(
                    f"{title} while training",
                    "step",
                    "R@20 on validation pairs",
                    (*curves, published),
                    log_x=log,
                )
                for title, log in (("R@20", True), ("x", False))
            ),
        ),
        e.BarExhibit(
            "b",
            "Figure 3",
            "A caption.",
            (
                e.BarPanel("Training time on Gowalla", "seconds", bars, log=True),
                e.BarPanel("Steps", "steps", bars),
            ),
        ),
    ]


@cache
def reproduction(folder: Path) -> str:
    claims = (
        Claim(
            f"{k}",
            "DREGN-CF ranks better than LightGCN on Yelp2018 and Amazon-Book",
            "5.2",
            of,
            lambda findings, dataset: None,
        )
        for k, of in enumerate("tcb")
    )
    check = Check("amazon-book-75", "holds", "+1.0 % (+0.5 to +1.6 %), an eager step and a graph")
    found = [Verdict(claim, "not reproduced", (check,) * 2) for claim in claims]
    facts = {"commit": "3" * 40}
    path = folder / "r.html"
    write_page(path, exhibits(), title="Reproduction", facts=facts, verdicts=found)
    return (folder / "r.html").read_text(encoding="utf-8")


@pytest.fixture(
    scope="module",
    params=[*(("report", *s) for s in SCREENS), *(("reproduction", *s) for s in SCREENS)],
    ids=str,
)
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, browser: Any
) -> Any:
    kind, width, dark = request.param
    folder = tmp_path_factory.mktemp("seen")
    text = report() if kind == "report" else reproduction(folder)
    found = probed(browser, text, PROBE, folder, width=width, dark=dark)
    return {**found, "kind": kind, "dark": dark}


def test_the_page_does_not_scroll_sideways_and_nothing_is_clipped(seen) -> None:
    assert seen["needed"] <= seen["shown"]
    assert seen["clipped"] == []


def test_the_words_of_a_chart_stay_in_it_apart_and_large_enough(seen) -> None:
    assert seen["charts"] == {"report": 6, "reproduction": 4}[seen["kind"]]
    assert seen["outside"] == []
    assert seen["overlaps"] == []
    assert seen["letters"] >= 10


def test_the_verdict_is_first_the_facts_are_last_and_every_link_has_a_target(seen) -> None:
    assert seen["dead"] == 0
    if seen["kind"] == "reproduction":
        assert seen["sections"] == [
            "Verdict",
            "Table 2",
            "Figure 5",
            "Figure 3",
            "How it was measured",
        ]
        assert seen["tables"][0] == "verdicts"


def test_the_contents_stand_below_what_comes_first_on_a_phone_alone(seen) -> None:
    assert seen["contents"] == ["below" if seen["shown"] == 400 else "above"]


def test_words_stand_out_from_the_ground_that_the_reader_prefers(seen) -> None:
    assert seen["faint"] == []
    assert seen["ground"] < 0.1 if seen["dark"] else seen["ground"] > 0.8


def test_a_wide_table_scrolls_by_itself_on_a_phone_only(seen) -> None:
    n_tables = {"report": 1, "reproduction": 2}[seen["kind"]]
    assert seen["scrolling"] == (n_tables if seen["shown"] == 400 else 0)


def test_awkward_names_and_numbers_stay_in_their_charts(browser: Any, tmp_path: Path) -> None:
    word = "<script>" + "Donaudampfschifffahrtsgesellschaftskapitän" * 4 + "|&amp;"
    words = {"title": word, "x_label": word, "y_label": word}
    odd = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300, 123456.7]
    line = np.arange(10)
    charts = [
        line_chart([Series(f"{word} {k}", line, line**k) for k in range(9)], **words),
        line_chart([Series("東京の推薦", line, line), Series("WWW", line, line / 2)], **words),
        line_chart([Series("a", odd, odd)], **words, mark=(123456.7, word), note="note"),
        line_chart([Series("a", [123456.7, 123456.8], [1, 1])], **words),
        scatter_chart(10.0 ** (line * 20 - 100), line, **words, log_x=True, max_points=4),
        bar_chart(
            [Bar(word, one, two) for one in (None, *odd) for two in (None, 3.0, 1e300)],
            title=word,
            value_label=word,
            write=format_number,
            names=(word, word),
        ),
        dot_chart([Dot(word, "1 s", 1, 1, 1)], title=word, value_label=word),
    ]
    text = render(Page(word, word, [Section(word, [Columns([*map(Figure, charts)])])]))
    seen = probed(browser, text, PROBE, tmp_path, width=400)
    assert seen["charts"] == 7
    assert seen["needed"] <= 400
    assert seen["outside"] == []


def test_on_paper_the_widest_table_fits_the_sheet(browser: Any, tmp_path: Path) -> None:
    text = reproduction(tmp_path).replace("@media print{", "@media all{")
    seen = probed(browser, text, PROBE, tmp_path, width=674)  # A4 without its margins
    assert seen["needed"] <= 674
    assert seen["scrolling"] == 0


def test_a_sheet_is_an_image_with_a_size(browser: Any, tmp_path: Path) -> None:
    chart = line_chart([Series("a", [1, 2], [1, 2])], title="T", x_label="x", y_label="y")
    (tmp_path / "sheet.svg").write_text(sheet([chart] * 3, title="T"), encoding="utf-8")
    (tmp_path / "page.html").write_text('<!DOCTYPE html><img src="sheet.svg">')
    visit(browser, (tmp_path / "page.html").as_uri())
    size = "const image = document.images[0]; return [image.naturalWidth, image.naturalHeight]"
    width, height = browser.execute_script(size)
    assert width > 800
    assert height > 500


@pytest.mark.parametrize("name", ["report.html", "report-paper.html"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_reports_of_the_results_fit_their_screen(
    browser: Any, tmp_path: Path, name: str, width: int
) -> None:
    text = (RESULTS / name).read_text(encoding="utf-8")
    seen = probed(browser, text, PROBE, tmp_path, width=width)
    assert seen["needed"] <= width
    assert (seen["scrolling"] > 0) == (width == 400)
    assert (seen["sections"][0], seen["sections"][-1]) == ("Verdict", "How it was measured")
    assert seen["dead"] == 0
