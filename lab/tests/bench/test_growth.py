from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_support.quick_bench import AT_ONCE, without_processes
from ratiorec.data.interactions import Dataset
from ratiorec_lab.bench import growth, side_by_side
from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.clock import Ceilings, Conditions, Times
from ratiorec_lab.bench.growth import Point, backends
from ratiorec_lab.bench.growth_chart import drawing, growth_charts
from ratiorec_lab.bench.growth_lines import (
    AXES,
    BASE,
    MEMORY,
    QUICK,
    TIME,
    USUAL,
    Exponents,
    Growth,
    Plan,
    growths,
    size_at,
)
from ratiorec_lab.bench.page import write_page
from ratiorec_lab.bench.random_data import long_tailed_pairs
from ratiorec_lab.bench.side_by_side import Outcome
from ratiorec_lab.bench.words import lines

CPU = torch.device("cpu")
BASE_SIZE = {"users": 12, "items": 10, "pairs": 30, "dimension": 4, "batch": 6}
PLAN = Plan(BASE_SIZE, dict.fromkeys(AXES, (0.5, 1, 2)))
SVG = "{http://www.w3.org/2000/svg}"


def measure(patch: pytest.MonkeyPatch) -> Measured:
    """Every axis at three points; what any case takes is told to be 7 MB."""
    without_processes(patch)
    patch.setattr(growth, "QUICK", PLAN)
    dataset = Dataset("not looked at", long_tailed_pairs(2, 2, 2))
    return growth.measure(Conditions(dataset, CPU, AT_ONCE))


@pytest.fixture(scope="module")
def measured() -> Measured:
    with pytest.MonkeyPatch.context() as patch:
        return measure(patch)


def in_a_second(target: str, ways: Any, *_: Any, also: Any) -> Outcome:
    """Nothing is timed: all work takes a second and no memory."""
    return Outcome(
        dict.fromkeys([*ways, *also], Times((1.0,))),
        dict.fromkeys(ways, 0.0),
        {"cpu": Ceilings({"float32": 1.0}, 1.0)},
        dict.fromkeys([*ways, *also], "cpu"),
    )


def point(**sizes: int) -> Point:
    size = BASE_SIZE | sizes
    return Point(size, long_tailed_pairs(size["users"], size["items"], size["pairs"]), CPU)


