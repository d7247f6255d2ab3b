from __future__ import annotations

import pytest
from ratiorec_lab.reproduce.names import PAPER_DATASETS, SMALL, STAND_IN
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.search import SELECTION, WHOLE
from ratiorec_lab.reproduce.targets import ALL, TARGETS, cells_of, named

from ratiorec.errors import ConfigError

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
    point = "dregn-cf+training.penalty=0.04+validation"
    assert point in names("search")
    assert point in names("fig-sensitivity")


def test_the_ablation_has_eight_rows() -> None:
    assert len([name for name in names("table-ablation") if "+" not in name]) == 8


def test_each_row_of_the_ablation_is_run_with_three_other_penalties_on_validation_pairs() -> None:
    others = [cell for cell in cells_of(named("table-ablation"), GOWALLA) if cell.changes]
    assert len(others) == 8 * 3
    assert all(cell.on_validation for cell in others)
    changed = {cell.changes[0][0] for cell in others if cell.preset == "dregn-cf-static"}
    assert changed == {"second.training.penalty"}
    assert {cell.changes[0][1] for cell in others if cell.preset == "pu"} == {0.001, 0.003, 0.03}
    fixed = cells_of(named("table-ablation"), Plan("paper", ("gowalla",)))
    assert not any(cell.changes for cell in fixed)


def test_the_sensitivity_varies_one_setting_at_a_time_over_the_papers_values() -> None:
    found = cells_of(named("fig-sensitivity"), GOWALLA)
    assert all(cell.on_validation for cell in found)
    assert {len(cell.changes) for cell in found} == {0, 1}
    penalties = {cell.settings.training.penalty for cell in found}  # type: ignore[union-attr]
    assert penalties == {0.045, *(k / 100 for k in range(1, 10))}
    bounds = {cell.settings.risk.upper_bound for cell in found}  # type: ignore[union-attr]
    assert bounds == {10.0 * k for k in range(1, 10)}
    assert len(found) == 9 + 9


def test_the_search_is_on_validation_pairs_alone_and_inside_the_papers_ranges() -> None:
    found = cells_of(named("search"), GOWALLA)
    assert all(cell.on_validation for cell in found)
    assert len(found) == 4 * 2 * 2
    for ours, theirs in zip(SELECTION, WHOLE, strict=True):
        assert set(ours) <= set(theirs)
    whole = Plan(datasets=("gowalla",), whole_grid=True)
    assert len(cells_of(named("search"), whole)) == 9 * 9 * 10
    assert len(cells_of(named("search"), Plan(datasets=(SMALL,)))) == 2 * 2 * 2


def test_static_weights_are_shown_with_the_same_rate_and_a_tenth_of_it() -> None:
    found = {
        cell.name: cell.settings
        for cell in cells_of(named("fig-static-adaptive"), Plan(datasets=("gowalla", "yelp2018")))
        if cell.preset == "dregn-cf-static"
    }
    rates = sorted(s.second.training.learning_rate for s in found.values())  # type: ignore[union-attr]
    assert rates == [0.01 / 10, 0.01]
    assert {s.first.training.epochs for s in found.values()} == {60}  # type: ignore[union-attr]


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
    chosen = names("fig-sensitivity", only=["*penalty*"])
    assert len(chosen) == 9
    point = (
        "dregn-cf+risk.upper_bound=10+training.learning_rate=0.1+training.penalty=0.09+validation"
    )
    assert point not in names("all")
    assert names("all", only=[point]) == [point]


def test_a_name_of_no_cell_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--only.*did you mean dregn-cf\?"):
        names("all", only=["dregncf"])
    with pytest.raises(ConfigError, match="of which this target has none"):
        names("table-datasets", only=["dregn-cf"])


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"seeds": (0, 0)}, "--seeds"),
        ({"seeds": ()}, "--seeds"),
        ({"seeds": (-1,)}, "--seeds"),
        ({"datasets": ("gowalla", "gowalla")}, "--datasets"),
        ({"datasets": ()}, "--datasets"),
        ({"protocol": "both"}, "--protocol"),
    ],
)
def test_an_impossible_plan_is_refused(given: dict[str, tuple[int, ...]], where: str) -> None:
    with pytest.raises(ConfigError, match=f"where: {where};"):
        Plan(**given)  # type: ignore[arg-type]
