"""Tables of the page on the reproduction that no report has: judges, other data, clamped users."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ratiorec.presets import PRESETS
from ratiorec_lab.reproduce.cells import VALIDATED
from ratiorec_lab.reproduce.efficiency import (
    METHOD,
    TIMED,
    MethodEffort,
    effort_of,
    timed_seconds,
)
from ratiorec_lab.reproduce.exhibits import Measured, TableExhibit
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import (
    BPR_MF,
    METRICS,
    SELECTED_BY,
    dataset_name,
    method_name,
)
from ratiorec_lab.reproduce.records import TIMINGS, CellFiles, Timing, validations, was_cut
from ratiorec_lab.reproduce.tables import TableEffectiveness
from ratiorec_lab.reproduce.wording import figure, listed
from ratiorec_lab.tables import in_seconds, markdown_table

Record = dict[str, Any]
DATASETS = ("gowalla", "yelp2018", "amazon-cds", "amazon-book-75")


def tables(results: Path) -> dict[str, str]:
    """The tables by their names on the page."""
    return {
        "orders": orders_table(results),
        "other-sets": other_sets_table(results),
        "clamp": clamp_table(results),
        "efficiency": efficiency_table(results),
        "efficiency-steps": timed_table(results),
        "held-out": held_out_table(results),
        "bpr-mf": bpr_mf_table(results),
    }


def _plan(results: Path) -> Findings:
    files = CellFiles(results / "reproduce")
    seeds = files.known_seeds(VALIDATED, DATASETS)
    return Findings(Plan(VALIDATED, ("gowalla", "yelp2018"), tuple(seeds)), files)


# Figure 1 in multiples


def efficiency_table(results: Path) -> str:
    """Time to convergence and of a whole fit, as multiples of DREGN-CF's."""
    findings = _plan(results)
    datasets = findings.plan.datasets
    ours = {d: effort_of(findings, "dregn-cf", d) for d in datasets}
    rows = []
    for rival in ("lightgcn", "ngcf", "mult-vae", "enmf"):
        multiples = (cell for d in datasets for cell in _multiples(rival, d, findings, ours))
        rows.append([method_name(rival), *multiples])
    kinds = ("to convergence", "whole fit")
    return markdown_table(["", *(f"{dataset_name(d)}, {k}" for d in datasets for k in kinds)], rows)


def _multiples(
    rival: str, dataset: str, findings: Findings, ours: Mapping[str, MethodEffort]
) -> Iterator[str]:
    found, unit = effort_of(findings, rival, dataset), ours[dataset]
    for value, base in ((found.seconds, unit.seconds), (found.whole_fit, unit.whole_fit)):
        yield "" if value is None or not base else f"{value / base:.3g}"


def timed_table(results: Path) -> str:
    """Steps made alike: the time of one, and that to convergence as a multiple of DREGN-CF's."""
    findings = _plan(results)
    ways = [(d, timing) for d in findings.plan.datasets for timing in TIMINGS]
    rows = [
        [method_name(preset), *(_timed(findings, preset, *way) for way in ways)] for preset in TIMED
    ]
    return markdown_table(["", *(f"{dataset_name(d)}, {t.title}" for d, t in ways)], rows)


def _timed(findings: Findings, preset: str, dataset: str, timing: Timing) -> str:
    step = findings.step_time(preset, dataset, timing)
    seconds, ours = (timed_seconds(findings, p, dataset, timing) for p in (preset, METHOD))
    multiple = f": {seconds / ours:.3g} ×" if seconds and ours else ""
    return "" if step is None else in_seconds(step.median) + multiple


# Where BPR-MF stands among public figures


def bpr_mf_table(results: Path) -> str:
    """Ours beside every public report that was found, with its settings as far as they are told."""
    findings, rows = _plan(results), []
    for dataset, reports in BPR_MF.items():
        for one in reports:
            recall = "not told" if one.recall is None else figure(one.recall)
            words = [
                *(dataset_name(dataset), f"{one.source}, {one.where}", recall),
                *(figure(one.ndcg), one.settings),
            ]
            rows.append(words)
        records = findings.tested_records(findings.plan.cells("bpr-mf", dataset))
        means = [statistics.fmean(r["test"][m] for r in records) for m in METRICS if records]
        settings = "64 dimensions, 1 negative a pair, batches of 65,536; step chosen on validation"
        ours = [dataset_name(dataset), "**here**", *map(figure, means), f"{settings} pairs"]
        rows += [ours] if records else []
    return markdown_table(["data set", "source", *METRICS.values(), "settings"], rows)


