from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import Synthetic
from ratiorec.presets import PRESETS
from ratiorec.training.tune import Metrics, Trial, Tuning
from ratiorec_lab.tuning_report import write_report


def judged(ndcg: float) -> Metrics:
    return {"recall@20": ndcg / 2, "ndcg@20": ndcg}


def ridge(l2: float, ndcg: float, state: str = "done") -> Trial:
    settings = {"solver.l2": l2, "solver.dropout": 0.0}
    return Trial("ease", state, settings, judged(ndcg), seconds=1.0, epochs=1.0)


POPULAR = Trial("popularity", "done", {}, judged(0.11))
FAILED = Trial("ease", "failed", {"solver.l2": 1.0, "solver.dropout": 0.0}, why="<no> memory")
TRIALS = [ridge(200, 0.2), POPULAR, ridge(100, 0.3), ridge(50, 0.25), ridge(9, 0.1, "pruned")]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Synthetic(n_users=20, n_items=10, mean_pairs=4)(rng=np.random.default_rng(0)).dataset


def page_of(trials: list[Trial], dataset: Dataset, path: Path, **importance: float) -> str:
    shares = {f"solver.{name}": share for name, share in importance.items()}
    starts = {name: PRESETS[name] for name in ("ease", "popularity", "walk")}
    left_out = {"walk": "about 9 s needed, 1 s left"}
    tuning = Tuning(starts, trials, {"ease": shares} if shares else {}, left_out, "last", 17, 30.0)
    write_report(tuning, dataset, path / "r.html", seed=3, device="cpu")
    return (path / "r.html").read_text(encoding="utf-8")


def test_the_page_tells_the_course_what_mattered_and_each_setting(
    dataset: Dataset, tmp_path: Path
) -> None:
    html = page_of([*TRIALS, FAILED], dataset, tmp_path, l2=0.9, dropout=0.1)
    course, importance, l2, dropout = re.findall(r"<desc>(.*?)</desc>", html)
    # what was pruned is in no drawing, and a line runs on to the last trial
    assert "ease from 0.2 to 0.3, highest 0.3 at 3" in course
    assert "popularity from 0.11 to 0.11" in course
    assert "l2: 0.9000; dropout: 0.1000" in importance
    assert "3 points" in l2
    assert "3 points" in dropout
    assert "solver.l2, logarithmic" in html
    assert "the best has 100." in html


def test_the_table_has_the_best_first_and_what_differs(dataset: Dataset, tmp_path: Path) -> None:
    html = page_of(TRIALS, dataset, tmp_path, l2=0.9, dropout=0.1)
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    told = [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in rows]
    assert told[1].startswith("ease 0.30")
    assert told[1].endswith("solver.l2 100")
    assert told[3].endswith("as it is")


def test_what_could_not_run_has_its_reason(dataset: Dataset, tmp_path: Path) -> None:
    html = page_of([*TRIALS, FAILED], dataset, tmp_path)
    assert "&lt;no&gt; memory" in html
    assert "about 9 s needed, 1 s left" in html


def test_a_search_of_one_trial_is_a_page_too(dataset: Dataset, tmp_path: Path) -> None:
    html = page_of([POPULAR], dataset, tmp_path)
    assert "What does each setting do?" not in html
    assert "1 trials (1 done, 0 pruned, 0 failed)" in html
