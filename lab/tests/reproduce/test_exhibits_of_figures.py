"""The figures and the search, made from files alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from lab_support.fake_cells import CARD, curve, keep, know, metrics
from ratiorec_lab.reproduce.cell_files import CellFiles
from ratiorec_lab.reproduce.exhibits import BarExhibit, CurveExhibit, TableExhibit
from ratiorec_lab.reproduce.fig_static_adaptive import FigStaticAdaptive
from ratiorec_lab.reproduce.findings import NO_SETTINGS, Findings
from ratiorec_lab.reproduce.names import SMALL
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.search import Search
from ratiorec_lab.reproduce.targets import TARGETS

from ratiorec.config import merge, settings_in, to_table

GOWALLA = Plan(datasets=("gowalla",))


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    files = CellFiles(tmp_path)
    know(files, "gowalla", SMALL)
    return files


def curves(target: str, files: CellFiles, plan: Plan = GOWALLA) -> CurveExhibit:
    (exhibit,) = TARGETS[target].exhibits(Findings(plan, files))
    assert isinstance(exhibit, CurveExhibit)
    return exhibit


def efficiency(files: CellFiles, plan: Plan = GOWALLA) -> tuple[BarExhibit, TableExhibit]:
    bars, numbers = TARGETS["fig-efficiency"].exhibits(Findings(plan, files))
    assert isinstance(bars, BarExhibit)
    assert isinstance(numbers, TableExhibit)
    return bars, numbers


def test_bars_are_steps_and_time_to_convergence_beside_the_published(files: CellFiles) -> None:
    slow = curve([None, 0.1, None, 0.2, None, 0.2], n_steps=300, step_seconds=0.002)
    keep(files, GOWALLA.cells("lightgcn", "gowalla"), curve=slow)
    quick = curve([None, 0.2, None, 0.2], n_steps=100, step_seconds=0.006)
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), curve=quick)
    bars, numbers = efficiency(files)
    times, steps = bars.panels
    assert times.log
    assert steps.log
    by_name = {bar.name: (bar.value, bar.published) for bar in steps.bars}
    assert by_name["LightGCN"] == (4 * 300, None)
    assert by_name["DREGN-CF"] == (2 * 100, 240)
    assert by_name["ENMF"] == (None, 123)
    seconds = {bar.name: bar.value for bar in times.bars}
    assert seconds["LightGCN"] == pytest.approx(1200 * 0.002)
    assert seconds["DREGN-CF"] == pytest.approx(200 * 0.006)
    assert "Gowalla: LightGCN takes 6 × the steps and 2 × the time of DREGN-CF." in bars.remarks
    row = next(row for row in numbers.rows if row.name == "Gowalla, LightGCN")
    assert row.entries == ("1,200", "", "2 ms", "", "2.4 s", "", "6 ×", "2 ×", "10 s")


@pytest.mark.parametrize(("n_steps", "side"), [(60, "as"), (200, "unlike")])
def test_a_ratio_is_held_against_the_published_one(
    files: CellFiles, n_steps: int, side: str
) -> None:
    judged = [None, 0.2, None, 0.2]
    keep(files, GOWALLA.cells("enmf", "gowalla"), curve=curve(judged, n_steps=n_steps))
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), curve=curve(judged, n_steps=120))
    told = next(remark for remark in efficiency(files)[0].remarks if "ENMF takes" in remark)
    assert f"the steps ({side} in the paper, which has {123 / 240:.3g} ×)" in told


def test_a_run_that_still_rose_and_runs_on_two_machines_are_told(files: CellFiles) -> None:
    rising = curve([None, 0.1, None, 0.2])
    keep(files, GOWALLA.cells("ngcf", "gowalla"), curve=rising, stopped_by="last step")
    other = CARD | {"accelerator": "Another Card"}
    keep(
        files,
        GOWALLA.cells("dregn-cf", "gowalla"),
        curve=curve([None, 0.2, None, 0.1]),
        machine=other,
    )
    remarks = efficiency(files)[0].remarks
    assert any(
        remark.startswith("Gowalla, NGCF: the last validation was the best") for remark in remarks
    )
    assert (
        "Gowalla: not all runs were on the same machine, so their times do not compare." in remarks
    )


def test_under_the_paper_what_it_tells_nothing_of_is_not_run(files: CellFiles) -> None:
    remarks = efficiency(files, Plan("paper", ("gowalla",)))[0].remarks
    assert any(remark.endswith(f"not run: {NO_SETTINGS}.") for remark in remarks)


def test_static_runs_are_drawn_by_epoch_beside_adaptive_ones(files: CellFiles) -> None:
    cells = FigStaticAdaptive().named(GOWALLA, "gowalla")
    figures = {
        "adaptive": [0.1, 0.2],
        "static (same rate)": [0.12, 0.05],
        "static (a tenth of the rate)": [0.13, 0.1],
        "uniform (as the first model)": [0.1, 0.15],
    }
    for name, values in figures.items():
        cell = cells[name]
        assert cell is not None
        keep(files, [cell], curve=curve(values))
    shown = curves("fig-static-adaptive", files)
    recall, ndcg = shown.panels
    assert (recall.x_label, ndcg.x_label) == ("training epoch", "training epoch")
    assert not ndcg.log_x
    assert {line.name: [y for _, y in line.points] for line in ndcg.series} == figures
    assert [x for x, _ in ndcg.series[0].points] == [1, 2]
    assert (
        "Gowalla: the best nDCG@20 of «static (same rate)» is .1200, 40.0 % below that of adaptive "
        "weights (.2000)."
    ) in shown.remarks
    never = "«static (same rate)» never reaches the first model (.1500), as in the paper."
    assert f"Gowalla: {never}" in shown.remarks
    assert any("end at .0500, with a tenth of it at .1000, as in" in r for r in shown.remarks)


def test_dynamic_sampling_is_drawn_by_step_on_a_logarithmic_axis(files: CellFiles) -> None:
    figures = {
        "lightgcn": [0.1, 0.15, 0.2],
        "lightgcn-dns": [0.1, 0.25, 0.25],
        "dregn-cf-uniform": [0.05, 0.18, 0.18],
        "dregn-cf": [0.2, 0.2, 0.2],
    }
    for preset, values in figures.items():
        keep(files, GOWALLA.cells(preset, "gowalla"), curve=curve(values))
    shown = curves("fig-dns", files)
    assert [panel.log_x for panel in shown.panels] == [True, True]
    assert [line.name for line in shown.panels[0].series] == [
        *("LightGCN", "LightGCN-DNS", "DREGN-CF-UNI-W", "DREGN-CF")
    ]
    assert [x for x, _ in shown.panels[0].series[0].points] == [10, 20, 30]
    assert (
        "Gowalla: LightGCN-DNS converges in 20 steps and LightGCN in 30, as in the paper, where "
        "LightGCN-DNS is the faster."
    ) in shown.remarks
    assert (
        "Gowalla: DREGN-CF reaches nDCG@20 .2000 and LightGCN-DNS .2500, unlike in the paper, "
        "where DREGN-CF is the better."
    ) in shown.remarks


def test_a_quick_run_is_not_held_against_the_paper(files: CellFiles) -> None:
    plan = Plan(datasets=(SMALL,))
    for target in TARGETS.values():
        keep(files, target.cells(plan))
    for name in ("fig-static-adaptive", "fig-dns", "fig-sensitivity"):
        assert curves(name, files, plan).remarks == ()
    assert not any("paper" in remark for remark in efficiency(files, plan)[0].remarks)


def changed(setting: str, value: float, ndcg: float, files: CellFiles) -> None:
    cell = GOWALLA.changed("dregn-cf", "gowalla", {setting: value})
    assert cell is not None
    keep(files, [cell], validation=metrics(ndcg))


def test_sensitivity_is_the_best_validation_by_the_value_of_the_setting(files: CellFiles) -> None:
    for value, ndcg in ((0.01, 0.09), (0.05, 0.1), (0.09, 0.08)):
        changed("training.penalty", value, ndcg, files)
    shown = curves("fig-sensitivity", files)
    assert [panel.title for panel in shown.panels] == [
        *("R@20 by λ", "nDCG@20 by λ", "R@20 by D̄", "nDCG@20 by D̄")
    ]
    (line,) = shown.panels[1].series
    assert (line.name, line.points) == ("Gowalla", ((0.01, 0.09), (0.05, 0.1), (0.09, 0.08)))
    assert (
        "Gowalla: λ 0.05 is best (nDCG@20 .1000); λ 0.01 is 10.0 % below it and λ 0.09 is 20.0 % "
        "below it, as in the paper, where a large λ does harm."
    ) in shown.remarks
    assert "Gowalla, λ 0.02, 0.03, 0.04, 0.06, 0.07, 0.08: not run yet." in shown.remarks
    assert "Gowalla, D̄ at all values: not run yet." in shown.remarks


@pytest.mark.parametrize(("ndcg", "side"), [(0.1009, "as"), (0.102, "unlike")])
def test_a_large_bound_should_not_matter(files: CellFiles, ndcg: float, side: str) -> None:
    for value, figure in ((10, 0.05), (50, 0.1), (90, ndcg)):
        changed("risk.upper_bound", value, figure, files)
    told = next(r for r in curves("fig-sensitivity", files).remarks if "varies by" in r)
    assert f", {side} in the paper, where it is stable." in told


def test_the_search_lists_the_best_first_and_chooses_it(files: CellFiles) -> None:
    points = list(Search().grid(GOWALLA).points())
    for place, point in enumerate(points[:-1]):
        cell = GOWALLA.changed("dregn-cf", "gowalla", point)
        assert cell is not None
        keep(files, [cell], validation=metrics(0.2 - 0.001 * abs(place - 3)))
    findings = Findings(GOWALLA, files)
    (shown,) = TARGETS["search"].exhibits(findings)
    assert isinstance(shown, TableExhibit)
    assert len(shown.rows) == len(points) - 1
    best = points[3]
    assert shown.rows[0].name == (
        f"λ {best['training.penalty']:g}, D̄ {best['risk.upper_bound']:g}, "
        f"rate {best['training.learning_rate']:g}"
    )
    assert shown.remarks == (
        f"Gowalla: {shown.rows[0].name} is chosen, with a validation nDCG@20 of .2000.",
        "Gowalla, 1 of 16 points: not run yet.",
    )
    toml = Search().chosen(findings, "gowalla")
    assert toml is not None
    base = GOWALLA.changed("dregn-cf", "gowalla", {})
    chosen = GOWALLA.changed("dregn-cf", "gowalla", best)
    assert base is not None
    assert chosen is not None
    assert settings_in(merge(to_table(base.settings), tomllib.loads(toml))) == chosen.settings


def test_without_runs_nothing_is_chosen(files: CellFiles) -> None:
    assert Search().chosen(Findings(GOWALLA, files), "gowalla") is None
