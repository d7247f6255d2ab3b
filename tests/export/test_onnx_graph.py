from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.errors import ConfigError
from ratiorec.export import ExportTrial, Onnx, export, onnx_graph
from support.command_line import everything_in
from support.random_vectors import vector_model
from support.small_models import small_model

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")


def runtime(path: Path) -> Any:
    if importlib.util.find_spec("onnxruntime") is None:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(str(path))
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_the_graph_gives_the_exact_lists_for_any_k(tmp_path: Path) -> None:
    model = small_model()
    done = export(model, Onnx(), tmp_path / "out")
    assert done.measured.recall == 1
    users = np.load(tmp_path / "out" / "user_vectors.npy")
    ids = json.loads((tmp_path / "out" / "item_ids.json").read_text())
    run = runtime(tmp_path / "out" / "recommend.onnx").run
    for k in (1, 7, 30):
        scores, items = run(None, {"user_vectors": users, "k": np.array([k])})
        expected = model.recommend(model.users.ids, k, exclude_seen=False)
        assert [ids[place] for place in items.ravel()] == expected.answer_ids.tolist()
        np.testing.assert_allclose(scores.ravel(), expected.scores, rtol=1e-5, atol=1e-6)


def test_without_a_runtime_the_graph_is_checked_by_onnx_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name)
    )
    done = export(small_model(), Onnx(), tmp_path / "out", trial=ExportTrial(min_recall=1))
    assert done.measured.settings["checked_by"] == "the reference evaluator of onnx"


def test_scores_for_the_check_are_made_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph, "_SCORES_AT_A_TIME", 7 * 50)
    done = export(vector_model(23, 50, 5), Onnx(), tmp_path / "out")
    assert (done.measured.recall, done.n_users) == (1, 23)


def test_more_vectors_than_a_file_can_hold_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_graph, "_MOST_BYTES", 50 * 5 * 4 - 1)
    with pytest.raises(ConfigError, match=r"1,000 bytes of item vectors.*to=.faiss."):
        export(vector_model(3, 50, 5), Onnx(), tmp_path / "out")
    assert everything_in(tmp_path) == {}
