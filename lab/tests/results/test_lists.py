from __future__ import annotations

import json
from pathlib import Path

from ratiorec_lab.results import lists
from ratiorec_lab.studies.filter_latency import PLAIN, best_of, cases, ratios

FIGURE = {"value": 0.2, "low": 0.1, "high": 0.3}


def write(folder: Path, name: str, result: object) -> None:
    record = {
        "result": result,
        "command": f"python -m {name}",
        "machine": {"cores": 2, "processor": "AMD"},
    }
    (folder / f"bench-{name}.json").write_text(json.dumps(record))


def test_what_is_not_measured_is_said_to_be_so(tmp_path: Path) -> None:
    assert set(lists.tables(tmp_path).values()) == {"Not measured yet."}
    assert lists.images(tmp_path) == {}


def test_latency_stands_beside_that_without_a_filter(tmp_path: Path) -> None:
    found = {
        PLAIN: {"p50_ms": 3.0, "p99_ms": 4.0, "p99_ms_of": [4.0, 9.0]},
        "1 % filter, fresh": {"p50_ms": 1.04, "p99_ms": 5.0, "p99_ms_of": [5.0, 6.0]},
    }
    result = {
        "catalogue": {"items": 100_000, "k": 20},
        "models": {"dimension": 64, "neighbours": 100},
        "load_average": [1.5, 1, 1],
        "latency": {"vectors": {"1": found, "4": found}},
    }
    write(tmp_path, "filter_latency", result)
    table = lists.latency_table(tmp_path).splitlines()
    assert "the smallest p99 of 2;" in table[5]
    assert table[0] == "| request | vectors, 1 connection | vectors, 4 connections |"
    assert table[2].startswith("| no filter | p50 3.0 ms, p99 4.0 ms | ")
    assert table[3].startswith("| 1 % filter, fresh | p50 1.0 ms, p99 5.0 ms, **1.25 ×** | ")
    assert ratios(found) == {f"1 % filter, fresh over {PLAIN}": 1.25}


def test_accuracy_that_is_left_stands_in_the_table_of_diversity(tmp_path: Path) -> None:
    curve = [
        {"strength": strength, "users": 9, "ndcg@20": FIGURE | {"value": ndcg}, "recall@20": FIGURE}
        | {"diversity@20": FIGURE}
        for strength, ndcg in ((0.0, 0.2), (0.5, 0.15))
    ]
    result = {"dataset": "tiny", "preset": "ease", "steps": 5, "seed": 0, "curve": curve}
    write(tmp_path, "diversity-tiny", result | {"test": "the test part"})
    row = lists.diversity_table(tmp_path).splitlines()[5]
    assert row.startswith("| 0.5 | 0.1500 (0.1000 to 0.3000) |")
    assert row.endswith("| none: no vectors | 75.0% |")


def test_the_quietest_round_is_told_beside_all() -> None:
    rounds = [{"answered": 5, "p50_ms": 1.0 + p99, "p99_ms": p99} for p99 in (9.0, 4.0, 7.0)]
    assert best_of(rounds) == {
        "requests": 15,
        "p50_ms": 5.0,
        "p99_ms": 4.0,
        "p99_ms_of": [9.0, 4.0, 7.0],
    }


def test_a_filter_of_the_study_keeps_about_a_hundredth() -> None:
    import numpy as np

    from ratiorec.catalogue.expressions import Expression
    from ratiorec_lab.studies.filter_latency import attributes, one_percent

    rng = np.random.default_rng(0)
    table = attributes(20_000, rng)
    kept = [Expression.parse(one_percent(rng)).mask(table).mean() for _ in range(10)]
    assert all(0.007 < share < 0.013 for share in kept)
    assert cases(rng)[PLAIN](rng) == ""
