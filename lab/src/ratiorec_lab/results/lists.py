"""What rules and filters do to lists: variety against accuracy, and the time of a filter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ratiorec_lab.tables import markdown_table

IMAGE = "diversity.svg"
_FIGURES = {
    "ndcg@20": "nDCG@20",
    "recall@20": "R@20",
    "diversity@20": "diversity by users",
    "vector_diversity@20": "diversity by vectors",
}


def tables(folder: Path) -> dict[str, str]:
    """The tables of docs/how-to/filters-and-rules.md."""
    return {"diversity": diversity_table(folder), "latency": latency_table(folder)}


def _records(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"bench-{name}*.json"))]


def diversity_table(folder: Path) -> str:
    """Figures by strength, and how much of the accuracy is left."""
    parts = []
    for record in _records(folder, "diversity"):
        result = record["result"]
        plain = result["curve"][0]["ndcg@20"]["value"]
        rows = []
        for point in result["curve"]:
            told = [_told(point.get(name)) for name in _FIGURES]
            rows.append(
                [f"{point['strength']:g}", *told, f"{point['ndcg@20']['value'] / plain:.1%}"]
            )
        header = ["diversity", *_FIGURES.values(), "nDCG@20 that is left"]
        users = result["curve"][0]["users"]
        about = (
            f"**{result['dataset']}**, `{result['preset']}`, {result['steps']:,} steps, seed "
            f"{result['seed']}, {users:,} users, {result['test']}:"
        )
        parts += [about, markdown_table(header, rows), f"`{record['command']}`"]
    if not parts:
        return "Not measured yet."
    return "\n\n".join([*parts, f"![nDCG@20 against the diversity of lists]({_UP}{IMAGE})"])


def latency_table(folder: Path) -> str:
    """Latency with and without filters and rules, by the kind of model."""
    parts = []
    for record in _records(folder, "filter_latency"):
        result = record["result"]
        columns = {
            f"{kind}, {_connections(n)}": found
            for kind, by_connections in result["latency"].items()
            for n, found in by_connections.items()
        }
        first = next(iter(columns.values()))
        plain = next(iter(first))
        rows = [
            [case, *(_milliseconds(found[case], found[plain]) for found in columns.values())]
            for case in first
        ]
        table = markdown_table(["request", *columns], rows)
        n_rounds = len(first[plain]["p99_ms_of"])
        parts += [table, _circumstances(record, n_rounds), f"`{record['command']}`"]
    return "\n\n".join(parts) or "Not measured yet."


def _circumstances(record: dict[str, Any], n_rounds: int) -> str:
    result, machine = record["result"], record["machine"]
    catalogue, models = result["catalogue"], result["models"]
    return (
        f"{catalogue['items']:,} items, k = {catalogue['k']}; vectors of {models['dimension']} "
        f"numbers, or {models['neighbours']} neighbours of each item. Server, client and other "
        f"work on {machine['cores']} cores ({machine['processor']}), load average "
        f"{result['load_average'][0]:g}: a cell is the round with the smallest p99 of {n_rounds}; "
        "× is p99 over p99 without a filter."
    )


def _connections(n: str) -> str:
    return "1 connection" if n == "1" else f"{n} connections"


def _milliseconds(found: dict[str, float], plain: dict[str, float]) -> str:
    ratio = f", **{found['p99_ms'] / plain['p99_ms']:.2f} ×**" if found is not plain else ""
    return f"p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms{ratio}"


_UP = "../"  # the page lies one folder below the images


def _told(figure: dict[str, float] | None) -> str:
    if figure is None:
        return "none: no vectors"
    return f"{figure['value']:.4f} ({figure['low']:.4f} to {figure['high']:.4f})"


def images(folder: Path) -> dict[str, str]:
    """The plot, by file name."""
    from ratiorec_lab.bench.growth_chart import drawing
    from ratiorec_lab.report.charts import Series, line_chart

    charts = []
    for record in _records(folder, "diversity"):
        result = record["result"]
        for name in ("diversity@20", "vector_diversity@20"):
            points = [point for point in result["curve"] if name in point]
            if not points:
                continue
            line = Series(
                "strength " + ", ".join(f"{point['strength']:g}" for point in points),
                [point[name]["value"] for point in points],
                [point["ndcg@20"]["value"] for point in points],
            )
            charts.append(
                line_chart(
                    [line],
                    title=result["dataset"],
                    x_label=_FIGURES[name],
                    y_label="nDCG@20",
                )
            )
    if not charts:
        return {}
    told = "nDCG@20 against the diversity of lists, by the strength of the rule"
    return {IMAGE: drawing(charts, description=told)}
