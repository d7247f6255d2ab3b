from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_support.quick_bench import AT_ONCE
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec_lab.bench.clock import (
    QUICK,
    Ceilings,
    Floor,
    Gauge,
    Times,
    Way,
    interleaved,
    once,
    timed,
)

ROUNDS = replace(QUICK, repeats=3)
positive = st.floats(1e-6, 1e3)


def noting(calls: list[str], name: str) -> Way:
    return Way(once(lambda: calls.append(name)))


def run(ways: dict[str, Way]) -> dict[str, Times]:
    return interleaved(ways, effort=ROUNDS, tell=lambda *_: None, what="test")


def test_all_cases_take_turns_in_every_round_and_every_other_round_goes_backwards() -> None:
    calls: list[str] = []
    run({name: noting(calls, name) for name in "abc"})
    warming, first, second, third = (calls[start : start + 3] for start in (0, 3, 6, 9))
    assert (warming, first, second, third) == (
        ["a", "b", "c"],
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    )
    assert len(calls) == 3 * (ROUNDS.repeats + 1)


def test_the_call_that_warms_up_is_not_among_the_times() -> None:
    assert len(run({"a": noting([], "a")})["a"].rounds) == ROUNDS.repeats


def test_short_work_is_repeated_until_a_round_is_long_enough() -> None:
    calls: list[str] = []

    def work() -> None:
        time.sleep(0.001)
        calls.append("a")

    effort = replace(ROUNDS, repeats=1, seconds_per_round=0.01)
    interleaved({"a": Way(once(work))}, effort=effort, tell=lambda *_: None, what="test")
    assert 3 <= len(calls) <= 12  # two to find out, and no more than ten times a millisecond


def test_a_time_is_that_of_one_unit_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 16.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    assert timed(Way(lambda: 4), 3) == (16 - 10) / (3 * 4)


def test_waiting_is_no_work_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"wall": 0.0, "processor": 0.0}
    monkeypatch.setattr(time, "perf_counter", lambda: seconds["wall"])
    monkeypatch.setattr(time, "process_time", lambda: seconds["processor"])

    def work() -> int:
        seconds["wall"] += 10
        seconds["processor"] += 4
        return 2

    found = interleaved({"a": Way(work)}, effort=ROUNDS, tell=lambda *_: None, what="test")["a"]
    assert found == Times((5.0,) * ROUNDS.repeats, (2.0,) * ROUNDS.repeats)


def test_entering_the_context_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])

    def pass_time(amount: float) -> None:
        seconds[0] += amount

    @contextmanager
    def around() -> Iterator[None]:
        pass_time(100)
        yield
        pass_time(100)

    assert timed(Way(once(lambda: pass_time(2)), around)) == 2


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[tuple[float, float]] = []
    interleaved(
        {"a": noting([], "a"), "b": noting([], "b")},
        effort=ROUNDS,
        tell=lambda what, done, total: told.append((done, total)),
        what="test",
    )
    n_all = 2 * (ROUNDS.repeats + 1)
    assert told == [(done, n_all) for done in range(n_all + 1)]


def test_the_spread_is_the_middle_half() -> None:
    times = Times((5.0, 1.0, 3.0, 2.0, 4.0))
    assert (times.low, times.median, times.high) == (2, 3, 4)


def test_a_single_round_has_no_spread() -> None:
    times = Times((2.0,))
    assert (times.low, times.median, times.high) == (2, 2, 2)


@given(st.lists(positive, min_size=1))
def test_the_median_lies_inside_the_spread_and_that_inside_all_times(rounds: list[float]) -> None:
    times = Times(tuple(rounds))
    ordered = [min(rounds), times.low, times.median, times.high, max(rounds)]
    assert ordered == pytest.approx(sorted(ordered))


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
