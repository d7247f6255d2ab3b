"""Tables and plot of docs/how-to/many-processes.md: ranks beside one process, kills, scaling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ratiorec_lab.studies.rank_scaling import STRONG, WEAK
from ratiorec_lab.tables import in_digits, in_seconds, markdown_table

IMAGE = "rank-scaling.svg"
_NOT_YET = "Not measured yet."
_FIGURES = {
    "seconds_per_step": "seconds of the fastest step",
    "share_talking": "share of a step spent on other ranks",
    "mb_sent_per_step": "MB sent in a step by each rank",
    "operations_per_step": "operations in a step of each rank",
}
Record = dict[str, Any]


def tables(folder: Path) -> dict[str, str]:
    """Each table by the name of its place on the page."""
    return {
        f"measured-{name}": table(record) if (record := _record(folder, file)) else _NOT_YET
        for name, file, table in (
            ("ranks", "bench-ranks-gowalla.json", ranks_table),
            ("kill-ranks", "bench-kill_ranks.json", kills_table),
            ("rank-scaling", "bench-rank_scaling.json", scaling_part),
        )
    }


def _record(folder: Path, file: str) -> Record | None:
    path = folder / file
    found: Record | None = json.loads(path.read_text()) if path.exists() else None
    return found


def _of_machine(record: Record) -> str:
    machine = record["machine"]
    return f"`{record['command']}`, {machine['cores']} cores ({machine['processor']})"


def ranks_table(record: Record) -> str:
    """Each way to train beside one process; figures of ranks are those of the rank with most."""
    result = record["result"]
    headers = [
        *("preset", "processes", "R@20", "nDCG@20", "equal batches", "MB of tables, optimiser"),
        *("peak MB", "operations a step", "MB sent a step", "seconds a step", "of it talking"),
    ]
    rows = [_way(run, is_first=run["way"] == "one process") for run in result["runs"]]
    taken = f"{result['steps']} steps on {result['dataset']}, seed {result['seed']}"
    about = (
        f"{taken}: {_of_machine(record)}. "
        f"Behind R@20 and nDCG@20 is the difference from one process ({result['tolerance']:g} is "
        "allowed); bytes, operations and memory are those of the rank that has most."
    )
    missing = [f"Not run: {what} ({why})." for what, why in result["not_run"].items()]
    return "\n\n".join([markdown_table(headers, rows), " ".join([about, *missing])])


def _way(run: Record, *, is_first: bool) -> list[str]:
    each, batches = run["each_rank"], run["batches"]

    def most(*names: str) -> float:
        return max(sum(float(rank[name]) for name in names) for rank in each)

    lists = [
        f"{run['test'][name]:.4f}".removeprefix("0")
        + ("" if is_first else f" ({run['difference'][name]:+.6f})")
        for name in ("recall@20", "ndcg@20")
    ]
    equal = (
        f"{batches['equal']} of {batches['compared']}" if batches["compared"] else "not compared"
    )
    return [
        f"`{run['preset']}`",
        run["way"],
        *lists,
        "" if is_first else equal,
        f"{most('tables_mb'):.2f} + {most('optimizer_mb'):.2f}",
        f"{most('peak_mb'):,.0f}",
        f"{most('operations_per_step'):.3g}",
        f"{most('mb_sent_per_step'):.2f}",
        in_digits(run["seconds_per_step"]),
        "" if is_first else f"{run['share_talking']:.0%}",
    ]


def kills_table(record: Record) -> str:
    """What came of lost processes, and of a checkpoint that other numbers of them went on from."""
    result = record["result"]
    rows = [
        [
            f"`{way}`, {result['processes']} processes",
            f"{one['kills']} killed in {one['rounds']} trainings",
            f"{one['largest_difference']:.1e} ({one['equal_to_the_bit']} of {one['rounds']} equal "
            "to the bit)",
            f"{one['largest_difference_of_recall']:.6f}",
            f"{len(one['half_written'])} of {one['checkpoints_loaded']:,}",
            str(len(one["left_over"])),
        ]
        for way, one in result["killed"].items()
    ]
    rows += [
        [
            f"{result['processes']} processes stopped, {n} go on",
            f"stopped after epoch {one['epochs_before']:g}",
            f"{one['largest_difference']:.1e}",
            f"{one['difference_of_recall']:.6f}",
            *("", ""),
        ]
        for n, one in result["continued_by"].items()
    ]
    headers = [
        *("training", "what happened", "largest difference of a number from the undisturbed model"),
        *("of R@20", "checkpoints not whole, of those loaded meanwhile", "files left over"),
    ]
    return f"{markdown_table(headers, rows)}\n\n{_of_machine(record)}."


def scaling_part(record: Record) -> str:
    """A line for each size and number of ranks, and the plot."""
    rows = [
        [
            run["scaling"],
            f"{run['size']['pairs']:,}",
            str(run["ranks"]),
            in_seconds(run["seconds_per_step"]),
            f"{run['share_talking']:.0%}",
            in_digits(run["mb_sent_per_step"]),
            f"{run['operations_per_step']:.3g}",
            in_digits(run["tables_and_optimizer_mb"]),
        ]
        for run in sorted(record["result"]["runs"], key=_by_size)
    ]
    headers = [
        *("scaling", "pairs", "ranks", "fastest step", "of it talking", "MB sent a step"),
        *("operations a step", "MB of tables and optimiser"),
    ]
    image = f"![A step by one, two and four ranks, for more and more pairs](../{IMAGE})"
    return "\n\n".join([markdown_table(headers, rows), f"{_of_machine(record)}.", image])


def _by_size(run: Record) -> tuple[str, int, int]:
    """Runs on as much for each, or as much in all, one after another."""
    return run["scaling"], run["size"]["items"], run["ranks"]


def images(folder: Path) -> dict[str, str]:
    """The plot, by file name."""
    from ratiorec_lab.bench.growth_chart import drawing
    from ratiorec_lab.report.charts import Series, line_chart

    record = _record(folder, "bench-rank_scaling.json")
    if record is None:
        return {}
    runs = record["result"]["runs"]

    def lines(kind: str, figure: str) -> list[Series]:
        of_kind = [run for run in runs if run["scaling"] == kind]
        counts = sorted({run["ranks"] for run in of_kind})
        return [
            Series(
                f"{count} rank{'s' if count > 1 else ''}",
                [run["size"]["pairs"] for run in of_kind if run["ranks"] == count],
                [run[figure] for run in of_kind if run["ranks"] == count],
            )
            for count in counts
        ]

    charts = [
        line_chart(
            lines(kind, figure),
            title=f"{kind.capitalize()} scaling",
            x_label="pairs of all ranks together",
            y_label=label,
            log_x=True,
            log_y=figure != "share_talking",
        )
        for figure, label in _FIGURES.items()
        for kind in (STRONG, WEAK)
    ]
    told = "Time, communication and work of a step by one, two and four ranks"
    return {IMAGE: drawing(charts, description=told)}
