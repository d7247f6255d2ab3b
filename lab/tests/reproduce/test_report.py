from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from lab_support.fake_cells import GPU, keep, know
from ratiorec.data import benchmarks
from ratiorec.errors import ConfigError
from ratiorec_lab.reproduce.cells import PROTOCOLS
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import PAPER_DATASETS, QUALITY, SMALL, STAND_IN, quality
from ratiorec_lab.reproduce.records import CellFiles
from ratiorec_lab.reproduce.report import (
    ALL,
    TARGETS,
    ReproductionReport,
    build,
    cells_of,
    named,
    write,
)
from ratiorec_lab.reproduce.tuning import SELECTION, WHOLE, with_choices
from ratiorec_lab.reproduce.wording import difference_text, figure

GOWALLA = Plan(datasets=("gowalla",))


def names(target: str, plan: Plan = GOWALLA, **more: list[str]) -> list[str]:
    return [cell.name for cell in cells_of(named(target), plan, **more)]


def test_the_targets_are_those_of_the_contract() -> None:
    assert list(TARGETS) == [
        "table-datasets",
        "table-effectiveness",
        "fig-efficiency",
        "table-ablation",
        "fig-static-adaptive",
        "fig-dns",
        "fig-sensitivity",
        "search",
        "more-runs",
    ]
    assert named(ALL) == list(TARGETS.values())


def test_an_unknown_target_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean table-ablation\?"):
        named("table-ablations")


def test_targets_share_their_cells() -> None:
    assert "dregn-cf" in names("table-effectiveness")
    assert "dregn-cf" in names("table-ablation")
    assert set(names("fig-efficiency")) < set(names("table-effectiveness"))
    assert set(names("fig-dns")) < set(names("all"))
    assert names("all").count("dregn-cf") == 1
    point = "dregn-cf+training.l2=0.04+validation"
    assert point in names("search")
    assert point in names("fig-sensitivity")


def test_the_ablation_has_eight_rows() -> None:
    assert len([name for name in names("table-ablation") if "+" not in name]) == 8


def test_each_row_of_the_ablation_is_run_with_three_other_l2_on_validation_pairs() -> None:
    others = [cell for cell in cells_of(named("table-ablation"), GOWALLA) if cell.changes]
    assert len(others) == 8 * 3
    assert all(cell.on_validation for cell in others)
    changed = {cell.changes[0][0] for cell in others if cell.preset == "dregn-cf-static"}
    assert changed == {"second.training.l2"}
    assert {cell.changes[0][1] for cell in others if cell.preset == "pu"} == {0.001, 0.003, 0.03}
    fixed = cells_of(named("table-ablation"), Plan("paper", ("gowalla",)))
    assert not any(cell.changes for cell in fixed)


def test_the_sensitivity_varies_one_setting_at_a_time_over_the_papers_values() -> None:
    found = cells_of(named("fig-sensitivity"), GOWALLA)
    assert all(cell.on_validation for cell in found)
    assert {len(cell.changes) for cell in found} == {0, 1}
    values = {cell.settings.training.l2 for cell in found}  # type: ignore[union-attr]
    assert values == {0.045, *(k / 100 for k in range(1, 10))}
    bounds = {cell.settings.risk.upper_bound for cell in found}  # type: ignore[union-attr]
    assert bounds == {10.0 * k for k in range(1, 10)}
    assert len(found) == 9 + 9


def test_the_search_is_on_validation_pairs_alone_and_inside_the_papers_ranges() -> None:
    everything = cells_of(named("search"), GOWALLA)
    assert all(cell.on_validation for cell in everything)
    found = [cell for cell in everything if cell.preset == "dregn-cf"]
    assert len(found) == 4 * 2 * 2
    assert {cell.preset for cell in everything} == {"dregn-cf", "bpr-mf", "lightgcn-dns"}
    assert SELECTION.keys() == WHOLE.keys()
    assert all(set(values) <= set(WHOLE[name]) for name, values in SELECTION.items())
    whole = Plan(datasets=("gowalla",), whole_grid=True)
    assert len([n for n in names("search", whole) if n.startswith("dregn-cf")]) == 9 * 9 * 10
    assert len(cells_of(named("search"), Plan(datasets=(SMALL,)))) == 2 * 2 * 2


