from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.data.interactions import Dataset
from ratiorec.data.synthetic import Synthetic
from ratiorec.errors import ConfigError
from ratiorec_lab.studies import compare_all

Ask = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The study in an empty folder: its lines by preset."""
    data = Synthetic(n_users=200, n_items=80, mean_pairs=16)(rng=np.random.default_rng(1)).dataset
    monkeypatch.setattr(compare_all, "load", lambda name: Dataset(name, data.train))
    monkeypatch.chdir(tmp_path)

    def started(presets: str, *words: str) -> dict[str, dict[str, Any]]:
        words = ("--data", "small", "--device", "cpu", "--presets", presets, *words)
        monkeypatch.setattr("sys.argv", ["compare_all", *words])
        compare_all.main()
        record = json.loads(Path("results", "presets", "small.json").read_text())
        assert json.loads(capsys.readouterr().out) == record
        assert record["dataset"] == "small"
        return {line["preset"]: line for line in record["results"]}

    return started


def test_what_was_measured_is_kept_and_the_rest_is_added(ask: Ask) -> None:
    first = ask("popularity,item-knn")
    again = ask("item-knn,ease")
    assert list(again) == ["popularity", "item-knn", "ease"]
    assert {name: again[name] for name in first} == first
    line = again["ease"]
    assert 0 < line["test"]["ndcg@20"] <= 1
    assert line["validation"].keys() == line["test"].keys()
    assert line["seconds"]["total"] > 0
    assert line["command"].endswith("--presets item-knn,ease")


def test_what_failed_is_named_with_the_reason_and_tried_again(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = compare_all.fit

    def without_memory(*arguments: Any, preset: str, **options: Any) -> Any:
        if preset == "ease":
            raise MemoryError("no room\nfor a matrix")
        return fit(*arguments, preset=preset, **options)

    monkeypatch.setattr(compare_all, "fit", without_memory)
    found = ask("popularity,ease,item-knn")
    assert found["ease"]["error"] == "MemoryError: no room for a matrix"
    assert found["ease"]["test"] is None
    assert found["item-knn"]["error"] is None
    monkeypatch.setattr(compare_all, "fit", fit)
    assert ask("ease")["ease"]["error"] is None


def test_a_preset_that_has_changed_is_measured_anew(ask: Ask) -> None:
    ask("popularity")
    path = Path("results", "presets", "small.json")
    record = json.loads(path.read_text())
    record["results"][0] |= {"settings": {"solver": {"kind": "other"}}, "test": None}
    path.write_text(json.dumps(record))
    assert ask("popularity")["popularity"]["test"] is not None
    path.write_text(json.dumps(record | {"data_sha256": "of other pairs"}))
    assert list(ask("item-knn")) == ["item-knn"]


def test_no_fit_begins_when_the_time_is_over(ask: Ask) -> None:
    ask("popularity")
    assert list(ask("popularity,ease,item-knn", "--stop-after", "0")) == ["popularity"]


def test_an_unknown_preset_is_refused_before_anything_is_fitted(ask: Ask) -> None:
    with pytest.raises(ConfigError, match="no-such"):
        ask("popularity,no-such")
    assert not Path("results").exists()
