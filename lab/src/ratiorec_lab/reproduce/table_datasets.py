"""Table 1: how large the data sets are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ratiorec_lab.reproduce import published
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.exhibits import NOT_RUN, Exhibit, Measured, Row, TableExhibit
from ratiorec_lab.reproduce.findings import ABSENT, Findings
from ratiorec_lab.reproduce.names import STAND_IN, dataset_name, listed
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.remarks import why_not_run

COLUMNS = ("users", "items", "interactions", "of them for training", "density", "density, paper")


@dataclass(frozen=True)
class TableDatasets:
    """Users, items and pairs of every data set."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Nothing is trained."""
        del plan
        yield from ()

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table."""
        yield TableExhibit(
            id="table-datasets",
            title="Statistics of the data sets",
            caption="Table 1 of the paper. Interactions are pairs of the training and the test "
            "part together; the density is their share of all possible pairs.",
            columns=COLUMNS,
            rows=tuple(_row(name, findings) for name in findings.plan.datasets),
            decimals=0,
            remarks=tuple(_remarks(findings)),
            is_ranking=False,
        )


def _row(name: str, findings: Findings) -> Row:
    found = findings.files.statistics(name)
    printed = published.STATISTICS.get(name)
    printed_density = "" if printed is None else f"{printed.density:.5f}"
    if found is None:
        nothing = [
            Measured((), None if printed is None else printed[place], ABSENT) for place in range(3)
        ]
        return Row(dataset_name(name), (*nothing, NOT_RUN, NOT_RUN, printed_density))
    counted = (found["users"], found["items"], _pairs(found))
    counts = [
        Measured((float(count),), None if printed is None else printed[place])
        for place, count in enumerate(counted)
    ]
    density = f"{_pairs(found) / (found['users'] * found['items']):.5f}"
    return Row(
        dataset_name(name),
        (*counts, Measured((float(found["train_pairs"]),)), density, printed_density),
    )


def _remarks(findings: Findings) -> Iterator[str]:
    for name in findings.plan.datasets:
        found, printed = findings.files.statistics(name), published.STATISTICS.get(name)
        if found is None:
            yield why_not_run(name, [], ABSENT)
        elif printed is not None:
            yield _compared(name, found, printed)
        elif name == STAND_IN:
            share = found["train_pairs"] / (printed_pairs() - found["test_pairs"])
            yield (
                f"{STAND_IN} is not the paper's Amazon-Book: it has {100 * share:.1f} % of its "
                "training pairs and the same test pairs. It stands in a column of its own, and "
                "no published figure is comparable with those on it."
            )


def printed_pairs() -> int:
    """The pairs of the paper's Amazon-Book."""
    return published.STATISTICS["amazon-book"].n_pairs


def _compared(name: str, found: dict[str, Any], printed: published.Counts) -> str:
    ours = {"users": found["users"], "items": found["items"], "interactions": _pairs(found)}
    theirs = dict(zip(ours, printed[:3], strict=True))
    others = [f"{ours[n]:,} {n} (paper: {theirs[n]:,})" for n in ours if ours[n] != theirs[n]]
    if others:
        return f"{dataset_name(name)} differs from the paper's: {listed(others)}."
    return f"{dataset_name(name)} has the users, items and interactions of the paper."


def _pairs(found: dict[str, Any]) -> int:
    return int(found["train_pairs"] + found["test_pairs"])