@given(st.integers(2, 40), st.integers(2, 40), st.integers(1, 900))
def test_everyone_has_a_pair_and_there_are_as_many_as_asked_for(
    n_users: int, n_items: int, n_pairs: int
) -> None:
    data = long_tailed_pairs(n_users, n_items, n_pairs)
    assert data.user_degrees.min() >= 1
    assert data.item_degrees.min() >= 1
    assert data.n_pairs == max(n_users, n_items, min(n_pairs, n_users * n_items // 2))


@pytest.mark.parametrize("n_items", [500, 2000])
def test_the_head_of_the_items_is_that_of_real_data(n_items: int) -> None:
    degrees = np.sort(long_tailed_pairs(5000, n_items, 60_000).item_degrees)[::-1]
    shares = [degrees[: n_items // part].sum() / degrees.sum() for part in (100, 10, 2)]
    gowalla = [0.127, 0.394, 0.769]
    assert shares == pytest.approx(gowalla, abs=0.03)


def test_the_same_size_is_the_same_data() -> None:
    first, second = (long_tailed_pairs(30, 20, 200) for _ in range(2))
    assert first.sha256 == second.sha256


@pytest.mark.parametrize("axis", AXES)
def test_every_axis_is_two_orders_of_magnitude_long_with_the_base_inside(axis: str) -> None:
    places = USUAL.places()
    values = [places[name][axis] for name in USUAL.along(axis)]
    assert values == sorted(set(values))
    assert values[-1] / values[0] >= 100
    assert values[0] < USUAL.base[axis] < values[-1]
    assert BASE in QUICK.along(axis)


@pytest.mark.parametrize("plan", [USUAL, QUICK])
def test_the_other_axes_stay_but_users_bring_their_pairs(plan: Plan) -> None:
    for axis in AXES:
        for name in plan.along(axis):
            size = plan.places()[name]
            factor = size[axis] / plan.base[axis]
            stretched = {axis, "pairs"} if axis == "users" else {axis}
            for other in AXES:
                expected = plan.base[other] * (factor if other in stretched else 1)
                assert size[other] == expected


def test_a_place_around_next_to_nothing_is_still_something() -> None:
    assert size_at("users*0.1", {"users": 8, "pairs": 8}) == {"users": 2, "pairs": 2}


@given(
    st.floats(-3, 3),
    st.floats(1e-6, 1e3),
    st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True),
)
def test_the_exponent_of_a_power_is_that_power(
    power: float, scale: float, values: list[int]
) -> None:
    points = tuple((value, scale * value**power) for value in sorted(values))
    found = Growth("users", "step", "tiled", TIME, points).exponents
    assert found == pytest.approx((power, power), abs=1e-6)


def test_the_last_interval_is_told_apart() -> None:
    points = ((10, 3.0), (100, 3.0), (1000, 300.0))
    found = Growth("users", "step", "tiled", TIME, points).exponents
    assert found == Exponents(math.log(100) / math.log(100), math.log(100) / math.log(10))


@pytest.mark.parametrize("points", [((10, 1.0),), ((10, 0.0), (20, 1.0)), ((10, 1.0), (20, 0.0))])
def test_without_two_points_above_zero_there_is_no_exponent(points: Any) -> None:
    assert Growth("users", "step", "tiled", MEMORY, points).exponents is None


def test_cases_of_other_targets_do_not_grow() -> None:
    case = Case("product", "ours", "cpu", {}, Times((1.0,)))
    assert growths(Measured("risk", [case], {}).to_json()) == []


def kinds(cases: Any) -> set[tuple[str, str]]:
    return {(case.figures["work"], case.backend) for case in cases}


def test_every_point_has_steps_their_preparation_and_lists(measured: Measured) -> None:
    steps = {("step", "tiled"), ("step", "reference")}
    others = {("preparation", "ratiorec"), ("top-20 for a user", "ratiorec")}
    for axis in AXES:
        for value in (BASE_SIZE[axis] // 2, BASE_SIZE[axis], BASE_SIZE[axis] * 2):
            here = [
                case
                for case in measured.cases
                if (case.figures["axis"], case.figures["value"]) == (axis, value)
            ]
            # how many users a batch has does not matter to lists
            expected = steps | {one for one in others if axis != "batch" or "top" not in one[0]}
            assert kinds(here) == expected
            assert len(here) == len(expected)
            assert {case.size[axis] for case in here} == {value}
    assert measured.left_out == {}


def test_a_step_is_compared_with_the_reference_at_the_same_point(measured: Measured) -> None:
    references = {
        (case.figures["axis"], case.figures["value"]): case.seconds
        for case in measured.cases
        if case.is_reference
    }
    for case in measured.cases:
        if case.figures["work"] == "step":
            expected = case.seconds / references[case.figures["axis"], case.figures["value"]]
            assert measured.ratio_to_reference(case) == expected
        else:
            assert measured.ratio_to_reference(case) is None


def test_the_base_is_measured_once_for_all_axes(measured: Measured) -> None:
    at_base = [
        case.times
        for case in measured.cases
        if case.backend == "tiled" and case.figures["value"] == BASE_SIZE[case.figures["axis"]]
    ]
    assert len(at_base) == len(AXES)
    assert len(set(at_base)) == 1


def test_only_steps_have_a_figure_for_memory(measured: Measured) -> None:
    for case in measured.cases:
        expected = 7.0 if case.figures["work"] == "step" else None
        assert case.peak_extra_mb == expected


def test_the_end_of_a_line_tells_its_exponents(measured: Measured) -> None:
    told = measured.to_json()
    assert growths(told)
    for line in growths(told):
        *before, last = [
            case
            for case in told
            if (case["axis"], case["work"], case["execution"])
            == (line.axis, line.work, line.backend)
        ]
        assert line.exponents is not None
        assert last["exponents"][line.figure] == pytest.approx(line.exponents._asdict(), rel=0.01)
        assert all("exponents" not in case for case in before)


def test_matrices_that_would_not_fit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    n_bytes = {
        place: 10 * 4 * min(size["batch"], size["users"]) * point(**size).n_candidates
        for place, size in PLAN.places().items()
    }
    room = n_bytes["batch*2"] - 1
    half_of = 2 * room / 2**20  # for the rest is for the other points
    monkeypatch.setattr(growth, "available_memory_mb", lambda device: half_of)
    found = measure(monkeypatch)
    too_large = [place for place, n in n_bytes.items() if n > room]
    assert list(found.left_out) == [f"reference at {place}" for place in too_large]
    at_end = ("batch", 2 * BASE_SIZE["batch"])
    there = [
        case for case in found.cases if (case.figures["axis"], case.figures["value"]) == at_end
    ]
    assert kinds(there) == {("step", "tiled"), ("preparation", "ratiorec")}
    assert "more than" in found.left_out["reference at batch*2"]


def test_a_candidate_is_counted_if_it_came_up_or_if_a_gpu_lists_it() -> None:
    few = point(items=60, pairs=70, batch=1)
    assert 1 <= few.n_candidates < 60
    assert replace(few, device=torch.device("cuda")).n_candidates == 60


@pytest.mark.parametrize("backend", ["tiled", "reference", "tiled, eager", "reference, eager"])
def test_a_step_has_the_backend_asked_for(backend: str) -> None:
    way = point().step(backend)
    with way.around():
        assert [way.work() for _ in range(5)] == [1] * 5
    settings = point(dimension=3).settings("reference")
    assert settings.risk.backend == "reference"
    assert (settings.encoder.dimension, settings.batches.n_users) == (3, 6)


def test_on_a_gpu_steps_are_recorded_and_memory_is_that_of_eager_ones() -> None:
    recorded, eager, reference = backends(torch.device("cuda"))
    assert recorded.endswith(", CUDA graph")
    assert eager == recorded.replace("CUDA graph", "eager")
    assert reference == "reference, eager"


def test_preparing_counts_everything_anew() -> None:
    fresh = point()
    way = fresh.preparation()
    with way.around():
        way.work()
    assert "item_degrees" not in vars(fresh.data)


def test_the_time_of_a_list_is_that_of_one_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "side_by_side", in_a_second)
    found = measure(monkeypatch)
    for case in found.cases:
        n_ranked = case.size["users"] if case.figures["work"].startswith("top-20") else 1
        assert case.seconds == 1 / n_ranked
    assert point().ranking_floor.n_operations == pytest.approx(2 * 10 * 4)


@pytest.mark.parametrize("key", ["tiled base", "reference users*0.1", "tiled batch*10"])
def test_a_case_runs_by_itself(key: str) -> None:
    way = growth.alone(key, dict.fromkeys(BASE_SIZE, 8))
    with way.around():
        assert way.work() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a peak begin anew")
def test_only_the_memory_of_the_reference_grows_by_whole_matrices() -> None:
    size = {"users": 1000, "items": 2000, "pairs": 30_000, "dimension": 8, "batch": 250}
    keys = [f"{how} {place}" for how in ("tiled", "reference") for place in (BASE, "batch*4")]
    peaks = side_by_side.in_one_process("growth", keys, size)
    small, large, small_reference, large_reference = (peaks[key] or 0.0 for key in keys)
    more_mb = 4 * 750 * 2000 / 2**20
    assert large_reference - small_reference > 3 * more_mb
    assert large - small < more_mb


def test_the_data_of_the_target_are_those_of_its_base() -> None:
    data = growth.own_data(AT_ONCE).train
    assert (data.n_users, data.n_items, data.n_pairs) == tuple(
        QUICK.base[axis] for axis in ("users", "items", "pairs")
    )


def test_a_table_has_a_row_for_all_that_grows(measured: Measured) -> None:
    grown = growths(measured.to_json())
    title, head, *rows = lines(measured)
    assert title == "growth"
    assert head.split() == ["first", "middle", "last", "exponent", "last", "interval"]
    assert len(rows) == len(grown) + 1  # and the ceilings
    assert rows[1].split("  ")[0] == "users 6 to 24: step, tiled, memory"
    assert rows[1].split()[-8:] == ["7", "MB", "7", "MB", "7", "MB", "0.00", "0.00"]


def test_a_page_has_a_plot_for_every_axis_twice(measured: Measured, tmp_path: Path) -> None:
    record = {"dataset": "d", "machine": {"cores": 2, "processor": "P"}, "command": "c"}
    write_page([measured], record | {"commit": None}, tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text()
    assert html.count("<svg") == 2 * len(AXES)
    assert "users 6 to 24: step, tiled, memory" in html.replace("\N{NO-BREAK SPACE}", " ")


def panels(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of the charts inside an image."""
    found = []
    for chart in ElementTree.fromstring(svg).iter(f"{SVG}svg"):
        if "x" in chart.attrib:
            left, top, width, height = (
                float(chart.attrib[name]) for name in ("x", "y", "width", "height")
            )
            found.append((left, top, left + width, top + height))
    return found


@pytest.mark.parametrize("figure", [TIME, MEMORY])
def test_an_image_holds_its_charts_apart(measured: Measured, figure: str) -> None:
    charts = growth_charts(growths(measured.to_json()), figure)
    svg = drawing(charts, description="What <grows>")
    boxes = panels(svg)
    assert len(boxes) == len(AXES)
    root = ElementTree.fromstring(svg)
    card = root.find(f"{SVG}rect")
    assert card is not None
    for place, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 0
        assert right <= float(card.attrib["width"])
        assert bottom <= float(card.attrib["height"])
        for a, b, c, d in boxes[:place]:
            assert min(right, c) <= max(left, a) or min(bottom, d) <= max(top, b)
    assert "var(" not in svg  # which an image shown by itself might not resolve