def test_static_weights_are_shown_with_the_same_rate_and_a_tenth_of_it() -> None:
    found = {
        cell.name: cell.settings
        for cell in cells_of(named("fig-static-adaptive"), Plan(datasets=("gowalla", "yelp2018")))
        if cell.preset == "dregn-cf-static"
    }
    rates = sorted(s.second.training.learning_rate for s in found.values())  # type: ignore[union-attr]
    assert rates == [0.01 / 10] * 3 + [0.01] * 3
    epochs = sorted(s.first.training.epochs for s in found.values())  # type: ignore[union-attr]
    assert epochs == [60, 60, 300, 300, 300, 300]
    assert sum(s.second_starts_from_first for s in found.values()) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("target", "planned", "shown"),
    [
        ("fig-static-adaptive", ("gowalla", "yelp2018"), {"yelp2018"}),
        ("fig-static-adaptive", ("gowalla",), {"gowalla"}),
        ("fig-dns", (*PAPER_DATASETS, STAND_IN), {"amazon-book", STAND_IN, "gowalla"}),
        ("fig-dns", ("yelp2018",), {"yelp2018"}),
    ],
)
def test_a_figure_is_drawn_on_the_papers_data_set_where_it_is_planned(
    target: str, planned: tuple[str, ...], shown: set[str]
) -> None:
    found = cells_of(named(target), Plan(datasets=planned))
    assert {cell.dataset for cell in found} == shown


def test_several_seeds_are_for_tables_and_for_what_a_seed_can_change() -> None:
    plan = Plan(datasets=("gowalla",), seeds=(3, 4))
    found = cells_of(named("all"), plan)
    seeds = {name: [c.seed for c in found if c.name == name] for name in {c.name for c in found}}
    assert seeds["dregn-cf"] == seeds["wmf"] == [3, 4]
    assert seeds["ease"] == seeds["popularity"] == [3]
    assert all(seeds[name] == [3] for name in seeds if name.endswith("+validation"))


def test_under_the_paper_curves_come_from_runs_of_their_own() -> None:
    plan = Plan("paper", ("gowalla",))
    assert all(cell.on_validation for cell in cells_of(named("fig-efficiency"), plan))
    assert not any(cell.on_validation for cell in cells_of(named("table-ablation"), plan))
    assert {cell.protocol for cell in cells_of(named("all"), plan)} == {"paper"}


def test_some_cells_can_be_asked_for_by_name_or_pattern() -> None:
    assert names("all", only=["dregn-cf", "ease"]) == ["dregn-cf", "ease"]
    chosen = names("fig-sensitivity", only=["*l2*"])
    assert len(chosen) == 9
    point = "dregn-cf+risk.upper_bound=10+training.l2=0.09+training.learning_rate=0.1+validation"
    assert point not in names("all")
    assert names("all", only=[point]) == [point]


def test_a_name_of_no_cell_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"only.*did you mean dregn-cf\?"):
        names("all", only=["dregncf"])
    with pytest.raises(ConfigError, match="of which this target has none"):
        names("table-datasets", only=["dregn-cf"])


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"seeds": (0, 0)}, "seeds"),
        ({"seeds": ()}, "seeds"),
        ({"seeds": (-1,)}, "seeds"),
        ({"datasets": ("gowalla", "gowalla")}, "datasets"),
        ({"datasets": ()}, "datasets"),
        ({"protocol": "both"}, "protocol"),
    ],
)
def test_an_impossible_plan_is_refused(given: dict[str, tuple[int, ...]], where: str) -> None:
    with pytest.raises(ConfigError, match=f"where: {where};"):
        Plan(**given)  # type: ignore[arg-type]


RESULTS = Path(__file__).parents[3] / "results" / "reproduce"
PLAN = Plan(datasets=("gowalla", "amazon-book"), seeds=(0, 1))


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    files = CellFiles(tmp_path / "cells")
    know(files, "gowalla", SMALL)
    keep(files, PLAN.cells("dregn-cf", "gowalla"))
    return files


def report_of(files: CellFiles, target: str = "all", plan: Plan = PLAN) -> ReproductionReport:
    return build(target, named(target), Findings(plan, files))


def test_a_report_needs_no_data(files: CellFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "load", lambda *_, **__: pytest.fail("data were loaded"))
    assert report_of(files).exhibits