# Both ways of holding out


def held_out_table(results: Path) -> str:
    """The report's table in the form of the page."""
    findings = _plan(results)
    found = [one for one in TableEffectiveness().exhibits(findings) if one.id == "held-out"]
    if not found:
        return "Not run yet."
    assert isinstance(found[0], TableExhibit)
    rows = [
        [row.name, *(_mean(entry) for entry in row.entries)]
        for row in found[0].rows
        if any(_mean(entry) for entry in row.entries)
    ]
    return markdown_table(["", *found[0].columns], rows)


def _mean(entry: Measured | str) -> str:
    if isinstance(entry, str) or entry.mean is None:
        return ""
    return figure(entry.mean)


# Runs that something else than patience ended


def unstopped_table(results: Path) -> str:
    """Validation nDCG@20 over the last hundred epochs of runs that early stopping did not end."""
    findings = _plan(results)
    cells = (
        cell
        for dataset in findings.plan.datasets
        for preset in ("lightgcn", "ngcf", "bpr-mf", "lightgcn-dns")
        for cell in findings.plan.cells(preset, dataset)
    )
    rows = [
        [f"`{one['preset']}` on {dataset_name(one['dataset'])}, seed {one['seed']}", *_end(one)]
        for one in findings.records(cells)
        if one["stopped_by"] != "no gain"
    ]
    headers = ["run", "ended by", "nDCG@20 over the last hundred epochs", "best at epoch", "last"]
    return markdown_table(headers, rows)


def _end(record: Record) -> list[str]:
    judged = validations(record)
    last = [v for v in judged if v.epoch > judged[-1].epoch - 100]
    values = [v.metrics[SELECTED_BY] for v in last]
    best = max(judged, key=lambda v: v.metrics[SELECTED_BY])
    return [
        record["stopped_by"],
        f"{figure(min(values))} to {figure(max(values))}",
        f"{best.epoch} of {judged[-1].epoch}",
        figure(values[-1]),
    ]


# Orders of methods by three judges, from the files of the study `blend_ablation`.

_TENTHS = ("random", "last")


def orders_table(folder: Path) -> str:
    """nDCG@20 of each model on a random tenth, on the last tenth and on test, with its rank."""
    rows = []
    for dataset in ("gowalla", "yelp2018"):
        judged = _judged(folder, dataset)
        ranks = {name: _ranks(found) for name, found in judged.items()}
        for model in sorted(judged["test"], key=lambda one: ranks["test"][one]):
            cells = (f"{figure(found[model])} ({ranks[j][model]})" for j, found in judged.items())
            rows.append([dataset, f"`{model}`", *cells])
        agreement = [_agreement(judged[name], judged["test"]) for name in _TENTHS]
        rows.append([dataset, "rank correlation with test", *agreement, ""])
    for path in sorted((folder / "presets").glob("*.json")):
        found = json.loads(path.read_bytes())
        both = [one for one in found["results"] if one["validation"] and one["test"]]
        if found["dataset"] in DATASETS and all(o["validation_by"] == "random" for o in both):
            validation = {one["preset"]: one["validation"][SELECTED_BY] for one in both}
            test = {one["preset"]: one["test"][SELECTED_BY] for one in both}
            name = f"rank correlation with test, {len(both)} presets"
            rows.append([found["dataset"], name, _agreement(validation, test), "", ""])
    return markdown_table(["data set", "model", "random tenth", "last tenth", "test"], rows)


