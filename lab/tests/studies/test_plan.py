"""The study of plans: its fit, and that its record is what the code of today would predict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec_lab.results import plan as results
from ratiorec_lab.studies import plan, plan_h200

RESULTS = Path(__file__).parents[3] / "results"


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))["result"]
    return found


def test_rates_are_found_again_and_none_is_negative() -> None:
    rng = np.random.default_rng(0)
    true = {"a": 3e-9, "b": 0.0, "c": 2e-3}
    works = [{"a": rng.uniform(1e3, 1e8), "b": rng.uniform(1, 9), "c": 1.0} for _ in range(12)]
    seconds = [plan.cost(work, true) for work in works]
    assert plan.fit_rates(works, seconds) == pytest.approx(true)
    noisy = [value * rng.uniform(0.5, 2) for value in seconds]
    assert min(plan.fit_rates(works, noisy).values()) >= 0


def test_the_record_is_what_the_code_of_today_makes_of_its_runs() -> None:
    kept = record(results.CPU)
    found = plan.fitted_to(kept["runs"])
    assert found["sizes"] == kept["sizes"]
    assert found["seconds"] == pytest.approx(kept["seconds"])
    assert record(results.H200) == json.loads(json.dumps(plan_h200.from_records(RESULTS)))


def test_sizes_that_were_not_fitted_are_predicted() -> None:
    kept = record(results.CPU)
    tried = [size for size in kept["sizes"] if not size["fitted"]]
    assert len(tried) == 4
    for size in tried:
        assert abs(size["memory"]["predicted"] / size["memory"]["measured"] - 1) < 0.10
        assert abs(size["step"]["predicted"] / size["step"]["measured"] - 1) < 0.30
    for size in kept["sizes"]:
        assert size["sent"]["counted"] == size["sent"]["measured"]


def test_a_run_that_differs_changes_the_fit() -> None:
    runs = record(results.CPU)["runs"]
    slower = [{**run, "compute_seconds": 2 * run["compute_seconds"]} for run in runs]
    assert plan.fitted_to(slower)["errors"] != plan.fitted_to(runs)["errors"]
    larger = [
        {**run, "peak_mib": run["peak_mib"] + 9} if "peak_mib" in run else run for run in runs
    ]
    before = plan.fitted_to(runs)["process_mib"]
    assert plan.fitted_to(larger)["process_mib"] == pytest.approx(before + 9)
