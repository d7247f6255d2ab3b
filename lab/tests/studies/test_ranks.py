from __future__ import annotations

from typing import Any

import pytest

from ratiorec_lab.studies import ranks
from ratiorec_lab.studies.ranks import ALONE, HOSTS, batches_compared, summary, ways


def process(recall: float, seconds: list[float], **digests: list[str]) -> dict[str, Any]:
    steps = [{"seconds": one, "talking": one / 4, "n_bytes": 2**20} for one in seconds]
    return {
        "users": 10,
        "pairs": 90,
        "threads": 1,
        "steps": steps,
        "digests": {part.replace("_", " "): told for part, told in digests.items()},
        "operations_per_step": 1e6,
        "peak_mb": 100.0,
        "bytes": {"tables": 2**20, "optimizer": 2**21},
        "test": {"recall@20": recall, "ndcg@20": 0.1},
    }


def test_a_way_is_compared_with_the_first_and_told_without_its_first_step() -> None:
    alone = [process(0.2, [9, 1, 2, 3], **{"0_of_1": ["a", "b"]})]
    found = [process(0.2004, [9, 4, 5, 6], **{"0_of_1": ["a", "c"]})]
    told = summary({"way": "torchrun", "ranks": 1, "found": found}, alone)
    assert told["difference"]["recall@20"] == pytest.approx(0.0004)
    assert told["within_tolerance"]
    assert told["batches"] == {"compared": 2, "equal": 1}
    assert (told["seconds_per_step"], told["fastest_step"], told["share_talking"]) == (5, 4, 0.25)
    (rank,) = told["each_rank"]
    assert (rank["tables_mb"], rank["optimizer_mb"], rank["mb_sent_per_step"]) == (1, 2, 1)
    too_far = [process(0.2006, [1, 1], **{"0_of_1": ["a", "b"]})]
    assert not summary({"way": "", "ranks": 1, "found": too_far}, alone)["within_tolerance"]


def test_a_batch_is_equal_where_it_is_on_all_ranks() -> None:
    alone = {"0 of 2": ["a", "b", "c"], "1 of 2": ["d", "e", "f"]}
    found = [
        process(0, [1], **{"0_of_2": ["a", "b", "c"]}),
        process(0, [1], **{"1_of_2": ["d", "x", "f"]}),
    ]
    assert batches_compared(found, alone, 2) == {"compared": 3, "equal": 2}
    assert batches_compared(found, {}, 2)["equal"] is None


def test_ways_that_this_machine_does_not_have_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    not_run: dict[str, str] = {}
    names = [way.name for way in ways([1, 2], "cpu", not_run)]
    assert (names[0], names[-1], len(names)) == (ALONE, HOSTS, 4)
    assert [what for what in not_run if "GPU" in what]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    on_gpu = list(ways([1, 2], "cuda", not_run))
    assert [way.device for way in on_gpu] == ["cpu", "cuda", "cuda", "cuda"]
    assert [way.name for way in on_gpu[2:]] == [
        "torchrun, 1 on 1 GPU, nccl",
        "torchrun, 2 on 1 GPU, gloo by way of the host",
    ]
    assert not_run["several GPUs"] == "1 here"


def test_a_study_goes_on_where_there_are_no_namespaces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found_by(start: Any, jobs: Any) -> list[list[dict[str, Any]]]:
        if start is ranks.run_on_two_hosts:
            raise OSError("not permitted")
        return [[process(0.2, [1, 1])]]

    monkeypatch.setattr(ranks, "found_by", found_by)
    monkeypatch.setattr("sys.argv", ["ranks", "--ranks=1", "--presets=softmax"])
    ranks.main()
    told = capsys.readouterr().out
    assert "no network namespaces here: not permitted" in told
    assert told.count('"within_tolerance": true') == 2
