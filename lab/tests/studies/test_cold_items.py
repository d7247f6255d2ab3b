"""The study of cold items: users are pooled over draws, and the table says what was found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.synthetic import Synthetic
from ratiorec.evaluation.evaluate import Report
from ratiorec_lab.results.lists import cold_table
from ratiorec_lab.studies.cold_items import METRICS, names, over_draws, told


def report(users: list[int], values: list[float]) -> Report:
    return Report(np.array(users), {name: np.array(values) for name in METRICS})


def test_a_user_has_the_mean_over_the_draws_that_judge_it() -> None:
    found = over_draws([report([0, 2], [0.5, 1.0]), report([2], [0.0])], 4)["recall@20"]
    assert found[[0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(found[[1, 3]]).all()


def test_means_are_over_the_users_judged() -> None:
    found = told({"recall@20": np.array([0.2, np.nan, 0.4])})["recall@20"]
    assert found["value"] == pytest.approx(0.3)
    assert 0.2 <= found["low"] <= found["value"] <= found["high"] <= 0.4


def test_names_are_the_text_of_the_synthetic_set() -> None:
    data = Synthetic(n_users=20, n_items=30, mean_pairs=6)(rng=np.random.default_rng(0))
    table = names(data.dataset.train)
    assert table.kinds == {"name": "text"}
    assert table.row(3)["name"] == data.dataset.train.items.name(3)


def test_the_table_has_a_line_for_each_preset_and_content(tmp_path: Path) -> None:
    assert cold_table(tmp_path) == "Not measured yet."
    figure = {"value": 0.25, "low": 0.2, "high": 0.3}
    figures = dict.fromkeys(METRICS, figure)
    row = {"preset": "ease", "attributes": ["genres", "year"], "held_out": 20}
    row |= {"content": figures, "popularity": figures, "random": figures}
    row |= {"ahead_of": {"popularity": figures, "random": figures}}
    result = {"dataset": "small", "users": 7, "items": 100, "draws": 2, "rows": [row]}
    record = {"result": result, "command": "python -m study"}
    (tmp_path / "bench-cold_items-small.json").write_text(json.dumps(record))
    text = cold_table(tmp_path)
    assert "**small**, 7 users, 20 of 100 items held out in each of 2 draws:" in text
    assert "| `ease` | genres, year | 0.2500 (0.2000 to 0.3000) |" in text
    assert "+0.2500 (+0.2000 to +0.3000)" in text
