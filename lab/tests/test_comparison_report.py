from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import DataError
from ratiorec.training.compare import (
    PresetResult,
    compare_folds,
    compare_presets,
    figures_of,
    ranked,
)
from ratiorec_lab.comparison_report import write_report
from support.quick_presets import failing, use_presets

NAMES = ["popularity", "broken", "dre-mf", "item-knn"]
BROKEN = failing(DataError("<no>", where="a & b", found="c", wanted="d"))


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Synthetic(n_users=60, n_items=40, mean_pairs=12)(rng=np.random.default_rng(0)).dataset


def compared(dataset: Dataset, names: list[str]) -> list[PresetResult]:
    with pytest.MonkeyPatch.context() as patch:
        use_presets(patch, broken=BROKEN)
        return compare_presets(dataset, names, device="cpu")


def page_of(results: list[PresetResult], dataset: Dataset, folder: Path) -> str:
    write_report(results, dataset, folder / "report.html", seed=5, device="cpu")
    assert [file.name for file in folder.iterdir()] == ["report.html"]
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results(dataset: Dataset) -> list[PresetResult]:
    return compared(dataset, NAMES)


@pytest.fixture
def html(results: list[PresetResult], dataset: Dataset, tmp_path: Path) -> str:
    return page_of(results, dataset, tmp_path)


def test_the_report_is_one_file_that_needs_no_other(html: str) -> None:
    assert html.lower().startswith("<!doctype html>")
    assert html.endswith("</html>\n")
    assert "<link" not in html
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", html) == []
    assert re.findall(r"url\((?!['\"]?(?:#|data:))|@import", html) == []


def test_bars_show_quality_and_time_in_the_order_of_quality(
    html: str, results: list[PresetResult]
) -> None:
    *told, last = re.findall(r"<desc>(.*?)</desc>", html)
    assert [words.partition(".")[0] for words in told] == [
        "Bar chart of nDCG@20, test pairs",
        "Bar chart of seconds, logarithmic",
    ]
    assert last.startswith("Line chart of nDCG@20, test pairs against novelty@20, bits. ")
    for words in told:
        places = [words.index(f" {result.preset}: ") for result in ranked(results)]
        assert places == sorted(places)
        assert "broken" not in words


def test_the_table_has_intervals_and_the_difference_to_the_best(
    html: str, results: list[PresetResult]
) -> None:
    for result in ranked(results):
        report = figures_of(result).report
        assert report is not None
        interval = report.intervals["ndcg@20"]
        assert f"{interval.low:.4f} to {interval.high:.4f}" in html
        if result.against_best is not None:
            assert f"{result.against_best.difference:.4f}".replace("-", "−") in html


def test_a_plot_shows_accuracy_against_novelty_and_a_table_what_lists_are_like(
    html: str, results: list[PresetResult]
) -> None:
    plot = re.findall(r"<desc>(.*?)</desc>", html)[-1]
    section = html[html.index("<h2>What are the lists like?") : html.index("<h2>What do they")]
    for result in ranked(results):
        beyond = figures_of(result).beyond
        assert beyond is not None
        novelty, ndcg = beyond["novelty@20"], figures_of(result).metrics["ndcg@20"]
        place = re.search(rf"{result.preset} from (\S+) to \1, highest \1 at ([\d.]+\d)", plot)
        assert place is not None
        assert float(place[1]) == pytest.approx(ndcg, rel=1e-2)
        assert float(place[2]) == pytest.approx(novelty.value, rel=1e-2)
        low, high = beyond["gini@20"][1:]
        assert f"{low:.4f} to {high:.4f}" in section


def test_folds_are_named_where_they_judge(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        use_presets(patch)
        found = compare_folds(dataset, ["popularity", "item-knn"], 3, device="cpu")
    html = page_of(found, dataset, tmp_path)
    assert "95 % intervals over 3 folds" in html
    assert "paired by fold" in html
    assert "bootstrap" not in html


def test_what_could_not_run_is_named_with_its_reason(html: str) -> None:
    assert "What could not run?" in html
    assert "&lt;no&gt; (where: a &amp; b; found: c; wanted: d)" in html


def test_data_seed_and_settings_are_told(html: str, dataset: Dataset) -> None:
    assert "Presets on synthetic" in html
    assert "seed 5 on cpu" in html
    assert f"{dataset.train.n_pairs:,}" in html
    settings = html[html.index('id="section-6"') :]
    for name in NAMES:
        assert f"<h3>{name}</h3>" in settings
    listed = re.findall(
        r'class="what">(.*?)</span><span class="note">(.*?)</span>', settings.replace("<wbr/>", "")
    )
    for setting in (
        ("solver", "popularity"),
        ("encoder", "factorisation"),
        ("encoder.dimension", "4"),
        ("training.epochs", "3"),
    ):
        assert setting in listed


def test_without_a_test_part_nothing_is_said_of_intervals(dataset: Dataset, tmp_path: Path) -> None:
    pairs = Dataset("pairs", dataset.train)
    html = page_of(compared(pairs, ["popularity", "item-knn"]), pairs, tmp_path)
    assert "pairs held out for validation" in html
    assert "The data have no test part" in html
    for words in ("bootstrap", "against the best", 'class="interval"', "test pairs", "could not"):
        assert words not in html


def test_a_report_on_nothing_says_why(dataset: Dataset, tmp_path: Path) -> None:
    html = page_of(compared(dataset, ["broken"]), dataset, tmp_path)
    assert "no data" in html
    assert "&lt;no&gt;" in html
