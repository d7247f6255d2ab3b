"""Hyperparameters on validation pairs: sensitivity to λ and D̄ (Figures 4 and 5), the paper's
search, and Table 3 once more with the λ that suits each row.

No test pair is read before a choice is made; what a search has chosen is then tested.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from ratiorec.config import to_table
from ratiorec_lab.reproduce.cells import (
    BOUND,
    L2,
    RATE,
    VALIDATED,
    Cell,
    Changes,
    Value,
    setting_in,
)
from ratiorec_lab.reproduce.exhibits import (
    NOT_RUN,
    CurveExhibit,
    Exhibit,
    Measured,
    Panel,
    Row,
    Series,
    TableExhibit,
)
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import (
    EFFECTIVENESS,
    METRICS,
    SELECTED_BY,
    dataset_name,
    method_name,
    quality,
)
from ratiorec_lab.reproduce.records import CellFiles, Record, file_of
from ratiorec_lab.reproduce.remarks import absent, as_or_unlike, beyond, why_not_run
from ratiorec_lab.reproduce.wording import figure, listed

METHOD = "dregn-cf"
L2_VALUES = tuple(round(0.01 * k, 2) for k in range(1, 10))
BOUNDS = tuple(10.0 * k for k in range(1, 10))
LABELS = MappingProxyType({L2: "λ", BOUND: "D̄"})
LARGE_BOUND = 50  # what the paper's «sufficiently large» is taken to mean
STABLE = 0.01  # relative

ByValue = dict[float, dict[str, float]]
"""Validation figures by the value of a setting."""
Found = dict[tuple[str, str], ByValue]
"""By setting and data set."""


@dataclass(frozen=True)
class FigSensitivity:
    """Figures 4 and 5: λ and D̄ one at a time; a quick run takes three values of each."""

    def values(self, plan: Plan, setting: str) -> tuple[float, ...]:
        """The values of a setting, in their order."""
        whole = L2_VALUES if setting == L2 else BOUNDS
        return whole[:: len(whole) // 2] if plan.is_quick else whole

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """A run for each value, judged on validation pairs alone."""
        for dataset, setting in itertools.product(plan.datasets, LABELS):
            for value in self.values(plan, setting):
                cell = plan.changed(METHOD, dataset, {setting: value})
                if cell is not None:
                    yield cell

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """Two figures in one: a row of panels for each setting."""
        found = {
            (setting, dataset): self._found(findings, setting, dataset)
            for setting in LABELS
            for dataset in findings.datasets
        }
        yield CurveExhibit(
            id="fig-sensitivity",
            title="Sensitivity to λ and D̄",
            caption="Figures 4 and 5 of the paper: the best validation of each run, one setting "
            "changed and the others as they are.",
            panels=tuple(
                _sensitivity_panel(setting, metric, found)
                for setting in LABELS
                for metric in METRICS
            ),
            remarks=(*self._remarks(findings, found), *absent(findings)),
            runs=tuple(
                (f"{dataset_name(dataset)}, {LABELS[setting]}", files)
                for setting in LABELS
                for dataset in findings.datasets
                if (files := self._files(findings, setting, dataset))
            ),
        )

    def _files(self, findings: Findings, setting: str, dataset: str) -> tuple[str, ...]:
        values = self.values(findings.plan, setting)
        cells = [findings.plan.changed(METHOD, dataset, {setting: value}) for value in values]
        records = findings.records(cell for cell in cells if cell is not None)
        return tuple(file_of(record, dataset) for record in records)

    def _found(self, findings: Findings, setting: str, dataset: str) -> ByValue:
        """Validation figures by the value of the setting."""
        plan = findings.plan
        records = {
            value: findings.record(plan.changed(METHOD, dataset, {setting: value}))
            for value in self.values(plan, setting)
        }
        return {value: record["validation"] for value, record in records.items() if record}

    def _remarks(self, findings: Findings, found: Found) -> Iterator[str]:
        plan = findings.plan
        for (setting, dataset), figures in found.items():
            missing = [v for v in self.values(plan, setting) if v not in figures]
            if missing:
                cells = [plan.changed(METHOD, dataset, {setting: missing[0]})]
                some = ", ".join(f"{value:g}" for value in missing) if figures else "at all values"
                which = f"{LABELS[setting]} {some}"
                yield why_not_run(dataset, [which], findings.why_missing(cells))
            if len(figures) > 1 and not plan.is_quick:
                words = _of_l2 if setting == L2 else _of_bound
                yield from words(dataset_name(dataset), figures)


def _sensitivity_panel(setting: str, metric: str, found: Found) -> Panel:
    series = tuple(
        Series(dataset_name(dataset), tuple((v, figures[v][metric]) for v in sorted(figures)))
        for (changed, dataset), figures in found.items()
        if changed == setting and figures
    )
    name, label = METRICS[metric], LABELS[setting]
    return Panel(f"{name} by {label}", label, f"{name} on validation pairs", series)


def _of_l2(dataset: str, figures: ByValue) -> Iterator[str]:
    """The paper: a large λ is harmful everywhere, a small one most of all on Gowalla."""
    ndcg = {value: figures[value][SELECTED_BY] for value in sorted(figures)}
    top = max(ndcg, key=lambda value: ndcg[value])
    yield f"{dataset}: λ {top:g} is best (nDCG@20 {figure(ndcg[top])})."
    for end, what in ((min(ndcg), "small"), (max(ndcg), "large")):
        harms = ndcg[end] < (1 - STABLE) * ndcg[top]
        found = f"{dataset}: λ {end:g} is {beyond(ndcg[end], ndcg[top])} the best"
        yield as_or_unlike(found, harms, f"where a {what} λ does harm")


def _of_bound(dataset: str, figures: ByValue) -> Iterator[str]:
    """The paper: nothing changes once D̄ is large enough."""
    large = [figures[v][SELECTED_BY] for v in figures if v >= LARGE_BOUND]
    if len(large) < 2:
        yield f"{dataset}: too few values of D̄ to say whether a large one matters."
        return
    spread = max(large) / min(large) - 1
    found = f"{dataset}: from D̄ {LARGE_BOUND} on nDCG@20 varies by {100 * spread:.1f} %"
    yield as_or_unlike(found, spread <= STABLE, "where it is stable")


Grid = Mapping[str, tuple[Value, ...]]
"""Values of settings that are combined in every way."""


def points(grid: Grid) -> Iterator[dict[str, Value]]:
    """Every combination as settings."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