def _judged(folder: Path, dataset: str) -> dict[str, dict[str, float]]:
    """Means over the runs for models that both ways of holding out have, by judge."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in (*_TENTHS, "test")}
    for part in _TENTHS:
        path = folder / f"bench-blend_ablation-{dataset}-{part}.json"
        for run in json.loads(path.read_bytes())["result"]["runs"]:
            for member in run["members"]:
                if member.get("validation") and member.get("test"):
                    name = member["name"]
                    found[part].setdefault(name, []).append(member["validation"][SELECTED_BY])
                    found["test"].setdefault(name, []).append(member["test"][SELECTED_BY])
    shared = [name for name in found["test"] if all(name in found[part] for part in _TENTHS)]
    mean = statistics.fmean
    return {j: {name: mean(values[name]) for name in shared} for j, values in found.items()}


def _ranks(found: Mapping[str, float]) -> dict[str, int]:
    order = sorted(found, key=lambda name: found[name], reverse=True)
    return {name: place for place, name in enumerate(order, 1)}


def _agreement(one: Mapping[str, float], other: Mapping[str, float]) -> str:
    """Spearman's correlation."""
    ranks = _ranks(one), _ranks(other)
    n, squares = len(one), sum((ranks[0][name] - ranks[1][name]) ** 2 for name in one)
    return f"{1 - 6 * squares / (n * (n * n - 1)):.2f}"


# Data sets that the paper does not have, from the files of the study `compare_all`.


_OTHER_SETS = ("amazon-book-75", "amazon-cds")
CUT = "‡"


def other_sets_table(folder: Path) -> str:
    """R@20 / nDCG@20 of every preset on test, one seed, where the paper has no figures."""
    found = {name: _of_first_seed(folder, name) for name in _OTHER_SETS}
    ours = {name: found[name]["dregn-cf"]["test"][SELECTED_BY] for name in _OTHER_SETS}
    rows = [
        [f"`{one}`", *(_other_cell(found[name].get(one), ours[name]) for name in _OTHER_SETS)]
        for one in PRESETS
        if any(one in found[name] for name in _OTHER_SETS)
    ]
    ahead = {
        name: [f"`{p}`" for p in PRESETS if _is_ahead(found[name].get(p), ours[name])]
        for name in _OTHER_SETS
    }
    told = [f"Ahead of `dregn-cf` on {name}: {listed(some)}." for name, some in ahead.items()]
    return "\n\n".join(
        (
            markdown_table(["preset", *(f"{name} R@20 / nDCG@20" for name in _OTHER_SETS)], rows),
            f"{CUT} ended by its time budget, the others by early stopping or their last step.",
            "\n".join(told),
        )
    )


def _of_first_seed(folder: Path, dataset: str) -> dict[str, Record]:
    """The runs of presets with seed 0: of the reproduction, else of the study `compare_all`."""
    compared = json.loads((folder / "presets" / f"{dataset}.json").read_bytes())["results"]
    cells = folder / "reproduce" / "cells" / VALIDATED / dataset
    own = {
        preset: json.loads(path.read_bytes())
        for preset in PRESETS
        if (path := cells / f"{preset}-seed0.json").exists()
    }
    return {one["preset"]: one for one in compared} | own


def _is_ahead(record: Record | None, ours: float) -> bool:
    if record is None or not record.get("test"):
        return False
    return bool(round(record["test"][SELECTED_BY], 4) > round(ours, 4))


def _other_cell(record: Record | None, ours: float) -> str:
    """Bold where it is ahead of `dregn-cf`."""
    if record is None or not record.get("test"):
        return "not measured"
    words = f"{figure(record['test']['recall@20'])} / {figure(record['test'][SELECTED_BY])}"
    words = f"**{words}**" if _is_ahead(record, ours) else words
    return words + (f" {CUT}" if was_cut(record) else "")


# Where the non-negative correction acts, from the file of the study `clamp`.


def clamp_table(folder: Path) -> str:
    """The share of users that each D̄ would clamp, after some epochs."""
    result = json.loads((folder / "bench-clamp-gowalla.json").read_bytes())["result"]
    shown = ("5", "10", "20", "30", "50", "60", "70", "90")
    rows = [
        [
            f"{one['step']:,}",
            *(f"{100 * one['clamped'][bound]:.2f} %" for bound in shown),
            f"{one['largest_threshold']:.1f}",
        ]
        for one in result["epochs"]
    ]
    return markdown_table(["step", *(f"D̄ {b}" for b in shown), "acts on no one from D̄"], rows)
