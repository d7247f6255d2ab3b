"""Targets by name, and the report on them, built from files alone: same files, same report."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from ratiorec.errors import ConfigError, unknown_choice
from ratiorec.files import atomic_write, make_folder, write_json
from ratiorec_lab.reproduce.cells import PAPER, PROTOCOLS, VALIDATED, VALIDATED_LAST, Cell
from ratiorec_lab.reproduce.claims import verdicts
from ratiorec_lab.reproduce.efficiency import FigEfficiency
from ratiorec_lab.reproduce.exhibits import Exhibit, Measured, TableExhibit, by_side
from ratiorec_lab.reproduce.figures import FigDns, FigStaticAdaptive
from ratiorec_lab.reproduce.markdown import write_markdown
from ratiorec_lab.reproduce.more_runs import MoreRuns
from ratiorec_lab.reproduce.page import write_page
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import dataset_name
from ratiorec_lab.reproduce.records import Record, machine_of
from ratiorec_lab.reproduce.tables import TableAblation, TableDatasets, TableEffectiveness
from ratiorec_lab.reproduce.tuning import FigSensitivity, Search
from ratiorec_lab.reproduce.verdict import Verdict

ALL = "all"


class PaperTarget(Protocol):
    """A table or a figure: the runs that it needs, and what it makes of them."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """The runs, some of which other targets need too."""

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """The tables and figures of a report, from files alone."""


TARGETS: Mapping[str, PaperTarget] = MappingProxyType(
    {
        "table-datasets": TableDatasets(),
        "table-effectiveness": TableEffectiveness(),
        "fig-efficiency": FigEfficiency(),
        "table-ablation": TableAblation(),
        "fig-static-adaptive": FigStaticAdaptive(),
        "fig-dns": FigDns(),
        "fig-sensitivity": FigSensitivity(),
        "search": Search(),
        "more-runs": MoreRuns(),
    }
)


def named(target: str) -> list[PaperTarget]:
    """The targets that a name stands for."""
    if target == ALL:
        return list(TARGETS.values())
    if target not in TARGETS:
        raise unknown_choice("unknown target", target, [*TARGETS, ALL], where="TARGET")
    return [TARGETS[target]]


def cells_of(
    targets: Sequence[PaperTarget], plan: Plan, *, only: Sequence[str] | None = None
) -> list[Cell]:
    """Every cell of the targets once; with `only` those whose names match one of its patterns.

    Points of the whole grid may be named although a selection of it is planned.
    """
    planned = _cells(targets, plan)
    if only is None:
        return planned
    everything = [*planned, *_cells(targets, replace(plan, whole_grid=True))]
    chosen: list[Cell] = []
    for pattern in only:
        found = [cell for cell in planned if fnmatch.fnmatchcase(cell.name, pattern)]
        found = found or [cell for cell in everything if cell.name == pattern]
        if not found:
            raise _unknown_cell(pattern, list(dict.fromkeys(cell.name for cell in planned)))
        chosen += found
    return list(dict.fromkeys(chosen))


def _cells(targets: Sequence[PaperTarget], plan: Plan) -> list[Cell]:
    return list(dict.fromkeys(cell for target in targets for cell in target.cells(plan)))


def _unknown_cell(pattern: str, names: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(pattern, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return ConfigError(
        "no cell has such a name",
        where="--only",
        found=repr(pattern),
        wanted=f"names or patterns of {shown or 'cells, of which this target has none'}{hint}",
    )


_PROTOCOLS = {
    VALIDATED: "validated: the stopping step is chosen on a random tenth of each user's training "
    "pairs, then a fresh model is trained on all of them; nothing is chosen on test pairs",
    VALIDATED_LAST: "validated-last: the same with the last tenth of each user's training pairs",
    PAPER: "paper: the paper's batches and number of steps; nothing is chosen",
}
_QUICK = "a quick run on a few synthetic pairs, which shows only that everything works"


@dataclass(frozen=True)
class ReproductionReport:
    """Facts, tables and figures of a reproduction; `chosen` are settings as TOML by data set."""

    title: str
    facts: Mapping[str, str]
    exhibits: tuple[Exhibit, ...]
    chosen: Mapping[str, str]
    verdicts: tuple[Verdict, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same in plain types."""
        return {
            "title": self.title,
            "verdicts": [_verdict_json(verdict) for verdict in self.verdicts],
            "facts": dict(self.facts),
            "exhibits": [exhibit_json(exhibit) for exhibit in self.exhibits],
            "chosen": dict(self.chosen),
        }