def test_the_same_files_give_the_same_report(files: CellFiles, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(report_of(files), tmp_path / name, protocol="validated")
    written = sorted((tmp_path / "one").rglob("*"))
    assert {"report.html", "report.md", "report.json"} <= {path.name for path in written}
    for path in written:
        assert (
            path.read_bytes()
            == (tmp_path / "other" / path.relative_to(tmp_path / "one")).read_bytes()
        )


def test_the_facts_say_how_it_was_obtained(files: CellFiles) -> None:
    seed0, seed1 = PLAN.cells("dregn-cf", "gowalla")
    keep(files, [seed1], machine=GPU | {"accelerator": "Another GPU"}, commit=None)
    facts = report_of(files, "table-ablation").facts
    assert facts["machine"] == "Another GPU; Some GPU"
    assert facts["commit"] == "c0ffee; not known"
    assert facts["seeds"] == "0, 1"
    assert facts["runs"] == f"2 of {2 * 8 * 2 + 2 * 8 * 3} finished"
    assert facts["data sets"] == "Gowalla (sha256 abababababab…); Amazon-Book (not on the machine)"
    assert "nothing is chosen on test pairs" in facts["protocol"]
    assert facts["command"] == (
        "ratiorec reproduce table-ablation --protocol validated --seeds 0,1 "
        "--datasets gowalla,amazon-book"
    )
    assert seed0.seed == 0


def test_a_quick_report_says_what_it_is_in_title_and_facts(files: CellFiles) -> None:
    quick = report_of(files, plan=Plan(datasets=(SMALL,)))
    assert quick.title.startswith("Quick run, not a result")
    assert "only that everything works" in quick.facts["what this is"]
    assert quick.facts["command"].endswith("--quick")


def test_in_json_a_figure_has_its_mean_interval_and_difference(files: CellFiles) -> None:
    told = report_of(files, "table-effectiveness").to_json()
    assert json.loads(json.dumps(told, allow_nan=False))["title"] == told["title"]
    (table,) = told["exhibits"]
    assert table["kind"] == "table"
    row = next(row for row in table["rows"] if row["name"] == "DREGN-CF")
    assert row["entries"][0] == {
        "values": (0.1, 0.1),
        "published": 0.1810,
        "remark": "",
        "files": tuple(f"cells/validated/gowalla/dregn-cf-seed{seed}.json" for seed in (0, 1)),
        "mean": 0.1,
        "interval": (0.1, 0.1),
        "relative_difference": 0.1 / 0.1810 - 1,
    }
    kinds = {exhibit["kind"] for exhibit in report_of(files).to_json()["exhibits"]}
    assert kinds == {"table", "curve", "bar"}


def test_a_report_on_nothing_has_every_exhibit(tmp_path: Path) -> None:
    empty = report_of(CellFiles(tmp_path / "nothing"), plan=Plan(datasets=PAPER_DATASETS))
    write(empty, tmp_path / "out", protocol="validated")
    assert empty.facts["runs"].startswith("0 of ")
    assert "machine" not in empty.facts
    assert len(empty.exhibits) == 9 + 1 + 1 + 1 + 3 * 3  # with two rivals' searches


# The results that are kept in the repository


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_cell_of_the_results_is_what_would_be_run_now(protocol: str) -> None:
    files = CellFiles(RESULTS)
    datasets = (*PAPER_DATASETS, STAND_IN)
    seeds = tuple(files.known_seeds(protocol, datasets))
    plan = with_choices(Plan(protocol, datasets, seeds, whole_grid=True), files)
    used = {files.record_path(c) for c in cells_of(named(ALL), plan) if files.finished(c)}
    assert set((RESULTS / "cells" / protocol).rglob("*.json")) - used == set()


@pytest.mark.parametrize(
    ("protocol", "report"), [("validated", "report.md"), ("paper", "report-paper.md")]
)
def test_the_report_of_the_results_has_every_test_figure_and_its_difference(
    protocol: str, report: str
) -> None:
    text = (RESULTS / report).read_text().replace("\N{NO-BREAK SPACE}", " ")
    values: dict[tuple[str, str, str], list[float]] = {}
    for path in (RESULTS / "cells" / protocol).rglob("*.json"):
        record = json.loads(path.read_bytes())
        for metric, value in (record["test"] or {}).items():
            values.setdefault((record["cell"], record["dataset"], metric), []).append(value)
    assert values
    for (preset, dataset, metric), seeds in values.items():  # a changed preset is none
        mean, printed = statistics.fmean(seeds), quality(QUALITY, preset, dataset, metric)
        cell = rf"\*?\*?{re.escape(figure(mean))}\*?\*?[^|<]*(<sup>\w+</sup>)?"
        if printed is not None:
            cell += re.escape(f"<br>{figure(printed)}, {difference_text(mean, printed)}")
        else:  # what a search has chosen stands beside the figure of the preset
            cell += r"(<br>[^|]*)?"
        assert re.search(rf"\| {cell} \|", text), (preset, dataset, metric, cell)
