from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ratiorec.data.synthetic import Synthetic
from ratiorec.settings import Settings
from ratiorec_lab import demo
from support.command_line import CommandLine


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A population and a training so small that they take a second."""

    def brief(settings: Settings) -> Settings:
        training = replace(
            settings.training, epochs=20, min_steps_between_validations=10, patience=1
        )
        return replace(settings, training=training)

    recovery = brief(demo.recovery_settings())
    monkeypatch.setattr(demo, "POPULATION", Synthetic(n_users=200, n_items=80, mean_pairs=30))
    monkeypatch.setattr(demo, "RANKING", brief(demo.RANKING))
    monkeypatch.setattr(demo, "recovery_settings", lambda: recovery)


@pytest.mark.usefixtures("small")
def test_json_has_metrics_correlations_lists_and_the_report(
    cli: CommandLine, tmp_path: Path
) -> None:
    found = cli("demo", "--out", "shown", "--json").json
    assert found.keys() == {"metrics", "ratio_correlation", "recommendations", "report"}
    metrics = found["metrics"]
    assert metrics.keys() == {"DREGN-CF", "uniform weights", "most popular"}
    for name in ("recall@20", "ndcg@20"):
        assert metrics["DREGN-CF"][name] > metrics["most popular"][name]
    assert found["ratio_correlation"].keys() == {"DREGN-CF", "uniform weights"}
    assert len(found["recommendations"]) == 3
    assert found["report"] == "shown/report.html"
    report = (tmp_path / "shown" / "report.html").read_text()
    assert all(shown["user"] in report for shown in found["recommendations"])


@pytest.mark.usefixtures("small")
def test_the_figures_and_three_lists_are_printed(cli: CommandLine) -> None:
    outcome = cli("demo", "--out", "shown")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == [
        "DREGN-CF",
        "uniform weights",
        "most popular",
    ]
    assert sum(", who has " in line for line in lines) == 3
    assert sum(line.startswith("  5. ") for line in lines) == 3
    assert lines[-1] == "report: shown/report.html"


def test_a_folder_that_cannot_be_made_is_refused_before_training(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "run", lambda **_: pytest.fail("training began"))
    (tmp_path / "file").write_text("in the way")
    assert "where: file/shown" in cli("demo", "--out", "file/shown").refusal