WHOLE: Grid = MappingProxyType(
    {L2: L2_VALUES, BOUND: BOUNDS, RATE: tuple(round(0.01 * k, 2) for k in range(1, 11))}
)
SELECTION: Grid = MappingProxyType(
    {L2: (0.02, 0.04, 0.06, 0.08), BOUND: (30.0, 70.0), RATE: (0.01, 0.02)}
)
QUICK: Grid = MappingProxyType({L2: (0.01, 0.05), BOUND: (30.0, 70.0), RATE: (0.01, 0.05)})
# of rivals whose presets take LightGCN's λ: what a matrix or harder negatives need may be others
RIVAL_GRIDS: Mapping[str, Grid] = MappingProxyType(
    {
        "bpr-mf": {L2: (0.0003, 0.003, 0.01, 0.03, 0.1), RATE: (0.005, 0.02)},
        "lightgcn-dns": {L2: (0.0003, 0.001, 0.003), "batches.sampler.n_negatives": (2, 8)},
    }
)
MOST_ROWS = 30


@dataclass(frozen=True)
class Search:
    """Grid search inside the paper's ranges; the best is chosen by validation nDCG@20.

    What is chosen is refitted on all pairs with every seed and judged on the test part, which the
    choice never saw. Two rivals are tuned in the same way, on grids of their own.
    """

    def grid(self, plan: Plan, preset: str = METHOD) -> Grid:
        """A small one for a quick run, all of the paper's where asked for, else a selection."""
        if preset != METHOD:
            return RIVAL_GRIDS[preset]
        if plan.is_quick:
            return QUICK
        return WHOLE if plan.whole_grid else SELECTION

    def presets(self, plan: Plan) -> tuple[str, ...]:
        """Methods that are tuned; the protocol `paper` and a quick run tune the paper's alone."""
        return (
            (METHOD, *RIVAL_GRIDS)
            if plan.protocol == VALIDATED and not plan.is_quick
            else (METHOD,)
        )

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """A run for each point, judged on validation pairs alone; then what they have chosen."""
        for dataset, preset in itertools.product(plan.datasets, self.presets(plan)):
            yield from _points(plan, preset, dataset, self.grid(plan, preset))
        for dataset, preset in itertools.product(plan.datasets, self.presets(plan)):
            yield from self.tested_cells(plan, preset, dataset)

    def tested_cells(self, plan: Plan, preset: str, dataset: str) -> list[Cell]:
        """The chosen settings for each seed; none before a choice, or in a quick run."""
        chosen = plan.chosen.get((preset, dataset))
        return [] if chosen is None or plan.is_quick else list(plan.cells(preset, dataset, chosen))

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """What was chosen and tested, then a table for each search, the best first."""
        presets = self.presets(findings.plan)
        if findings.plan.protocol == VALIDATED and not findings.plan.is_quick:
            yield self._tested(findings, presets)
        for dataset, preset in itertools.product(findings.datasets, presets):
            yield self._table(findings, preset, dataset)

    def _table(self, findings: Findings, preset: str, dataset: str) -> TableExhibit:
        order = self._ranked(findings, preset, dataset)
        what = "λ, D̄ and the rate" if preset == METHOD else f"settings of {method_name(preset)}"
        return TableExhibit(
            id=f"search-{dataset}" + ("" if preset == METHOD else f"-{preset}"),
            title=f"Search for {what} on {dataset_name(dataset)}",
            caption="Trained on nine tenths of each user's pairs and judged on the rest; no "
            f"test pair is read. The best {MOST_ROWS} at most are listed.",
            columns=tuple(f"{label} on validation pairs" for label in METRICS.values()),
            rows=tuple(
                Row(_point(one, preset), tuple(Measured((one["validation"][m],)) for m in METRICS))
                for one in order[:MOST_ROWS]
            ),
            runs=tuple(
                (_point(one, preset), (file_of(one, dataset),)) for one in order[:MOST_ROWS]
            ),
            remarks=tuple(self._remarks(findings, preset, dataset, order)),
        )

    def _tested(self, findings: Findings, presets: Sequence[str]) -> TableExhibit:
        plan, datasets = findings.plan, findings.datasets
        rows: list[Row] = []
        told: list[str] = []
        for preset in presets:
            own = [findings.tested(preset, d, m, EFFECTIVENESS) for d in datasets for m in METRICS]
            chosen = [
                findings.tested_by(
                    self.tested_cells(plan, preset, d), m, quality(EFFECTIVENESS, preset, d, m)
                )
                for d in datasets
                for m in METRICS
            ]
            name = method_name(preset)
            rows += [Row(f"{name}, its preset", tuple(own)), Row(f"{name}, chosen", tuple(chosen))]
            for dataset in datasets:
                if (values := plan.chosen.get((preset, dataset))) is not None:
                    words = ", ".join(f"{_label(n)} {_plain(v)}" for n, v in values.items())
                    told.append(f"{dataset_name(dataset)}, {name}: chosen {words}.")
        return TableExhibit(
            id="search-tested",
            title="Chosen settings, refitted and tested",
            caption="What the searches below chose on validation pairs (section 5.1.2 of the "
            "paper), refitted on all pairs and judged on the test part, beside the one setting for "
            "all data that the other tables have.",
            columns=tuple(f"{dataset_name(d)} {m}" for d in datasets for m in METRICS.values()),
            rows=tuple(rows),
            remarks=tuple(told),
        )

    def choices(self, findings: Findings) -> dict[tuple[str, str], Changes]:
        """The best settings by preset and data set, as far as anything was run."""
        found: dict[tuple[str, str], Changes] = {}
        for preset, dataset in itertools.product(
            self.presets(findings.plan), findings.plan.datasets
        ):
            if order := self._ranked(findings, preset, dataset):
                found[preset, dataset] = _values(order[0], preset)
        return found

    def chosen(self, findings: Findings, dataset: str) -> str | None:
        """The method's best settings as TOML for `fit --config`, or None where nothing was run."""
        order = self._ranked(findings, METHOD, dataset)
        if not order:
            return None
        l2, bound, rate = _values(order[0], METHOD).values()
        return (
            f"# the best of {len(order)} settings by nDCG@20 on validation pairs of {dataset}\n"
            f"[risk]\nupper_bound = {bound}\n\n"
            f"[training]\nlearning_rate = {rate}\nl2 = {l2}\n"
        )

    def _ranked(self, findings: Findings, preset: str, dataset: str) -> list[Record]:
        """The records of all points of the ranges that were run, the best first."""
        cells = _known_points(replace(findings.plan, whole_grid=True, chosen={}), preset, dataset)
        return sorted(findings.records(cells), key=_ndcg, reverse=True)

    def _remarks(
        self, findings: Findings, preset: str, dataset: str, order: list[Record]
    ) -> Iterator[str]:
        plan = findings.plan
        if order:
            whole = (
                f" of {len(list(points(WHOLE)))}" if preset == METHOD and not plan.is_quick else ""
            )
            yield (
                f"{dataset_name(dataset)}: {_point(order[0], preset)} is chosen, with a validation "
                f"nDCG@20 of {figure(_ndcg(order[0]))}, the best of {len(order)}{whole} points."
            )
        cells = list(_points(plan, preset, dataset, self.grid(plan, preset)))
        missing = [cell for cell in cells if findings.record(cell) is None]
        if missing or not cells:
            some = f"{len(missing)} of {len(cells)} points"
            yield why_not_run(dataset, [some] if cells else [], findings.why_missing(missing))


