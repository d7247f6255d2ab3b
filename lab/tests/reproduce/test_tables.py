"""The three tables, made from files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab_support.fake_cells import compare, keep, know, metrics
from ratiorec.config import to_table
from ratiorec_lab.reproduce.exhibits import Exhibit, Measured, TableExhibit, by_side
from ratiorec_lab.reproduce.plan import ABSENT, Findings, Plan
from ratiorec_lab.reproduce.published import (
    ABLATION,
    EFFECTIVENESS,
    PAPER_DATASETS,
    SMALL,
    STAND_IN,
)
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.reproduce.report import TARGETS
from ratiorec_lab.reproduce.tables import ROWS

GOWALLA = Plan(datasets=("gowalla",), seeds=(0, 1, 2))


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    return CellFiles(tmp_path / "reproduce")


def table(target: str, files: CellFiles, plan: Plan) -> TableExhibit:
    return tables(target, files, plan)[0]


def tables(target: str, files: CellFiles, plan: Plan) -> list[TableExhibit]:
    return [checked(exhibit) for exhibit in TARGETS[target].exhibits(Findings(plan, files))]


def checked(exhibit: Exhibit) -> TableExhibit:
    assert isinstance(exhibit, TableExhibit)
    for row in exhibit.rows:
        assert len(row.entries) == len(exhibit.columns)
    return exhibit


def entry(exhibit: TableExhibit, row: str, column: str) -> Measured:
    entries = next(one.entries for one in exhibit.rows if one.name == row)
    found = entries[exhibit.columns.index(column)]
    assert isinstance(found, Measured)
    return found


def test_the_data_sets_are_counted_beside_the_paper(files: CellFiles) -> None:
    know(files, "gowalla", users=29_858, items=40_981, train_pairs=810_128, test_pairs=217_242)
    shown = table("table-datasets", files, Plan(datasets=PAPER_DATASETS))
    assert entry(shown, "Gowalla", "interactions") == Measured((1_027_370.0,), 1_027_370)
    assert shown.rows[0].entries[-2:] == ("0.00084", "0.00084")
    assert entry(shown, "Amazon-Book", "users") == Measured((), 52_643, ABSENT)
    assert shown.remarks[0] == "Gowalla has the users, items and interactions of the paper."
    assert f"Amazon-Book: not run: {ABSENT}." in shown.remarks


def test_data_of_another_size_are_told(files: CellFiles) -> None:
    know(files, "gowalla", users=29_858, items=40_981, train_pairs=810_128, test_pairs=217_241)
    (told,) = table("table-datasets", files, Plan(datasets=("gowalla",))).remarks
    wrong = "1,027,369 interactions (paper: 1,027,370)"
    assert told == f"Gowalla differs from the paper's: {wrong}."


def test_the_stand_in_tells_its_share_and_has_nothing_published(files: CellFiles) -> None:
    know(files, STAND_IN, users=52_643, items=91_599, train_pairs=1_794_414, test_pairs=603_378)
    shown = table("table-datasets", files, Plan(datasets=(STAND_IN,)))
    assert entry(shown, STAND_IN, "users").published is None
    assert f"it has {100 * 1_794_414 / 2_380_730:.1f} % of its training pairs" in shown.remarks[0]


def test_a_figure_has_a_value_for_each_seed_beside_the_published_one(files: CellFiles) -> None:
    know(files, "gowalla")
    for cell, ndcg in zip(GOWALLA.cells("dregn-cf", "gowalla"), (0.15, 0.16, 0.155), strict=True):
        keep(files, [cell], test=metrics(ndcg, recall=0.18))
    shown = table("table-effectiveness", files, GOWALLA)
    found = entry(shown, "DREGN-CF", "Gowalla nDCG@20")
    assert found == Measured((0.15, 0.16, 0.155), EFFECTIVENESS["dregn-cf"]["gowalla"].ndcg)
    assert entry(shown, "DREGN-CF", "Gowalla R@20").values == (0.18,) * 3


def test_seeds_that_are_missing_and_runs_that_were_cut_are_told(files: CellFiles) -> None:
    know(files, "gowalla")
    first, second, _ = GOWALLA.cells("lightgcn", "gowalla")
    keep(files, [first])
    keep(files, [second], max_seconds=90.0, stopped_by="time budget")
    shown = table("table-effectiveness", files, GOWALLA)
    told = "Cut by its time budget of 90 s with seed 1. 2 of 3 seeds."
    assert entry(shown, "LightGCN", "Gowalla R@20").remark == told
    assert f"Gowalla, LightGCN: {told}" in shown.remarks


def test_a_cell_that_could_not_run_shows_the_reason(files: CellFiles) -> None:
    know(files, "gowalla")
    for cell in GOWALLA.cells("ease", "gowalla"):
        files.write_failure(cell, {"error": "EASE would need 31 GiB"})
    shown = table("table-effectiveness", files, GOWALLA)
    found = entry(shown, "EASE", "Gowalla R@20")
    assert (found.values, found.remark) == ((), "EASE would need 31 GiB")
    assert "Gowalla, EASE: not run: EASE would need 31 GiB." in shown.remarks


def test_a_file_of_other_settings_is_not_shown_and_is_told(files: CellFiles) -> None:
    know(files, "gowalla")
    other = GOWALLA.changed("dregn-cf", "gowalla", {"training.l2": 0.02})
    assert other is not None
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), settings=to_table(other.settings))
    shown = table("table-effectiveness", files, GOWALLA)
    found = entry(shown, "DREGN-CF", "Gowalla R@20")
    assert found.values == ()
    assert found.remark == "its file is not used, since the settings are others"


def test_amazon_book_is_not_run_and_its_part_stands_apart_without_published_figures(
    files: CellFiles,
) -> None:
    know(files, STAND_IN)
    plan = Plan(datasets=("amazon-book", STAND_IN))
    keep(files, plan.cells("dregn-cf", STAND_IN))
    shown = table("table-effectiveness", files, plan)
    assert not any(column.startswith("Amazon-Book") for column in shown.columns)
    part = entry(shown, "DREGN-CF", f"{STAND_IN} R@20")
    assert (part.values, part.published) == ((0.1,), None)
    assert f"Amazon-Book: not run: {ABSENT}." in shown.remarks


def test_the_methods_figures_are_judged_first(files: CellFiles) -> None:
    know(files, "gowalla")
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), test=metrics(0.1545, recall=0.1813))
    shown = table("table-effectiveness", files, GOWALLA)
    assert shown.remarks[0] == (
        "Gowalla: DREGN-CF is within 1 % of the paper or above it (R@20 +0.2 % and nDCG@20 +0.3 %)."
    )


def test_figures_from_elsewhere_are_not_called_the_papers(files: CellFiles) -> None:
    shown = table("table-effectiveness", files, GOWALLA)
    assert entry(shown, "EASE", "Gowalla R@20").published == 0.1765
    assert shown.remarks[-1].startswith(
        "EASE and item-kNN: the published figure is not the paper's"
    )


def test_nothing_is_published_beside_a_quick_run(files: CellFiles) -> None:
    know(files, SMALL)
    plan = Plan(datasets=(SMALL,))
    for target in ("table-effectiveness", "table-ablation", "table-datasets"):
        for preset in (*EFFECTIVENESS, *ROWS):
            keep(files, plan.cells(preset, SMALL))
        shown = table(target, files, plan)
        entries = [e for row in shown.rows for e in row.entries if isinstance(e, Measured)]
        assert all(e.published is None for e in entries)
        assert not any("paper" in remark and "not run" not in remark for remark in shown.remarks)


def test_rows_far_below_the_full_method_are_held_against_it(files: CellFiles) -> None:
    know(files, "gowalla")
    plan = Plan(datasets=("gowalla",))
    for preset, figures in ABLATION.items():
        keep(
            files,
            plan.cells(preset, "gowalla"),
            test=dict(zip(("recall@20", "ndcg@20"), figures["gowalla"], strict=True)),
        )
    keep(files, plan.cells("dregn-cf-uniform", "gowalla"), test=metrics(0.2))
    shown = table("table-ablation", files, plan)
    assert [row.name for row in shown.rows] == list(ROWS.values())
    reached = "Gowalla: (c) w/o IS is within 1 % of the paper or above it"
    assert f"{reached} (R@20 0.0 % and nDCG@20 0.0 %)." in shown.remarks
    below = "(a) PU, (b) DRE, (f) Pop-W and (g) Static"
    for metric, full in (("R@20", ".1810"), ("nDCG@20", ".1541")):
        assert f"Gowalla, {metric}: {below} below (h) {full}, as in the paper." in shown.remarks
        assert f"Gowalla, {metric}: (e) Uni-W not below (h), unlike in the paper." in shown.remarks
    swapped = [
        remark for remark in shown.remarks if "the paper has (h) Full above (e) Uni-W" in remark
    ]
    assert len(swapped) == 2


@pytest.mark.parametrize(("ndcg", "is_idle"), [(0.15405, True), (0.1530, False)])
def test_a_correction_that_changes_nothing_is_called_idle(
    files: CellFiles, ndcg: float, is_idle: bool
) -> None:
    know(files, "gowalla")
    keep(files, GOWALLA.cells("dregn-cf", "gowalla"), test=metrics(0.154))
    keep(files, GOWALLA.cells("dregn-cf-no-nn", "gowalla"), test=metrics(ndcg))
    told = table("table-ablation", files, GOWALLA).remarks
    assert any("the correction is idle" in remark for remark in told) == is_idle


def test_a_line_of_the_comparison_stands_where_a_cell_is_not_there(files: CellFiles) -> None:
    know(files, STAND_IN)
    plan = Plan(datasets=(STAND_IN,), seeds=(0, 1))
    first = next(plan.cells("dregn-cf-no-nn", STAND_IN))
    compare(files, [first], stopped_by="time budget")
    shown = entry(table("table-ablation", files, plan), ROWS[first.preset], f"{STAND_IN} nDCG@20")
    assert shown.values == (0.2,)
    assert shown.remark == (
        "Cut by its time budget of 60 s with seed 0. From results/presets: the same run by the "
        "study compare_all, which keeps no curve. One seed."
    )
    keep(files, [first], test=metrics(0.3))
    shown = entry(table("table-ablation", files, plan), ROWS[first.preset], f"{STAND_IN} nDCG@20")
    assert (shown.values, shown.remark) == ((0.3,), "One seed.")


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"data_sha256": "cd" * 32},
        {"validation_by": "last"},
        {"settings": {"solver": {"kind": "popularity"}}},
        {"preset": "enmf"},
        {"test": None},
    ],
    ids=str,
)
def test_a_line_of_another_run_does_not(files: CellFiles, other: dict[str, object]) -> None:
    know(files, STAND_IN)
    (cell,) = Plan(datasets=(STAND_IN,)).cells("dregn-cf", STAND_IN)
    compare(files, [cell])
    assert files.compared(cell) is not None
    compare(files, [cell], **other)
    assert files.compared(cell) is None


def test_data_that_are_not_the_papers_have_a_column_and_say_who_is_ahead(files: CellFiles) -> None:
    know(files, "gowalla", "amazon-cds")
    plan = Plan(datasets=("gowalla",))
    for preset, ndcg in (("dregn-cf", 0.09), ("ease", 0.11), ("enmf", 0.08)):
        keep(files, plan.cells(preset, "amazon-cds"), test=metrics(ndcg))
    shown = table("table-effectiveness", files, plan)
    assert shown.columns[-2:] == ("amazon-cds R@20", "amazon-cds nDCG@20")
    assert entry(shown, "EASE", "amazon-cds nDCG@20").values == (0.11,)
    assert (
        "amazon-cds is not a data set of the paper. By nDCG@20 these are ahead of DREGN-CF (.0900) "
        "there: EASE (.1100)."
    ) in shown.remarks
    assert not any("amazon-cds" in c for c in table("table-ablation", files, plan).columns)


def test_both_ways_of_holding_out_stand_side_by_side(files: CellFiles) -> None:
    know(files, "gowalla")
    assert len(tables("table-effectiveness", files, GOWALLA)) == 1
    last = Plan("validated-last", ("gowalla",), (0,))
    keep(files, GOWALLA.cells("wmf", "gowalla"), validation=metrics(0.1), test=metrics(0.12))
    keep(files, GOWALLA.cells("ease", "gowalla"), validation=metrics(0.11), test=metrics(0.14))
    keep(files, last.cells("wmf", "gowalla"), validation=metrics(0.08), test=metrics(0.13))
    _, shown = tables("table-effectiveness", files, GOWALLA)
    columns = ("random tenth", "last tenth", "test, chosen by random", "test, chosen by last")
    assert shown.columns == tuple(f"Gowalla {name}" for name in columns)
    means = [entry(shown, "WMF", name).mean for name in shown.columns]
    assert means == pytest.approx([0.1, 0.08, 0.12, 0.13])
    assert entry(shown, "WMF", "Gowalla last tenth").remark == "One seed."
    assert entry(shown, "EASE", "Gowalla last tenth").values == ()
    (told,) = shown.remarks
    assert told.startswith("Gowalla, NGCF, Mult-VAE")
    assert "EASE" in told
    assert "WMF" not in told
    assert told.endswith("not run with the last tenth held out.")


@pytest.mark.parametrize(
    ("ndcg", "place", "side"),
    [(0.10, "below all", "differs"), (0.12, "among", "note"), (0.15, "above all", "note")],
)
def test_a_rival_the_paper_does_not_have_is_held_against_public_reports(
    files: CellFiles, ndcg: float, place: str, side: str
) -> None:
    know(files, "gowalla")
    keep(files, GOWALLA.cells("bpr-mf", "gowalla"), test=metrics(ndcg))
    shown = table("table-effectiveness", files, GOWALLA)
    (told,) = (one for one in shown.remarks if "public reports" in one)
    assert f"is {place} 4 public reports on this split, .1109 (NGCF's article) to" in told
    assert side in by_side([told])
