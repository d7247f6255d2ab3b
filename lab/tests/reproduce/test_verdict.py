"""Verdicts on the paper's claims, made from given figures."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from lab_support.fake_cells import curve, keep, know, metrics, time_steps
from ratiorec_lab.reproduce import rules
from ratiorec_lab.reproduce import verdict as v
from ratiorec_lab.reproduce.claims import CLAIMS, verdicts
from ratiorec_lab.reproduce.more_runs import EQUAL_WEIGHTS, EXACT, FINISHED, variant_cells
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import STAND_IN
from ratiorec_lab.reproduce.records import ON_GPU, CellFiles
from ratiorec_lab.reproduce.report import ALL, build, named, write

SEEDS = (0, 1, 2)
PLAN = Plan(datasets=("gowalla", "yelp2018", STAND_IN), seeds=SEEDS)
CLAIM = {claim.id: claim for claim in CLAIMS}


@pytest.fixture
def files(tmp_path: Path) -> CellFiles:
    found = CellFiles(tmp_path / "reproduce")
    know(found, "gowalla", "yelp2018", STAND_IN)
    return found


def run(files: CellFiles, preset: str, dataset: str, *ndcg: float) -> None:
    for cell, value in zip(PLAN.cells(preset, dataset), ndcg, strict=False):
        keep(files, [cell], test=metrics(value))


def judged(files: CellFiles, claim: str) -> v.Verdict:
    return v.judged(Findings(PLAN, files), CLAIM[claim])


def check(outcome: str, dataset: str = "gowalla") -> v.Check:
    return v.Check(dataset, outcome, "")


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ((), v.NOT_TESTED),
        ((v.HOLDS, v.HOLDS), v.REPRODUCED),
        ((v.HOLDS, v.FAILS), v.PARTLY),
        ((v.HOLDS, v.OPEN), v.PARTLY),
        ((v.OPEN,), v.PARTLY),
        ((v.FAILS, v.FAILS), v.NOT_REPRODUCED),
    ],
)
def test_the_status_follows_from_the_data_sets(outcomes: tuple[str, ...], status: str) -> None:
    assert v.status_of([*map(check, outcomes)]) == status


def test_a_part_of_amazon_book_alone_is_partly_at_most_and_never_spoils_the_rest() -> None:
    assert v.status_of([check(v.HOLDS, STAND_IN)]) == v.PARTLY
    assert v.status_of([check(v.HOLDS), check(v.FAILS, STAND_IN)]) == v.REPRODUCED


def test_a_difference_has_welchs_interval() -> None:
    found = v.difference((0.11, 0.12, 0.13), (0.1, 0.1, 0.1))
    assert found.share == pytest.approx(0.2)
    # all the variance is of one side: Student's with 2 degrees, 4.303 · .01 / √3 / .1
    assert found.interval == pytest.approx((0.2 - 0.2484, 0.2 + 0.2484), abs=1e-4)
    assert found.is_above() == v.OPEN
    assert v.difference((0.119, 0.12, 0.121), (0.1, 0.1, 0.1)).is_above() == v.HOLDS


@pytest.mark.parametrize(
    ("ndcg", "outcome"), [(0.105, v.HOLDS), (0.102, v.OPEN), (0.10005, v.FAILS), (0.09, v.FAILS)]
)
def test_one_seed_must_differ_by_three_per_cent(ndcg: float, outcome: str) -> None:
    found = v.difference((ndcg,), (0.1, 0.1))
    assert found.interval is None
    assert found.is_above() == outcome


def test_claims_without_runs_are_not_tested(files: CellFiles) -> None:
    found = verdicts(Findings(PLAN, files), [claim.exhibit for claim in CLAIMS])
    assert {one.status for one in found} == {v.NOT_TESTED}
    assert {one.figures for one in found} == {"not run yet"}
    assert len({one.claim.id for one in found}) == len(CLAIMS) >= 45


def test_a_record_turns_not_tested_into_a_verdict(files: CellFiles) -> None:
    for seed, cell in enumerate(variant_cells(PLAN, EQUAL_WEIGHTS, "gowalla")):
        assert judged(files, "dre-pu").status == v.NOT_TESTED
        if seed == 2:
            run(files, "dre", "gowalla", 0.12, 0.121, 0.119)
        keep(files, [cell], test=metrics(0.05 + seed / 1000))
    found = judged(files, "dre-pu")
    assert (found.status, len(found.checks)) == (v.REPRODUCED, 1)
    assert found.figures == ("Gowalla +135.3 % (+130.8 to +139.7 %)")


@pytest.mark.parametrize("shown", ["validated", "paper"])
def test_the_papers_number_of_steps_is_judged_by_its_protocol_whichever_is_shown(
    files: CellFiles, shown: str
) -> None:
    run(files, "dregn-cf", "gowalla", 0.11)  # validated: says nothing about it
    findings = Findings(replace(PLAN, protocol=shown), files)
    assert v.judged(findings, CLAIM["steps-paper"]).status == v.NOT_TESTED
    cells = variant_cells(replace(PLAN, protocol="paper"), EXACT, "gowalla")
    keep(files, cells, test=metrics(0.1541))
    findings = Findings(replace(PLAN, protocol=shown), files)
    found = v.judged(findings, CLAIM["steps-paper"])
    assert (found.status, len(found.checks)) == (v.REPRODUCED, 1)


def test_a_loss_that_learns_nothing_is_no_evidence(files: CellFiles) -> None:
    run(files, "dre", "gowalla", 0.12, 0.121, 0.119)
    keep(files, variant_cells(PLAN, EQUAL_WEIGHTS, "gowalla"), test=metrics(0.02))
    run(files, "popularity", "gowalla", 0.03)
    (found,) = judged(files, "dre-pu").checks
    assert found.outcome == v.OPEN
    assert "(a) ranks below popularity" in found.figure
    assert found.own == "+7.7 %"  # .1327 and .1232 in Table 3
    paper = replace(PLAN, protocol="paper")  # which has no popularity of its own
    keep(files, variant_cells(paper, EQUAL_WEIGHTS, "gowalla"), test=metrics(0.02))
    keep(files, paper.cells("dre", "gowalla"), test=metrics(0.12))
    (found,) = v.judged(Findings(paper, files), CLAIM["dre-pu"]).checks
    assert found.outcome == v.OPEN


def test_runs_of_the_other_protocol_stand_in_where_there_are_none(files: CellFiles) -> None:
    paper = replace(PLAN, protocol="paper")
    keep(files, variant_cells(paper, FINISHED, "gowalla"), test=metrics(0.05))
    keep(files, paper.cells("dregn-cf-uniform", "gowalla"), test=metrics(0.1))
    (found,) = judged(files, "static").checks
    assert (found.outcome, found.figure) == (
        v.HOLDS,
        "-50.0 % (-50.0 to -50.0 %) (protocol paper)".replace("-", "−"),
    )


def test_the_papers_own_tables_are_held_to_the_rule(files: CellFiles) -> None:
    for preset, ndcg in (("dregn-cf-no-is", 0.151), ("dregn-cf", 0.15)):
        run(files, preset, "gowalla", ndcg)
        run(files, preset, "yelp2018", ndcg)
    found = judged(files, "no-is")
    assert [check.own for check in found.checks] == ["+0.1 %, fails this rule", "+0.4 %"]
    assert found.where == "5.4.2, Table 3; Gowalla +0.1 %, fails this rule; Yelp2018 +0.4 %"


def test_steps_between_two_validations_decide_nothing(files: CellFiles) -> None:
    """It had not converged at step 1,000 and had at 1,200: 1,100 may be more or less."""
    slow = curve([None, 0.05, 0.1], n_steps=600)
    for fast, outcome in (([0.05, 0.1], v.OPEN), ([0.1, 0.1], v.HOLDS)):
        keep(files, PLAN.cells("lightgcn-dns", "gowalla"), curve=slow)
        keep(files, PLAN.cells("dregn-cf", "gowalla"), curve=curve(fast, n_steps=700))
        (found,) = judged(files, "dregn-dns-steps").checks
        assert found.outcome == outcome, found


def test_other_readings_are_counted_apart(files: CellFiles, tmp_path: Path) -> None:
    report = build(ALL, named(ALL), Findings(PLAN, files))
    text = write(report, tmp_path / "out", protocol="validated")["markdown"].read_text("utf-8")
    n_said = sum(claim.is_papers for claim in CLAIMS)
    assert f"{n_said} statements of the paper: 0 reproduced" in text
    assert f"{len(CLAIMS) - n_said} other readings of them" in text


def test_a_figure_leads_to_its_claim_s_runs_in_two_steps(files: CellFiles, tmp_path: Path) -> None:
    run(files, "dregn-cf", "gowalla", 0.15, 0.151, 0.152)
    report = build(ALL, named(ALL), Findings(PLAN, files))
    paths = write(report, files.folder, protocol="validated")
    for name, link in (("html", r'href="(cells/[^"]+)"'), ("markdown", r"\]\((cells/[^)]+)\)")):
        found = set(re.findall(link, paths[name].read_text(encoding="utf-8")))
        assert len(found) == 3
        assert all((files.folder / unquote(path)).is_file() for path in found)


def test_a_figure_of_one_seed_is_marked(files: CellFiles) -> None:
    run(files, "dregn-cf", "gowalla", 0.1541)
    run(files, "dregn-cf", "yelp2018", 0.0564, 0.0565)
    one, several = (check.figure for check in judged(files, "figures").checks)
    assert one.endswith("% (one seed)")
    assert "one seed" not in several


def test_an_idle_correction_is_no_slight_loss(files: CellFiles) -> None:
    for preset in ("dregn-cf", "dregn-cf-no-nn"):
        run(files, preset, "gowalla", 0.15, 0.151, 0.152)
    assert judged(files, "no-nn").status == v.NOT_REPRODUCED


def test_a_claim_that_holds_on_one_data_set_is_partly(files: CellFiles) -> None:
    run(files, "dregn-cf-popularity", "gowalla", 0.13, 0.131, 0.132)
    run(files, "dregn-cf-uniform", "gowalla", 0.14, 0.141, 0.142)
    run(files, "dregn-cf-popularity", "yelp2018", 0.06, 0.0601, 0.0602)
    run(files, "dregn-cf-uniform", "yelp2018", 0.05, 0.0501, 0.0502)
    assert judged(files, "popularity").status == v.PARTLY


def test_times_are_judged_by_every_pair_of_seeds(files: CellFiles) -> None:
    keep(files, PLAN.cells("dregn-cf", "gowalla"), curve=curve([None, 0.1], step_seconds=0.5))
    keep(files, PLAN.cells("dregn-cf-uniform", "gowalla"), seconds={"train": 99.0, "total": 99.0})
    rule = rules.times("dregn-cf-uniform", "dregn-cf", rules.WHOLE_FIT)
    assert rule(Findings(PLAN, files), "gowalla") == v.Check(
        "gowalla", v.HOLDS, "9.9 × (9.9 to 9.9), 99 s against 10 s"
    )


def test_a_run_beside_others_on_its_device_has_no_time(files: CellFiles) -> None:
    keep(files, PLAN.cells("dregn-cf", "gowalla"), curve=curve([None, 0.1]))
    shared = curve([None, 0.1], step_seconds=9)
    keep(files, PLAN.cells("enmf", "gowalla"), curve=shared, shared_device=True)
    found = Findings(PLAN, files)
    for effort in (rules.RUN_STEP, rules.RUN_TIME, rules.WHOLE_FIT):
        assert rules.times("enmf", "dregn-cf", effort)(found, "gowalla") is None
    assert rules.times("enmf", "dregn-cf", rules.STEPS)(found, "gowalla") is not None


def test_times_on_a_cpu_are_steps_of_the_runs_by_steps_of_the_benchmark(files: CellFiles) -> None:
    for preset, step_seconds in (("enmf", 0.005), ("dregn-cf", 0.001)):
        keep(
            files,
            PLAN.cells(preset, "gowalla"),
            curve=curve([None, 0.1], n_steps=60, step_seconds=step_seconds),
        )
    assert judged(files, "step-enmf-cpu").status == v.NOT_TESTED
    time_steps(files, "gowalla", {"enmf": (0.01, 0.02, 0.03), "dregn-cf": (0.1, 0.2, 0.3)})
    time_steps(files, "yelp2018", {"enmf": (0.4, 0.5, 0.6)})
    assert judged(files, "step-enmf-cpu").checks == (
        v.Check("gowalla", v.FAILS, "0.1 × (0.0333 to 0.3), 20 ms against 200 ms"),
    )
    assert judged(files, "time-enmf-cpu").checks == (
        v.Check("gowalla", v.FAILS, "0.1 × (0.0333 to 0.3), 2.4 s against 24 s"),
    )
    assert judged(files, "time-enmf").checks[0].figure.startswith("5 ×")  # as the runs were timed
    assert judged(files, "time-enmf-gpu").status == v.NOT_TESTED
    time_steps(files, "gowalla", {"enmf": (3, 3, 3), "dregn-cf": (1, 1, 1)}, on=ON_GPU)
    assert judged(files, "step-enmf-gpu").checks[0].figure.startswith("3 ×")


def test_steps_of_other_data_are_not_taken(files: CellFiles) -> None:
    keep(files, PLAN.cells("enmf", "gowalla"), curve=curve([None, 0.1]))
    keep(files, PLAN.cells("dregn-cf", "gowalla"), curve=curve([None, 0.1]))
    time_steps(files, "gowalla", {"enmf": (1, 1, 1), "dregn-cf": (1, 1, 1)}, data_sha256="other")
    assert judged(files, "step-enmf-cpu").status == v.NOT_TESTED


def test_every_verdict_links_to_an_exhibit_of_its_report(files: CellFiles, tmp_path: Path) -> None:
    report = build(ALL, named(ALL), Findings(PLAN, files))
    assert len(report.verdicts) == len(CLAIMS)
    paths = write(report, tmp_path / "out", protocol="validated")
    html, text = (paths[name].read_text(encoding="utf-8") for name in ("html", "markdown"))
    assert html.index("<h2>Verdict</h2>") < html.index("<h2>Statistics of the data sets</h2>")
    assert html.index("<h2>How it was measured</h2>") > html.rindex('class="figures"')
    assert text.index("## Verdict") < text.index("## Statistics") < text.index("## How it was")
    for page in (html, text):
        targets = set(re.findall(r'id="([^"]+)"', page))
        links = re.findall(r'(?:href="|\]\()#([^")]+)', page)
        assert len(links) >= len(CLAIMS)
        assert set(links) <= targets


def test_a_report_of_one_table_has_the_verdicts_on_it_alone(files: CellFiles) -> None:
    found = build("table-ablation", named("table-ablation"), Findings(PLAN, files))
    assert {one.claim.exhibit for one in found.verdicts} == {"table-ablation"}


def test_both_reports_link_to_each_other(files: CellFiles, tmp_path: Path) -> None:
    for protocol in ("paper", "validated", "paper"):
        plan = Plan(protocol, ("gowalla",))
        report = build(ALL, named(ALL), Findings(plan, files))
        write(report, tmp_path, protocol=protocol)
    assert 'href="report-paper.html"' in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'href="report.html"' in (tmp_path / "report-paper.html").read_text(encoding="utf-8")
    assert "(report-paper.md)" in (tmp_path / "report.md").read_text(encoding="utf-8")