def build(target: str, targets: Sequence[PaperTarget], findings: Findings) -> ReproductionReport:
    """The report on what the finished cells tell of these targets."""
    plan = findings.plan
    chosen = {
        dataset: toml
        for search in targets
        if isinstance(search, Search)
        for dataset in plan.datasets
        if (toml := search.chosen(findings, dataset)) is not None
    }
    exhibits = tuple(exhibit for one in targets for exhibit in one.exhibits(findings))
    return ReproductionReport(
        title=_title(target, plan),
        facts=_facts(target, targets, findings),
        exhibits=exhibits,
        chosen=chosen,
        verdicts=verdicts(findings, [exhibit.id for exhibit in exhibits]),
    )


def write(report: ReproductionReport, folder: Path, *, protocol: str) -> dict[str, Path]:
    """Write the page, its Markdown and JSON, and the chosen settings; where they are.

    They are `report.html` and so on, `report-paper.html` under the protocol `paper`.
    """
    make_folder(folder)
    name = _file_stem(protocol)
    paths = {"html": folder / f"{name}.html", "markdown": folder / f"{name}.md"}
    told: dict[str, Any] = {
        "title": report.title,
        "facts": report.facts,
        "verdicts": report.verdicts,
    }
    for write_one, kind, ending in (
        (write_page, "html", "html"),
        (write_markdown, "markdown", "md"),
    ):
        links, other = _links(folder, protocol, ending), _of_the_paper(folder, protocol, ending)
        write_one(paths[kind], report.exhibits, **told, links=links, other=other)
    paths["json"] = folder / f"{name}.json"
    write_json(paths["json"], report.to_json())
    for dataset, toml in report.chosen.items():
        path = folder / "chosen" / f"{protocol}-{dataset}.toml"
        make_folder(path.parent)
        with atomic_write(path) as handle:
            handle.write(toml.encode())
        paths[f"chosen {dataset}"] = path
    return paths


def _file_stem(protocol: str) -> str:
    return "report" if protocol == VALIDATED else f"report-{protocol}"


def _links(folder: Path, protocol: str, ending: str) -> dict[str, str]:
    """The other protocols' reports and the page on how to read all, where they are there."""
    others = (other for other in PROTOCOLS if other != protocol)
    found = {
        f"{_file_stem(other)}.{ending}": f"The same under the protocol {other}" for other in others
    } | {"../../docs/reproduce.md": "What was run, and how to read this"}
    return {to: text for to, text in found.items() if (folder / to).exists()}


def _of_the_paper(folder: Path, protocol: str, ending: str) -> str | None:
    """The report of the protocol `paper`, where there is one; empty for itself."""
    name = f"{_file_stem(PAPER)}.{ending}"
    return "" if protocol == PAPER else name if (folder / name).exists() else None


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    return {
        **{name: getattr(claim, name) for name in ("id", "sentence", "where", "exhibit")},
        "is_papers": claim.is_papers,
        "status": verdict.status,
        "checks": [check._asdict() for check in verdict.checks],
    }


def exhibit_json(exhibit: Exhibit) -> dict[str, Any]:
    """An exhibit in plain types; a measured figure also has its mean, interval and difference."""
    found = asdict(exhibit)
    found["remarks"] = [str(remark) for remark in exhibit.remarks]
    found["sides"] = by_side(exhibit.remarks)
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


def _facts(target: str, targets: Sequence[PaperTarget], findings: Findings) -> dict[str, str]:
    plan = findings.plan
    cells = cells_of(targets, plan)
    records = findings.tested_records(cells)
    n_own = len(findings.records(cells))
    facts = {"what this is": _QUICK} if plan.is_quick else {}
    facts |= {
        "protocol": _PROTOCOLS[plan.protocol],
        "seeds": ", ".join(map(str, plan.seeds)),
        "data sets": "; ".join(_datasets(findings)),
        "runs": f"{n_own} of {len(cells)} finished",
    }
    if n_own < len(records):
        facts["runs"] += f", {len(records) - n_own} more taken from results/presets"
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
        known = "not on the machine" if found is None else f"sha256 {found['data_sha256'][:12]}…"
        yield f"{dataset_name(name)} ({known})"


def _versions(record: Record) -> str:
    return ", ".join(f"{name} {version}" for name, version in record["versions"].items())


def _each(values: Iterable[str]) -> str:
    """Every value once, in an order that does not depend on the cells'."""
    return "; ".join(sorted(set(values)))


def _command(target: str, plan: Plan) -> str:
    words = ["ratiorec", "reproduce", target, "--protocol", plan.protocol]
    words += ["--seeds", ",".join(map(str, plan.seeds))]
    words += ["--quick"] if plan.is_quick else ["--datasets", ",".join(plan.datasets)]
    return " ".join(words + (["--whole-grid"] if plan.whole_grid else []))
