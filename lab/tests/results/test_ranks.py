"""The tables on many processes from made-up records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab_support.markdown import rows
from ratiorec_lab.results.ranks import IMAGE, images, tables

MACHINE = {"cores": 2, "processor": "some"}


def keep(folder: Path, name: str, result: dict[str, Any]) -> None:
    record = {"result": result, "machine": MACHINE, "command": f"python -m {name}"}
    (folder / f"bench-{name}.json").write_text(json.dumps(record))


def way(name: str, recall: float, *tables_mb: float) -> dict[str, Any]:
    rank = {"optimizer_mb": 2, "peak_mb": 300, "operations_per_step": 1e9, "mb_sent_per_step": 3}
    return {
        "preset": "softmax",
        "way": name,
        "test": {"recall@20": recall, "ndcg@20": 0.1},
        "difference": {"recall@20": recall - 0.2, "ndcg@20": 0.0},
        "batches": {"compared": 24, "equal": 23},
        "seconds_per_step": 1.5,
        "share_talking": 0.25,
        "each_rank": [{**rank, "tables_mb": one} for one in tables_mb],
    }


def test_ranks_stand_beside_one_process_by_the_rank_that_has_most(tmp_path: Path) -> None:
    runs = [way("one process", 0.2, 8), way("torchrun, 2 on one host", 0.2003, 4, 4.5)]
    result = {"dataset": "gowalla", "steps": 24, "seed": 0, "tolerance": 5e-4, "runs": runs}
    keep(tmp_path, "ranks-gowalla", {**result, "not_run": {"several GPUs": "0 here"}})
    text = tables(tmp_path)["measured-ranks"]
    alone, two = rows(text)
    assert (alone["R@20"], two["R@20"]) == (".2000", ".2003 (+3.0e-04)")
    assert (alone["equal batches"], two["equal batches"]) == ("", "23 of 24")
    assert two["MB of tables, optimiser"] == "4.50 + 2.00"
    assert two["of it talking"] == "25%"
    assert "Not run: several GPUs (0 here)." in text


def test_a_kill_that_left_something_is_seen(tmp_path: Path) -> None:
    killed = {
        "kills": 10,
        "rounds": 4,
        "equal_to_the_bit": 3,
        "largest_difference": 2e-7,
        "largest_difference_of_recall": 0.0,
        "checkpoints_loaded": 1234,
        "half_written": ["a shard"],
        "left_over": ["model.checkpoint"],
    }
    other = {"epochs_before": 3.0, "largest_difference": 1e-6, "difference_of_recall": 0.0}
    keep(
        tmp_path,
        "kill_ranks",
        {"processes": 2, "killed": {"--workers": killed}, "continued_by": {"3": other}},
    )
    one, three = rows(tables(tmp_path)["measured-kill-ranks"])
    assert one["what happened"] == "10 killed in 4 trainings"
    assert [*one.values()][2] == "2.0e-07 (3 of 4 equal to the bit)"
    assert [*one.values()][-2:] == ["1 of 1,234", "1"]
    assert three["training"] == "2 processes stopped, 3 go on"


def test_scaling_is_told_by_size_and_then_by_ranks_and_drawn(tmp_path: Path) -> None:
    runs = [
        {
            "scaling": kind,
            "ranks": n_ranks,
            "size": {"pairs": pairs, "items": pairs},
            "seconds_per_step": 0.1 / n_ranks,
            "share_talking": 0.5,
            "mb_sent_per_step": 2.0 * n_ranks,
            "operations_per_step": 1e6,
            "tables_and_optimizer_mb": 3.0,
        }
        for n_ranks in (1, 2)
        for kind in ("strong", "weak")
        for pairs in (1000, 100_000)
    ]
    keep(tmp_path, "rank_scaling", {"runs": runs})
    found = rows(tables(tmp_path)["measured-rank-scaling"])
    assert [(one["scaling"], one["pairs"], one["ranks"]) for one in found[:3]] == [
        ("strong", "1,000", "1"),
        ("strong", "1,000", "2"),
        ("strong", "100,000", "1"),
    ]
    drawn = images(tmp_path)[IMAGE]
    assert drawn.count("<svg") == 1 + 8  # a sheet of four figures of both kinds
    assert "Weak scaling" in drawn


def test_what_is_not_measured_is_said(tmp_path: Path) -> None:
    assert set(tables(tmp_path).values()) == {"Not measured yet."}
    assert images(tmp_path) == {}
