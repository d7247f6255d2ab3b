"""The soak of a server in docs/production.md: its table, and its plot over time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ratiorec_lab.loopback import PLAIN, WITH_LONG
from ratiorec_lab.studies.soak import growth
from ratiorec_lab.tables import markdown_table

IMAGE = "soak.svg"


def _record(folder: Path) -> dict[str, Any] | None:
    path = folder / "bench-soak.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found


def soak_part(folder: Path) -> str:
    """What came of all kinds of requests, with the long ones and without, and the plot."""
    record = _record(folder)
    if record is None:
        return "Not measured yet."
    result, machine = record["result"], record["machine"]
    holds, updates, memory = result["must_hold"], result["updates"], result["memory"]
    kinds = list(dict.fromkeys(kind for phase in result["requests"].values() for kind in phase))
    rows = [
        [kind, *(_told(result["requests"][phase].get(kind)) for phase in (PLAIN, WITH_LONG))]
        for kind in kinds
    ]
    (lowest, highest), (_, most) = (memory["settled_mb"][phase] for phase in (PLAIN, WITH_LONG))
    about = (
        f"{result['minutes']:.0f} minutes on {machine['cores']} cores ({machine['processor']}), "
        f"{result['model']['source']}: {updates['done']} updates, {updates['versions_seen']} "
        f"models seen by clients, **{holds['failed_requests']} valid requests failed**, p99 of the "
        f"short ones **{holds['p99_ratio']:g} times** as long beside long ones. Memory grew by "
        f"**{growth(result['timeline']):+.1f} %** between the first and the last third (medians "
        f"without long requests; readings from {lowest:,.0f} to {highest:,.0f} MB, the highest "
        f"beside an update that had not ended). It reached {most:,.0f} MB with long requests and "
        f"{memory['most_while_swapping_mb']:,.0f} MB with two models."
    )
    image = f"![Latency of short requests and memory of the server over time]({IMAGE})"
    return "\n\n".join([markdown_table(["kind of request", PLAIN, WITH_LONG], rows), about, image])


def _told(found: dict[str, Any] | None) -> str:
    if found is None:
        return "none asked"
    failed, refused = sum(found["failed"].values()), found["refused"]
    parts = [f"{found['answered']:,} answered"]
    if found["answered"]:
        parts.append(f"p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms")
    parts += [f"{n:,} refused with {status}" for status, n in refused.items()]
    return "; ".join([*parts, f"{failed} failed"])


def images(folder: Path) -> dict[str, str]:
    """The plot, by file name."""
    from ratiorec_lab.bench.growth_chart import drawing
    from ratiorec_lab.report.charts import Series, line_chart

    record = _record(folder)
    if record is None:
        return {}
    timeline = record["result"]["timeline"]

    def series(name: str, figure: str, phase: str, colour: int, *, dashed: bool) -> Series:
        spans = [row for row in timeline if phase in ("", row["phase"]) and figure in row]
        minutes = [row["minute"] for row in spans]
        return Series(name, minutes, [row[figure] for row in spans], colour, is_dashed=dashed)

    latency = line_chart(
        [
            series(f"p{p}, {phase}", f"p{p}_ms", phase, colour, dashed=p == 50)
            for p in (99, 50)
            for colour, phase in enumerate((PLAIN, WITH_LONG))
        ],
        title="Short requests, from swap to swap",
        x_label="minutes",
        y_label="milliseconds",
        log_y=True,
    )
    memory = line_chart(
        [
            series("most, while two models are held", "most_resident_mb", "", 1, dashed=True),
            series("before the next update", "resident_mb", "", 0, dashed=False),
        ],
        title="Memory of the server, from swap to swap",
        x_label="minutes",
        y_label="MB",
    )
    told = "Latency of short requests and memory of a server over time"
    return {IMAGE: drawing([latency, memory], description=told)}
