from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import LeaveLast, RatioSplit
from ratiorec.data.vocabulary import Vocabulary
from ratiorec_lab import studies
from ratiorec_lab.studies import backends
from ratiorec_lab.studies.__main__ import main as record_study
from ratiorec_lab.studies.public_splits import place_and_share
from ratiorec_lab.studies.study import measured

NAMES = [
    module.name
    for module in pkgutil.iter_modules(studies.__path__)
    if module.name not in ("__main__", "study")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_says_how_it_is_run(name: str) -> None:
    if name == "unlabelled_gpu":
        pytest.importorskip("triton")
    if name == "fold_in":
        pytest.importorskip("threadpoolctl")
    doc = importlib.import_module(f"ratiorec_lab.studies.{name}").__doc__
    assert doc is not None
    assert f"\n    python -m ratiorec_lab.studies.{name}" in doc


def test_a_record_holds_what_a_study_printed_and_how_it_was_obtained(tmp_path: Path) -> None:
    sizes = ("--users=50", "--items=40", "--pairs=500")
    record = [sys.executable, "-m", "ratiorec_lab.studies", "graph_memory", *sizes]
    done = subprocess.run(
        record, check=False, capture_output=True, text=True, cwd=_with_results(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results" / "bench-graph_memory.json").read_text())
    assert found.keys() == {"target", "result", "machine", "versions", "commit", "command"}
    assert found["result"] == json.loads(done.stdout)
    assert found["result"]["size"] == {"users": 50, "items": 40, "pairs": 500}
    assert found["command"] == "python -m ratiorec_lab.studies.graph_memory " + " ".join(sizes)


def test_a_record_is_named_by_its_data_and_what_is_one_already_is_not_kept_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(_with_results(tmp_path))

    def told(result: dict[str, str]) -> list[str]:
        done = subprocess.CompletedProcess([], 0, stdout=json.dumps(result))
        monkeypatch.setattr(subprocess, "run", lambda *words, **options: done)
        record_study("some")
        return [path.name for path in (tmp_path / "results").iterdir()]

    assert told({"target": "presets", "dataset": "gowalla"}) == []
    assert told({"dataset": "gowalla", "part": "last"}) == ["bench-some-gowalla-last.json"]


def _with_results(folder: Path) -> Path:
    (folder / "results").mkdir()
    return folder


def test_backends_are_compared_seed_by_seed_with_the_reference() -> None:
    runs = [
        {"backend": backend, "seed": seed, "recall@20": recall}
        for backend, seed, recall in [
            ("reference", 0, 0.1),
            ("tiled", 0, 0.125),
            ("reference", 1, 0.2),
            ("tiled", 1, 0.2),
            ("tiled", 2, 0.3),  # without a reference
        ]
    ]
    assert backends.from_reference(runs) == {"tiled": [0.025, 0.0]}


def test_the_memory_of_a_process_is_measured_with_its_time() -> None:
    found = measured(lambda: bytearray(2**20))
    assert 0 <= found["seconds"] < 60
    assert 0 < found["loaded_mb"] <= found["peak_mb"]


def test_a_test_part_from_the_ends_of_the_lines_is_told_from_a_random_one() -> None:
    rng = np.random.default_rng(0)
    fashion = rng.permutation(60)  # when an item is taken, roughly
    lines = [
        sorted(
            rng.choice(60, 20, replace=False), key=lambda item: fashion[item] + rng.normal(0, 15)
        )
        for _ in range(300)
    ]
    users = np.repeat(np.arange(300), 20)
    whole = Interactions.from_indices(
        Vocabulary.dense(300, kind="user"),
        Vocabulary.dense(60, kind="item"),
        users,
        np.concatenate(lines),
        order=np.arange(6000),
    )
    found = {}
    for splitter in (LeaveLast(fraction=0.2), RatioSplit(0.2)):
        split = splitter(whole, rng=rng)
        found[type(splitter)] = place_and_share(split.train, split.held_out)
    assert found[LeaveLast]["correlation"] > 0.8
    assert abs(found[RatioSplit]["correlation"]) < 0.5
    assert found[LeaveLast]["items"] == 60
