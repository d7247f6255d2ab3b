from __future__ import annotations

from dataclasses import replace

import pytest

from ratiorec_lab.bench.case import Case, Measured
from ratiorec_lab.bench.clock import Ceilings, Floor, Times

OURS = Case("product", "ours", "cpu", {"items": 3}, Times((1.0, 2.0, 6.0)))
REFERENCE = replace(OURS, backend="plain", times=Times((8.0,)), is_reference=True)
SLOW = replace(OURS, backend="slow", times=Times((10.0,)), is_rival=True)
FAST = replace(OURS, backend="fast", times=Times((4.0,)), is_rival=True)
CEILINGS = {"cpu": Ceilings({"float32": 100.0}, 1.0), "cuda": Ceilings({"float32": 1000.0}, 1.0)}


def measured(*cases: Case) -> Measured:
    return Measured("test", cases, CEILINGS)


def test_the_ratios_are_to_the_reference_and_to_the_fastest_rival() -> None:
    found = measured(OURS, REFERENCE, SLOW, FAST)
    assert found.ratio_to_reference(OURS) == 2 / 8
    assert found.ratio_to_rival(OURS) == 2 / 4
    assert found.ratio_to_rival(SLOW) == 10 / 4


def test_only_what_does_the_same_is_compared() -> None:
    found = measured(OURS, replace(REFERENCE, name="sum"), replace(FAST, name="sum"))
    assert found.ratio_to_reference(OURS) is None
    assert found.ratio_to_rival(OURS) is None


def test_a_floor_is_at_the_rates_of_the_device_of_the_case() -> None:
    on_cpu = replace(OURS, floor=Floor.of(n_operations=50))
    on_gpu = replace(on_cpu, device="cuda")
    found = measured(on_cpu, on_gpu)
    assert found.floor_seconds(on_cpu) == 50 / 100
    assert found.floor_seconds(on_gpu) == 50 / 1000
    assert found.ratio_to_floor(on_cpu) == 2 / (50 / 100)


def test_what_has_no_floor_has_no_ratio_to_it() -> None:
    assert measured(OURS).floor_seconds(OURS) is None
    assert measured(OURS).ratio_to_floor(OURS) is None
    empty = replace(OURS, floor=Floor())
    assert measured(empty).ratio_to_floor(empty) is None


def test_work_of_the_cores_is_told_where_it_was_counted_on_a_cpu() -> None:
    times = Times((9.0, 9.0, 9.0), (1.0, 2.0, 6.0))
    (found,) = Measured("test", [replace(OURS, times=times)], CEILINGS).to_json()
    assert (found["processor_seconds"], found["processor_spread"]) == (2, [1.5, 4])
    on_gpu = replace(OURS, times=times, device="cuda")
    assert "processor_seconds" not in Measured("test", [on_gpu], CEILINGS).to_json()[0]


def test_a_case_in_plain_types() -> None:
    case = replace(
        OURS, floor=Floor.of(n_operations=50, n_bytes=4), peak_extra_mb=12.3456, figures={"x": 1}
    )
    (found,) = Measured("test", [case], CEILINGS).to_json()
    assert found == {
        "target": "test",
        "name": "product",
        "execution": "ours",
        "device": "cpu",
        "size": {"items": 3},
        "seconds": 2,
        "spread": [1.5, 4],
        "rounds": 3,
        "operations": 50,
        "bytes": 4,
        "floor_seconds": 4,
        "peak_extra_mb": pytest.approx(12.35),
        "ratio_to_floor": 0.5,
        "ratio_to_reference": None,
        "ratio_to_rival": None,
        "rival": False,
        "x": 1,
    }
