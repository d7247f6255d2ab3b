"""Sensitivity, search and the λ of each row, made from files alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lab_support.fake_cells import keep, know, metrics
from ratiorec.config import merge, settings_in, to_table
from ratiorec_lab.reproduce.exhibits import (
    AGREES,
    CurveExhibit,
    Measured,
    TableExhibit,
    by_side,
)
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import SMALL
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.reproduce.tables import ROWS, TableAblation
from ratiorec_lab.reproduce.tuning import FigSensitivity, Search, points, with_choices

GOWALLA = Plan(datasets=("gowalla",))


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    files = CellFiles(tmp_path)
    know(files, "gowalla", SMALL)
    return files


def sensitivity(files: CellFiles) -> CurveExhibit:
    (exhibit,) = FigSensitivity().exhibits(Findings(GOWALLA, files))
    assert isinstance(exhibit, CurveExhibit)
    return exhibit


def ablation(files: CellFiles) -> TableExhibit:
    _, exhibit = TableAblation().exhibits(Findings(GOWALLA, files))
    assert isinstance(exhibit, TableExhibit)
    return exhibit


def changed(setting: str, value: float, ndcg: float, files: CellFiles) -> None:
    cell = GOWALLA.changed("dregn-cf", "gowalla", {setting: value})
    assert cell is not None
    keep(files, [cell], validation=metrics(ndcg))


def test_sensitivity_is_the_best_validation_by_the_value_of_the_setting(files: CellFiles) -> None:
    for value, ndcg in ((0.01, 0.09), (0.05, 0.1), (0.09, 0.08)):
        changed("training.l2", value, ndcg, files)
    shown = sensitivity(files)
    assert [panel.title for panel in shown.panels] == [
        *("R@20 by λ", "nDCG@20 by λ", "R@20 by D̄", "nDCG@20 by D̄")
    ]
    (line,) = shown.panels[1].series
    assert (line.name, line.points) == ("Gowalla", ((0.01, 0.09), (0.05, 0.1), (0.09, 0.08)))
    assert "Gowalla: λ 0.05 is best (nDCG@20 .1000)." in shown.remarks
    for l2, share, what in ((0.01, 10, "small"), (0.09, 20, "large")):
        found = f"λ {l2:g} is {share:.1f} % below the best, as in the paper"
        assert f"Gowalla: {found}, where a {what} λ does harm." in by_side(shown.remarks)[AGREES]
    assert "Gowalla, λ 0.02, 0.03, 0.04, 0.06, 0.07, 0.08: not run yet." in shown.remarks
    assert "Gowalla, D̄ at all values: not run yet." in shown.remarks


@pytest.mark.parametrize(("ndcg", "side"), [(0.1009, "as"), (0.102, "unlike")])
def test_a_large_bound_should_not_matter(files: CellFiles, ndcg: float, side: str) -> None:
    for value, figure in ((10, 0.05), (50, 0.1), (90, ndcg)):
        changed("risk.upper_bound", value, figure, files)
    told = next(r for r in sensitivity(files).remarks if "varies by" in r)
    assert f", {side} in the paper, where it is stable." in told


def test_the_search_lists_the_best_first_and_chooses_it(files: CellFiles) -> None:
    grid = list(points(Search().grid(GOWALLA)))
    for place, point in enumerate(grid[:-1]):
        cell = GOWALLA.changed("dregn-cf", "gowalla", point)
        assert cell is not None
        keep(files, [cell], validation=metrics(0.2 - 0.001 * abs(place - 3)))
    findings = Findings(GOWALLA, files)
    shown = next(e for e in Search().exhibits(findings) if e.id == "search-gowalla")
    assert isinstance(shown, TableExhibit)
    assert len(shown.rows) == len(grid) - 1
    best = grid[3]
    assert shown.rows[0].name == (
        f"λ {best['training.l2']:g}, D̄ {best['risk.upper_bound']:g}, "
        f"rate {best['training.learning_rate']:g}"
    )
    assert shown.remarks == (
        f"Gowalla: {shown.rows[0].name} is chosen, with a validation nDCG@20 of .2000, "
        "the best of 15 of 810 points.",
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


def test_a_row_is_shown_with_its_own_l2_and_with_the_best(files: CellFiles) -> None:
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), validation=metrics(0.11))
    keep(files, GOWALLA.cells("dre", "gowalla"), validation=metrics(0.08))
    for value, ndcg in ((0.005, 0.07), (0.015, 0.09)):
        other = GOWALLA.changed("dre", "gowalla", {"training.l2": value})
        assert other is not None
        keep(files, [other], validation=metrics(ndcg))
    shown = ablation(files)
    (dre,) = (row for row in shown.rows if row.name == ROWS["dre"])
    assert dre.entries == (Measured((0.08,)), Measured((0.09,)), "0.015")
    (uniform,) = (row for row in shown.rows if row.name == ROWS["dregn-cf-uniform"])
    assert uniform.entries == ("not run",) * 3
    full = "(h) Full with its own, .1100."
    assert shown.remarks == (f"Gowalla, best λ of each row: none of (b) DRE above {full}",)
    keep(files, [other], validation=metrics(0.12))
    better = GOWALLA.changed("dregn-cf", "gowalla", {"training.l2": 0.015})
    assert better is not None
    keep(files, [better], validation=metrics(0.13))
    (told,) = ablation(files).remarks
    assert told == f"Gowalla, best λ of each row: (b) DRE above {full}"


def test_where_the_paper_fixes_l2_none_is_chosen(files: CellFiles) -> None:
    shown = TableAblation().exhibits(Findings(Plan("paper", ("gowalla",)), files))
    assert [exhibit.id for exhibit in shown] == ["table-ablation"]


def test_what_a_search_chose_is_refitted_with_every_seed_and_tested(files: CellFiles) -> None:
    plan = Plan(datasets=("gowalla",), seeds=(0, 1, 2))
    assert not [c for c in Search().cells(with_choices(plan, files)) if not c.on_validation]
    changed("training.l2", 0.02, 0.2, files)
    changed("training.l2", 0.03, 0.1, files)
    chosen = with_choices(plan, files)
    tested = [cell for cell in Search().cells(chosen) if not cell.on_validation]
    assert [(cell.name, cell.seed) for cell in tested] == [
        ("dregn-cf+training.l2=0.02", seed) for seed in (0, 1, 2)
    ]
    keep(files, tested, test=metrics(0.3))
    shown = next(iter(Search().exhibits(Findings(chosen, files))))
    assert isinstance(shown, TableExhibit)
    row = next(row for row in shown.rows if row.name == "DREGN-CF, chosen")
    assert isinstance(row.entries[1], Measured)
    assert (row.entries[1].values, row.entries[1].published) == ((0.3,) * 3, 0.1541)
    assert shown.remarks == ("Gowalla, DREGN-CF: chosen λ 0.02, D̄ 70, rate 0.01.",)
