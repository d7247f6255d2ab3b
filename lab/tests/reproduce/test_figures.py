"""Figures 1 to 3, made from files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_support.fake_cells import GPU, curve, keep, know, time_steps
from ratiorec_lab.reproduce.exhibits import BarExhibit, CurveExhibit, TableExhibit
from ratiorec_lab.reproduce.figures import FigStaticAdaptive
from ratiorec_lab.reproduce.plan import NO_SETTINGS, Findings, Plan
from ratiorec_lab.reproduce.published import SMALL
from ratiorec_lab.reproduce.records import AS_GRAPH, CellFiles
from ratiorec_lab.reproduce.report import TARGETS

GOWALLA = Plan(datasets=("gowalla",))


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    files = CellFiles(tmp_path / "reproduce")
    know(files, "gowalla", SMALL)
    return files


def curves(target: str, files: CellFiles, plan: Plan = GOWALLA) -> CurveExhibit:
    (exhibit,) = TARGETS[target].exhibits(Findings(plan, files))
    assert isinstance(exhibit, CurveExhibit)
    return exhibit


def efficiency(files: CellFiles, plan: Plan = GOWALLA) -> tuple[BarExhibit, TableExhibit]:
    bars, numbers, *_ = TARGETS["fig-efficiency"].exhibits(Findings(plan, files))
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


def test_the_same_steps_are_told_by_the_time_they_take_where_all_are_made_alike(
    files: CellFiles,
) -> None:
    keep(files, GOWALLA.cells("enmf", "gowalla"), curve=curve([None, 0.2], n_steps=100))
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), curve=curve([None, 0.2], n_steps=300))
    time_steps(files, "gowalla", {"enmf": (0.05, 0.06, 0.07), "dregn-cf": (0.3, 0.4, 0.5)})
    time_steps(files, "gowalla", {"enmf": (2, 2, 2), "dregn-cf": (1, 1, 1)}, on=AS_GRAPH)
    *_, alike = TARGETS["fig-efficiency"].exhibits(Findings(GOWALLA, files))
    assert isinstance(alike, TableExhibit)
    entries = {row.name: row.entries for row in alike.rows}
    not_timed, as_graph = ("not timed", "", ""), ("2 s", "400 s", "0.667 ×")
    assert entries["Gowalla, ENMF"] == ("200", "60 ms", "12 s", "0.05 ×", *not_timed, *as_graph)
    assert entries["Gowalla, BPR-MF"] == ("not run", *3 * not_timed)
    how = "steps timed by ratiorec bench step (2 cores, a processor, commit abc)."
    assert alike.remarks == (f"Gowalla, CPU: {how}", f"Gowalla, GPU: {how}")


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
    other = GPU | {"accelerator": "Another GPU"}
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
    bar = "uniform weights trained to their end (.1500)"
    never = f"«static (same rate)» never reaches {bar}, as in the paper."
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
    # the paper compares by the test part
    told = "Gowalla: DREGN-CF reaches nDCG@20 .2000 and LightGCN-DNS .2500 on validation pairs."
    assert told in shown.remarks


def test_a_quick_run_is_not_held_against_the_paper(files: CellFiles) -> None:
    plan = Plan(datasets=(SMALL,))
    for target in TARGETS.values():
        keep(files, target.cells(plan))
    for name in ("fig-static-adaptive", "fig-dns", "fig-sensitivity"):
        assert curves(name, files, plan).remarks == ()
    assert not any("paper" in remark for remark in efficiency(files, plan)[0].remarks)
