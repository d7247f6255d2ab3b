"""The report of a reproduction, built from files alone: the same files, the same report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ratiorec.files import atomic_write, make_folder, write_json
from ratiorec_lab.reproduce.cell_files import Record
from ratiorec_lab.reproduce.curves import machine_of
from ratiorec_lab.reproduce.exhibits import Exhibit, Measured, TableExhibit
from ratiorec_lab.reproduce.findings import Findings
from ratiorec_lab.reproduce.markdown import write_markdown
from ratiorec_lab.reproduce.names import dataset_name
from ratiorec_lab.reproduce.page import write_page
from ratiorec_lab.reproduce.plan import Plan
from ratiorec_lab.reproduce.protocols import PAPER, VALIDATED
from ratiorec_lab.reproduce.search import Search
from ratiorec_lab.reproduce.targets import ALL, Target, cells_of

_PROTOCOLS = {
    VALIDATED: "validated: the stopping step is chosen on a tenth of each user's training pairs, "
    "then a fresh model is trained on all of them; nothing is chosen on test pairs",
    PAPER: "paper: the paper's batches and number of steps; nothing is chosen",
}
_QUICK = "a quick run on a few synthetic pairs, which shows only that everything works"


@dataclass(frozen=True)
class Report:
    """Everything that is told; `chosen` are settings as TOML by data set."""

    title: str
    facts: Mapping[str, str]
    exhibits: tuple[Exhibit, ...]
    chosen: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        return {
            "title": self.title,
            "facts": dict(self.facts),
            "exhibits": [exhibit_json(exhibit) for exhibit in self.exhibits],
            "chosen": dict(self.chosen),
        }


def build(target: str, targets: Sequence[Target], findings: Findings) -> Report:
    """What the finished cells tell of these targets."""
    plan = findings.plan
    chosen = {
        dataset: toml
        for search in targets
        if isinstance(search, Search)
        for dataset in plan.datasets
        if (toml := search.chosen(findings, dataset)) is not None
    }
    return Report(
        title=_title(target, plan),
        facts=_facts(target, targets, findings),
        exhibits=tuple(exhibit for one in targets for exhibit in one.exhibits(findings)),
        chosen=chosen,
    )


def write(report: Report, folder: Path, *, protocol: str) -> dict[str, Path]:
    """Write the page, its Markdown and JSON, and the chosen settings; where they are.

    They are `report.html` and so on, `report-paper.html` under the protocol `paper`.
    """
    make_folder(folder)
    name = "report" if protocol == VALIDATED else f"report-{protocol}"
    paths = {"html": folder / f"{name}.html", "markdown": folder / f"{name}.md"}
    write_page(paths["html"], report.exhibits, title=report.title, facts=report.facts)
    write_markdown(paths["markdown"], report.exhibits, title=report.title, facts=report.facts)
    paths["json"] = folder / f"{name}.json"
    write_json(paths["json"], report.to_json())
    for dataset, toml in report.chosen.items():
        path = folder / "chosen" / f"{protocol}-{dataset}.toml"
        make_folder(path.parent)
        with atomic_write(path) as handle:
            handle.write(toml.encode())
        paths[f"chosen {dataset}"] = path
    return paths


def exhibit_json(exhibit: Exhibit) -> dict[str, Any]:
    """An exhibit in plain types; a measured figure also has its mean, interval and difference."""
    found = asdict(exhibit)
    if isinstance(exhibit, TableExhibit):
        found["rows"] = [
            {"name": row.name, "entries": [_entry_json(entry) for entry in row.entries]}
            for row in exhibit.rows
        ]
    return {"kind": type(exhibit).__name__.removesuffix("Exhibit").lower(), **found}


def _entry_json(entry: Measured | str) -> Any:
    if isinstance(entry, str):
        return entry
    return {
        **asdict(entry),
        "mean": entry.mean,
        "interval": entry.interval,
        "relative_difference": entry.relative_difference,
    }


def _title(target: str, plan: Plan) -> str:
    what = "the paper's tables and figures" if target == ALL else target
    if plan.is_quick:
        return f"Quick run, not a result (protocol {plan.protocol}): {what}"
    return f"Reproduction, protocol {plan.protocol}: {what}"


def _facts(target: str, targets: Sequence[Target], findings: Findings) -> dict[str, str]:
    plan = findings.plan
    cells = cells_of(targets, plan)
    records = findings.records(cells)
    facts = {"what this is": _QUICK} if plan.is_quick else {}
    facts |= {
        "protocol": _PROTOCOLS[plan.protocol],
        "seeds": ", ".join(map(str, plan.seeds)),
        "data sets": "; ".join(_datasets(findings)),
        "runs": f"{len(records)} of {len(cells)} finished",
    }
    if records:
        facts |= {
            "machine": _each(machine_of(record) for record in records),
            "versions": _each(_versions(record) for record in records),
            "commit": _each(str(record["commit"] or "not known") for record in records),
        }
    return facts | {"command": _command(target, plan)}


def _datasets(findings: Findings) -> Iterator[str]:
    for name in findings.plan.datasets:
        found = findings.files.statistics(name)
        fingerprint = (
            "not on the machine" if found is None else f"sha256 {found['data_sha256'][:12]}…"
        )
        yield f"{dataset_name(name)} ({fingerprint})"


def _versions(record: Record) -> str:
    return ", ".join(f"{name} {version}" for name, version in record["versions"].items())


def _each(values: Iterator[str]) -> str:
    """Every value once, in an order that does not depend on the cells'."""
    return "; ".join(sorted(set(values)))


def _command(target: str, plan: Plan) -> str:
    words = ["ratiorec", "reproduce", target, "--protocol", plan.protocol]
    words += ["--seeds", ",".join(map(str, plan.seeds))]
    words += ["--quick"] if plan.is_quick else ["--datasets", ",".join(plan.datasets)]
    return " ".join(words + (["--whole-grid"] if plan.whole_grid else []))