def with_choices(plan: Plan, files: CellFiles) -> Plan:
    """The plan with what its searches have chosen so far."""
    return replace(plan, chosen=Search().choices(Findings(plan, files)))


@lru_cache(maxsize=64)
def _known_points(plan: Plan, preset: str, dataset: str) -> tuple[Cell, ...]:
    """All points of the ranges; there are hundreds, and several parts of a report ask for them."""
    return tuple(_points(plan, preset, dataset, Search().grid(plan, preset)))


def _points(plan: Plan, preset: str, dataset: str, grid: Grid) -> Iterator[Cell]:
    for point in points(grid):
        cell = plan.changed(preset, dataset, point)
        if cell is not None:
            yield cell


def _values(record: Record, preset: str) -> dict[str, Value]:
    names = WHOLE if preset == METHOD else RIVAL_GRIDS[preset]
    return {name: setting_in(record["settings"], name) for name in names}


def _point(record: Record, preset: str = METHOD) -> str:
    return ", ".join(f"{_label(n)} {_plain(v)}" for n, v in _values(record, preset).items())


def _label(setting: str) -> str:
    names = {**LABELS, RATE: "rate", "batches.sampler.n_negatives": "negatives"}
    return names[setting]


def _plain(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _ndcg(record: Record) -> float:
    return float(record["validation"][SELECTED_BY])


# λ beside the preset's own: a ninth, a third and thrice as much; of `pu` about as far
_OTHERS = (0.005, 0.015, 0.135)
_OTHERS_OF: Mapping[str, tuple[float, ...]] = MappingProxyType({"pu": (0.001, 0.003, 0.03)})
_SETTING_OF: Mapping[str, str] = MappingProxyType({"dregn-cf-static": f"second.{L2}"})


@dataclass(frozen=True)
class AblationL2:
    """Rows of the ablation with the λ that suits each: no row is low for want of tuning.

    `rows` are names by preset; `full` is the preset of the whole method.
    """

    rows: Mapping[str, str]
    full: str

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every row with other values of λ, judged on validation pairs alone.

        With the preset's own λ it is in the table already. The protocol `paper` fixes λ.
        """
        if plan.protocol != VALIDATED:
            return
        for dataset in plan.datasets:
            for preset in self.rows:
                yield from _others(plan, preset, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table, where λ is free."""
        datasets = findings.datasets
        if findings.plan.protocol != VALIDATED:
            return
        found = {(p, d): _by_l2(findings, p, d) for p in self.rows for d in datasets}
        columns = ("own λ", "best λ", "best at λ")
        yield TableExhibit(
            id="table-ablation-penalties",
            title="Ablation with λ chosen for each row",
            caption="Best nDCG@20 on validation pairs with the preset's own λ and with the best "
            "of four; first seed, no test pair is read.",
            columns=tuple(f"{dataset_name(d)} {what}" for d in datasets for what in columns),
            rows=tuple(
                Row(row, tuple(e for d in datasets for e in found[preset, d].entries))
                for preset, row in self.rows.items()
            ),
            remarks=tuple(self._remarks(found, datasets)),
            is_ranking=False,
        )

    def _remarks(
        self, found: Mapping[tuple[str, str], _ByL2], datasets: tuple[str, ...]
    ) -> Iterator[str]:
        for dataset in datasets:
            bar = found[self.full, dataset].with_own
            best = {
                row: value
                for preset, row in self.rows.items()
                if preset != self.full and (value := found[preset, dataset].with_best) is not None
            }
            if bar is None or not best:
                continue
            above = [row for row, value in best.items() if value > bar]
            told = f"{listed(above)} above" if above else f"none of {listed(list(best))} above"
            full = f"{self.rows[self.full]} with its own, {figure(bar)}"
            yield f"{dataset_name(dataset)}, best λ of each row: {told} {full}."


@dataclass(frozen=True)
class _ByL2:
    """Validation nDCG@20 by λ, as far as it was run, and the preset's own λ."""

    figures: Mapping[float, float]
    own: float | None

    @property
    def best(self) -> float | None:
        return max(self.figures, key=lambda value: self.figures[value], default=None)

    @property
    def with_own(self) -> float | None:
        return None if self.own is None else self.figures.get(self.own)

    @property
    def with_best(self) -> float | None:
        return None if self.best is None else self.figures[self.best]

    @property
    def entries(self) -> tuple[Measured | str, ...]:
        at_best = NOT_RUN if self.best is None else f"{self.best:g}"
        values = (self.with_own, self.with_best)
        return (*(NOT_RUN if v is None else Measured((v,)) for v in values), at_best)


def _others(plan: Plan, preset: str, dataset: str) -> Iterator[Cell]:
    values = _OTHERS_OF.get(preset, _OTHERS)
    for value in values[:1] if plan.is_quick else values:
        cell = plan.changed(preset, dataset, {_SETTING_OF.get(preset, L2): value})
        if cell is not None:
            yield cell


def _by_l2(findings: Findings, preset: str, dataset: str) -> _ByL2:
    own = findings.plan.first_curve(preset, dataset)
    cells = [c for c in (own, *_others(findings.plan, preset, dataset)) if c is not None]
    records = {cell: record for cell in cells if (record := findings.record(cell)) is not None}
    figures = {_l2(cell): _ndcg(record) for cell, record in records.items()}
    return _ByL2(figures, None if own is None else _l2(own))


def _l2(cell: Cell) -> float:
    setting = _SETTING_OF.get(cell.preset, L2)
    return float(setting_in(to_table(cell.settings), setting))
