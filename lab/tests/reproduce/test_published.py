from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ratiorec.presets import PRESETS
from ratiorec_lab.reproduce.cells import FIXED
from ratiorec_lab.reproduce.published import (
    ABLATION,
    EFFECTIVENESS,
    EFFICIENCY,
    ELSEWHERE,
    METRICS,
    STATISTICS,
    By,
    dataset_name,
    effort,
    method_name,
    quality,
)
from ratiorec_lab.reproduce.tables import ROWS

TABLES = {"effectiveness": EFFECTIVENESS, "elsewhere": ELSEWHERE, "ablation": ABLATION}


@pytest.mark.parametrize("name", STATISTICS)
def test_the_printed_density_is_that_of_the_printed_counts(name: str) -> None:
    counts = STATISTICS[name]
    density = counts.n_pairs / (counts.n_users * counts.n_items)
    assert round(density, 5) == counts.density


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_a_preset_with_figures_on_the_three_data_sets(table: str) -> None:
    for preset, figures in TABLES[table].items():
        assert preset in PRESETS
        assert list(figures) == list(STATISTICS)
        assert all(0 < value < 0.2 for pair in figures.values() for value in pair)


def test_a_figure_that_is_not_published_is_none() -> None:
    assert quality(EFFECTIVENESS, "enmf", "yelp2018", "ndcg@20") == 0.0513
    assert quality(EFFECTIVENESS, "enmf", "amazon-book-75", "ndcg@20") is None
    assert quality(EFFECTIVENESS, "ease", "gowalla", "ndcg@20") is None


def test_the_time_is_told_or_steps_by_their_time() -> None:
    assert effort("enmf", "gowalla").seconds == 123 * 1.036
    assert effort("mult-vae", "amazon-book").seconds == 2889
    assert effort("enmf", "amazon-book").seconds is None
    assert effort("lightgcn", "gowalla") == effort("dregn-cf", "amazon-book-75")
    assert EFFICIENCY["dregn-cf", "gowalla"].seconds is None


# The numbers once more, taken from the paper's text with their places: facts alone, no words


def paper_numbers(place: str) -> list[tuple[str, str, str, float]]:
    path = Path(__file__).with_name("paper_numbers.csv")
    with path.open(encoding="utf-8", newline="") as handle:
        lines = list(csv.DictReader(handle))
    return [
        (line["row"], line["dataset"], line["column"], float(line["value"]))
        for line in lines
        if line["place"] == place
    ]


NAMES = {dataset_name(name): name for name in STATISTICS}
LABELS = {label: metric for metric, label in METRICS.items()}
PRESET_OF = {method_name(preset): preset for preset in EFFECTIVENESS}


def test_table_1_is_the_papers() -> None:
    printed = paper_numbers("Table 1")
    assert len(printed) == 3 * 4
    for _, dataset, column, value in printed:
        columns = ("users", "items", "interactions", "density")
        counts = dict(zip(columns, STATISTICS[NAMES[dataset]], strict=True))
        assert counts[column] == value, (dataset, column)


@pytest.mark.parametrize(
    ("place", "figures", "presets"),
    [
        ("Table 2", EFFECTIVENESS, PRESET_OF),
        ("Table 3", ABLATION, {row: preset for preset, row in ROWS.items()}),
    ],
)
def test_tables_2_and_3_are_the_papers(place: str, figures: By, presets: dict[str, str]) -> None:
    printed = paper_numbers(place)
    assert len(printed) == len(figures) * 3 * 2
    for row, dataset, column, value in printed:
        found = quality(figures, presets[row], NAMES[dataset], LABELS[column])
        assert found == value, (row, dataset, column)


def test_times_and_steps_are_the_papers() -> None:
    printed = paper_numbers("Section 5.3")
    told = {
        (preset, dataset, column): value
        for (preset, dataset), efforts in EFFICIENCY.items()
        for column, value in zip(("steps", "seconds a step", "seconds"), efforts, strict=True)
        if value is not None
    }
    assert {(PRESET_OF[row], NAMES[d], column): v for row, d, column, v in printed} == told


def test_the_protocol_paper_has_its_users_a_batch() -> None:
    printed = {NAMES[d]: value for _, d, _, value in paper_numbers("Section 5.1.2")}
    assert {name: FIXED[name].n_users for name in printed} == printed
    assert len(printed) == 3
