from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lab_support.quick_bench import AT_ONCE
from ratiorec_lab.bench.ceilings import Ceilings, Floor, Gauge
from ratiorec_lab.bench.timing import Times, interleaved

from ratiorec.kernels.blocks import deterministic_threads

CPU = torch.device("cpu")
RATES = Ceilings({"float32": 10.0, "bfloat16": 20.0}, 5.0)
amounts = st.floats(0, 1e6)


def test_a_floor_takes_as_long_as_the_slower_of_its_operations_and_its_bytes() -> None:
    assert RATES.seconds(Floor.of(n_operations=100, n_bytes=10)) == 100 / 20
    assert RATES.seconds(Floor.of(n_operations=20, n_bytes=10)) == 10 / 5


def test_stages_wait_for_one_another() -> None:
    floor = Floor.of(n_operations=100).then(Floor.of(n_bytes=10))
    assert RATES.seconds(floor) == 100 / 20 + 10 / 5
    assert (floor.n_operations, floor.n_bytes) == (100, 10)


def test_an_empty_floor_takes_no_time() -> None:
    assert RATES.seconds(Floor()) == 0


@given(amounts, amounts, st.integers(1, 100))
def test_a_floor_repeated_takes_so_many_times_as_long(
    n_operations: float, n_bytes: float, n: int
) -> None:
    floor = Floor.of(n_operations=n_operations, n_bytes=n_bytes)
    assert RATES.seconds(floor.times(n)) == pytest.approx(n * RATES.seconds(floor))


def test_the_rates_are_amounts_by_times() -> None:
    gauge = Gauge(CPU, AT_ONCE)
    product, copy = gauge.ways()
    found = gauge.ceilings({product: Times((2.0,)), copy: Times((4.0,))})
    assert found.products == {"float32": 2 * 64**3 / 2}
    assert found.bytes_per_second == 2 * 2**12 / 4


def test_the_rates_are_found_in_the_rounds_of_the_cases() -> None:
    gauge = Gauge(CPU, AT_ONCE)
    times = interleaved(gauge.ways(), effort=AT_ONCE, tell=lambda *_: None, what="test")
    assert gauge.ceilings(times).operations_per_second > 0


def test_the_rates_are_found_in_the_pauses_of_a_long_run() -> None:
    gauge = Gauge(CPU, AT_ONCE)
    gauge()
    gauge()
    assert gauge.ceilings().bytes_per_second > 0


def test_the_rates_are_those_of_all_threads_also_where_the_cases_have_one() -> None:
    n_before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gauge = Gauge(CPU, AT_ONCE)
        with deterministic_threads():
            for way in gauge.ways().values():
                with way.around():
                    assert torch.get_num_threads() == 2
                assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(n_before)
