"""Ways of doing the same: their times, their memory and the ceilings, from one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ratiorec_lab.bench import memory
from ratiorec_lab.bench.case import Size
from ratiorec_lab.bench.ceilings import Ceilings, Gauge
from ratiorec_lab.bench.conditions import Conditions
from ratiorec_lab.bench.timing import Times, Way, interleaved


class Outcome(NamedTuple):
    """Times and extra memory by execution, ceilings by device."""

    times: Mapping[str, Times]
    peaks: Mapping[str, float | None]
    ceilings: Mapping[str, Ceilings]


def side_by_side(
    target: str,
    ways: Mapping[str, Way],
    size: Size,
    conditions: Conditions,
    *,
    also: Mapping[str, Way] | None = None,
) -> Outcome:
    """Time all ways in turns with a large product and a large copy, then find their memory.

    What is in `also` takes its turn with them, and nothing is asked of its memory.
    """
    effort, tell = conditions.effort, conditions.tell
    gauges = {way.device.type: Gauge(way.device, effort) for way in ways.values()}
    rates = {name: way for gauge in gauges.values() for name, way in gauge.ways().items()}
    times = interleaved({**ways, **(also or {}), **rates}, effort=effort, tell=tell, what=target)
    ceilings = {device: gauge.ceilings(times) for device, gauge in gauges.items()}
    del gauges, rates  # their memory is no case's
    return Outcome(times, _peaks(target, ways, size, conditions), ceilings)


def _peaks(
    target: str, ways: Mapping[str, Way], size: Size, conditions: Conditions
) -> Mapping[str, float | None]:
    on_card = {name: memory.on_card(way) for name, way in ways.items() if way.device.type == "cuda"}
    others = [name for name in ways if name not in on_card]
    conditions.tell(f"{target}: memory", 0, 0)
    if conditions.effort.is_quick:
        return on_card | memory.in_one_process(target, others, size)
    return on_card | memory.in_own_processes(target, others, size)
