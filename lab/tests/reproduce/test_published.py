from __future__ import annotations

import pytest

from ratiorec.presets import PRESETS
from ratiorec_lab.reproduce.published import (
    ABLATION,
    EFFECTIVENESS,
    EFFICIENCY,
    ELSEWHERE,
    STATISTICS,
    effort,
    quality,
)

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
