"""Tables 1 to 3 of the paper: data sets, effectiveness of all methods, ablation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ratiorec_lab.reproduce import published, remarks
from ratiorec_lab.reproduce.cells import VALIDATED, VALIDATED_LAST, Cell
from ratiorec_lab.reproduce.exhibits import (
    AGREES,
    DIFFERS,
    NOT_RUN,
    NOTE,
    Exhibit,
    Measured,
    Remark,
    Row,
    TableExhibit,
)
from ratiorec_lab.reproduce.more_runs import official_lightgcn
from ratiorec_lab.reproduce.plan import ABSENT, Findings, Plan
from ratiorec_lab.reproduce.published import (
    ABLATION,
    BPR_MF,
    EFFECTIVENESS,
    ELSEWHERE,
    METRICS,
    NOT_THE_PAPERS,
    SELECTED_BY,
    STAND_IN,
    dataset_name,
    method_name,
)
from ratiorec_lab.reproduce.records import file_of
from ratiorec_lab.reproduce.remarks import TableFigure
from ratiorec_lab.reproduce.tuning import AblationL2
from ratiorec_lab.reproduce.wording import figure, listed

FULL = "dregn-cf"
OFFICIAL = "LightGCN, its authors' settings"
ROWS: Mapping[str, str] = MappingProxyType(
    {
        "pu": "(a) PU",
        "dre": "(b) DRE",
        "dregn-cf-no-is": "(c) w/o IS",
        "dregn-cf-no-nn": "(d) w/o NN",
        "dregn-cf-uniform": "(e) Uni-W",
        "dregn-cf-popularity": "(f) Pop-W",
        "dregn-cf-static": "(g) Static",
        FULL: "(h) Full",
    }
)
CLOSE = ("dregn-cf-no-is", "dregn-cf-no-nn", FULL)  # to the full method, so only 1 % tells


IDLE = 0.001  # a part that changes less than this does nothing


@dataclass(frozen=True)
class TableDatasets:
    """Table 1: users, items and pairs of every data set."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Nothing is trained."""
        yield from ()

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One table."""
        yield TableExhibit(
            id="table-datasets",
            title="Statistics of the data sets",
            caption="Table 1 of the paper. Interactions are pairs of the training and the test "
            "part together; the density is their share of all possible pairs.",
            columns=(
                *("users", "items", "interactions"),
                *("of them for training", "density", "density, paper"),
            ),
            rows=tuple(_counts(name, findings) for name in findings.plan.datasets),
            decimals=0,
            remarks=tuple(_datasets_compared(findings)),
            is_ranking=False,
        )


def _counts(name: str, findings: Findings) -> Row:
    found = findings.files.statistics(name)
    printed = published.STATISTICS.get(name)
    printed_counts = (None, None, None) if printed is None else printed[:3]
    printed_density = "" if printed is None else f"{printed.density:.5f}"
    if found is None:
        nothing = (Measured((), count, ABSENT) for count in printed_counts)
        return Row(dataset_name(name), (*nothing, NOT_RUN, NOT_RUN, printed_density))
    ours = (found["users"], found["items"], _n_pairs(found))
    counts = (Measured((float(n),), p) for n, p in zip(ours, printed_counts, strict=True))
    density = f"{_n_pairs(found) / (found['users'] * found['items']):.5f}"
    train = Measured((float(found["train_pairs"]),))
    return Row(dataset_name(name), (*counts, train, density, printed_density))


def _datasets_compared(findings: Findings) -> Iterator[str]:
    for name in findings.plan.datasets:
        found, printed = findings.files.statistics(name), published.STATISTICS.get(name)
        if found is None:
            yield remarks.why_not_run(name, [], ABSENT)
        elif printed is not None:
            yield _compared(name, found, printed)
        elif name == STAND_IN:
            whole = published.STATISTICS["amazon-book"].n_pairs - found["test_pairs"]
            yield (
                f"{STAND_IN} is not the paper's Amazon-Book: it has "
                f"{100 * found['train_pairs'] / whole:.1f} % of its training pairs and the same "
                "test pairs. It stands in a column of its own, and no published figure is "
                "comparable with those on it."
            )


def _compared(name: str, found: dict[str, Any], printed: published.Counts) -> str:
    ours = {"users": found["users"], "items": found["items"], "interactions": _n_pairs(found)}
    theirs = dict(zip(ours, printed[:3], strict=True))
    others = [f"{ours[n]:,} {n} (paper: {theirs[n]:,})" for n in ours if ours[n] != theirs[n]]
    if others:
        return Remark(f"{dataset_name(name)} differs from the paper's: {listed(others)}.", DIFFERS)
    told = f"{dataset_name(name)} has the users, items and interactions of the paper."
    return Remark(told, AGREES)


def _n_pairs(found: dict[str, Any]) -> int:
    return int(found["train_pairs"] + found["test_pairs"])


@dataclass(frozen=True)
class TableEffectiveness:
    """Table 2: R@20 and nDCG@20 of the paper's five methods, and of what else one would try."""

    papers: tuple[str, ...] = ("ngcf", "mult-vae", "enmf", "lightgcn", FULL)
    more: tuple[str, ...] = (
        *("dregn-cf-fast", "lightgcn-dns", "bpr-mf", "wmf"),
        *("ease", "item-knn", "implicit-als", "popularity"),
    )

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every method on every data set, judged on the test part."""
        for dataset in plan.datasets:
            for preset in (*self.papers, *self.more):
                yield from plan.cells(preset, dataset)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """The paper's table, and both ways of holding out side by side."""
        printed = {**EFFECTIVENESS, **ELSEWHERE}
        names = {preset: method_name(preset) for preset in (*self.papers, *self.more)}
        shown = _with_others(findings)
        figures = _figures(findings, names, printed, shown)
        is_main = findings.plan.protocol == VALIDATED and not findings.plan.is_quick
        if is_main:
            place = [f.method for f in figures].index(method_name(FULL))
            figures[place:place] = _official(findings, shown)
        yield TableExhibit(
            id="table-effectiveness",
            title="Effectiveness of all methods",
            caption="Table 2 of the paper: R@20 and nDCG@20 on the test part. LightGCN stands "
            "twice: with the preset's large batches, and with its authors' settings for 1,000 "
            "epochs, of which nothing is chosen. The last rows are methods that the paper does not "
            "have.",
            columns=_columns(shown),
            rows=_rows(figures),
            remarks=(*self._remarks(figures), *remarks.absent(findings)),
        )
        if is_main:
            yield from _both_ways(findings, names)

    def _remarks(self, figures: list[TableFigure]) -> Iterator[str]:
        yield from remarks.within_or_above([f for f in figures if f.method == method_name(FULL)])
        yield from remarks.of_table(figures)
        yield from _ahead_elsewhere(figures)
        yield from _of_bpr_mf(figures)
        elsewhere = dict.fromkeys(
            f.method
            for f in figures
            if not f.is_papers and f.measured.published and f.method != OFFICIAL
        )
        if elsewhere:
            yield (
                f"{listed(list(elsewhere))}: the published figure is not the paper's; its "
                "settings are not known to us."
            )


@dataclass(frozen=True)
class TableAblation:
    """Table 3: rows (a) to (h), each without a part of the method or with another."""

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Every row on every data set, judged on the test part; then with other λ."""
        for dataset in plan.datasets:
            for preset in ROWS:
                yield from plan.cells(preset, dataset)
        yield from AblationL2(ROWS, FULL).cells(plan)

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """The paper's table, and what becomes of it where λ is chosen for each row."""
        figures = _figures(findings, ROWS, ABLATION, findings.datasets)
        yield TableExhibit(
            id="table-ablation",
            title="Ablation",
            caption="Table 3 of the paper: (a) and (b) plain losses without ranking weights, where "
            "in (a), unlike in the paper, a positive counts far more than an unlabelled pair, (c) "
            "without the sampling correction, (d) without the non-negative correction, (e) uniform "
            "weights, (f) weights by popularity, (g) weights of a first model that stay as they "
            "are, (h) everything. The first model of (g) stops after 5 epochs under the protocol "
            "validated and after as many as the second under paper; «Runs behind single claims» "
            "has it trained to its end, and (a) with equal weights.",
            columns=_columns(findings.datasets),
            rows=_rows(figures),
            remarks=(*self._remarks(figures), *remarks.absent(findings)),
        )
        yield from AblationL2(ROWS, FULL).exhibits(findings)

    def _remarks(self, figures: list[TableFigure]) -> Iterator[str]:
        for preset in CLOSE:
            own = [f for f in figures if f.method == ROWS[preset]]
            yield from remarks.within_or_above(own)
        for dataset, metric in dict.fromkeys((f.dataset, f.metric) for f in figures):
            here = {f.method: f for f in figures if (f.dataset, f.metric) == (dataset, metric)}
            yield from self._relative_to_full(here)
            yield from self._idle_correction(here)
        yield from remarks.of_table(figures)

    def _idle_correction(self, here: dict[str, TableFigure]) -> Iterator[str]:
        """Whether the non-negative correction does anything, seed by seed."""
        full, without = here[ROWS[FULL]], here[ROWS["dregn-cf-no-nn"]]
        pairs = list(zip(full.measured.values, without.measured.values, strict=False))
        if not full.is_compared or not pairs:
            return
        largest = max(abs(one / other - 1) for one, other in pairs)
        if largest < IDLE:
            place = f"{dataset_name(full.dataset)}, {METRICS[full.metric]}"
            told = f"differ by {100 * largest:.2f} % at most, seed by seed"
            yield Remark(f"{place}: (d) and (h) {told}: the correction is idle.", DIFFERS)

    def _relative_to_full(self, here: dict[str, TableFigure]) -> Iterator[str]:
        """Whether the rows that the paper has far below the full method are below it."""
        full = here[ROWS[FULL]]
        if not full.is_compared:
            return
        far = [row for preset, row in ROWS.items() if preset not in CLOSE]
        known = [row for row in far if here[row].measured.values]
        above = [row for row in known if here[row].mean >= full.mean]
        below = [row for row in known if row not in above]
        place = f"{dataset_name(full.dataset)}, {METRICS[full.metric]}"
        if below:
            told = f"{listed(below)} below (h) {figure(full.mean)}, as in the paper."
            yield Remark(f"{place}: {told}", AGREES)
        if above:
            yield Remark(f"{place}: {listed(above)} not below (h), unlike in the paper.", DIFFERS)


def _with_others(findings: Findings) -> tuple[str, ...]:
    """The planned data sets, and those beside the paper's as far as they were ever there."""
    known = [] if findings.plan.is_quick else findings.files.known_datasets()
    others = [name for name in NOT_THE_PAPERS if name in known]
    return tuple(dict.fromkeys((*findings.datasets, *others)))


def _ahead_elsewhere(figures: Sequence[TableFigure]) -> Iterator[str]:
    """Which methods are ahead of the paper's on data that it does not have."""
    for dataset in NOT_THE_PAPERS:
        here = [f for f in figures if f.dataset == dataset and f.metric == SELECTED_BY]
        known = {f.method: f.mean for f in here if f.measured.values}
        ours = known.get(method_name(FULL))
        if ours is not None:
            ahead = [
                f"{method} ({figure(one)})"
                for method, one in known.items()
                if round(one, 4) > round(ours, 4)
            ]
            yield (
                f"{dataset} is not a data set of the paper. By nDCG@20 these are ahead of "
                f"{method_name(FULL)} ({figure(ours)}) there: {listed(ahead) or 'none'}."
            )


def _of_bpr_mf(figures: Sequence[TableFigure]) -> Iterator[str]:
    """Where BPR-MF stands among public reports on the same split."""
    for f in figures:
        reports = BPR_MF.get(f.dataset, ())
        is_it = f.method == method_name("bpr-mf") and f.metric == SELECTED_BY
        if not is_it or not reports or not f.measured.values:
            continue
        low, high = (end(reports, key=lambda one: one.ndcg) for end in (min, max))
        place = "below all" if f.mean < low.ndcg else "above all" if f.mean > high.ndcg else "among"
        yield Remark(
            f"{dataset_name(f.dataset)}, {f.method}: nDCG@20 {figure(f.mean)} is {place} "
            f"{len(reports)} public reports on this split, {figure(low.ndcg)} ({low.source}) to "
            f"{figure(high.ndcg)} ({high.source}). Its settings are LightGCN's and were not tuned.",
            DIFFERS if place == "below all" else NOTE,
        )


def _both_ways(findings: Findings, names: Mapping[str, str]) -> Iterator[TableExhibit]:
    """A random tenth and the last tenth of each user's pairs, held out to choose the step."""
    last = replace(findings.plan, protocol=VALIDATED_LAST)
    shown = [
        dataset
        for dataset in findings.datasets
        if any(findings.records(last.cells(preset, dataset)) for preset in names)
    ]
    figures = [
        TableFigure(method, dataset, label, found)
        for preset, method in names.items()
        for dataset in shown
        for label, found in _of_both_ways(findings, last, preset, dataset)
    ]
    if not shown:
        return
    yield TableExhibit(
        id="held-out",
        title="Both ways of holding out",
        caption="nDCG@20 on the pairs that are held out to choose the step, a random tenth of each "
        "user's or the last tenth, and on the test part after training on all pairs. A method "
        "without a step to choose has the same test figure both ways.",
        columns=tuple(f"{dataset_name(d)} {label}" for d in shown for label in _WAYS),
        rows=_rows(figures),
        remarks=tuple(_not_run_last(figures)),
    )


_WAYS = ("random tenth", "last tenth", "test, chosen by random", "test, chosen by last")


def _of_both_ways(
    findings: Findings, last: Plan, preset: str, dataset: str
) -> Iterator[tuple[str, Measured]]:
    plans = (findings.plan, last)
    runs = [findings.tested_records(plan.cells(preset, dataset)) for plan in plans]
    parts = ("validation", "validation", "test", "test")
    for place, (label, part) in enumerate(zip(_WAYS, parts, strict=True)):
        records = runs[place % 2]
        note = "One seed." if len(records) == 1 else ""
        values = tuple(r[part][SELECTED_BY] for r in records)
        files = tuple(dict.fromkeys(file_of(r, dataset) for r in records))
        yield label, Measured(values, remark=note, files=files)


def _not_run_last(figures: Sequence[TableFigure]) -> Iterator[str]:
    for dataset in dict.fromkeys(f.dataset for f in figures):
        here = [f for f in figures if f.dataset == dataset and f.metric == _WAYS[-1]]
        if missing := [f.method for f in here if not f.measured.values]:
            yield (
                f"{dataset_name(dataset)}, {listed(missing)}: not run with the last tenth held out."
            )


def _figures(
    findings: Findings,
    names: Mapping[str, str],
    printed: published.By,
    datasets: Sequence[str],
) -> list[TableFigure]:
    """A test figure for each named preset, data set and metric."""
    return [
        TableFigure(
            name,
            dataset,
            metric,
            findings.tested(preset, dataset, metric, printed),
            is_papers=preset not in ELSEWHERE,
        )
        for preset, name in names.items()
        for dataset in datasets
        for metric in METRICS
    ]


def _official(findings: Findings, datasets: Sequence[str]) -> list[TableFigure]:
    """LightGCN by its authors' settings; the order of methods is judged by the preset."""
    return [
        TableFigure(
            OFFICIAL,
            dataset,
            metric,
            findings.tested_by(
                official_lightgcn(findings.plan, dataset),
                metric,
                published.quality(EFFECTIVENESS, "lightgcn", dataset, metric),
            ),
            is_papers=False,
        )
        for dataset in datasets
        for metric in METRICS
    ]


def _columns(datasets: Sequence[str]) -> tuple[str, ...]:
    """Two columns for each data set."""
    return tuple(f"{dataset_name(d)} {label}" for d in datasets for label in METRICS.values())


def _rows(figures: list[TableFigure]) -> tuple[Row, ...]:
    """A row for each method, in the order they come in."""
    return tuple(
        Row(method, tuple(f.measured for f in figures if f.method == method))
        for method in dict.fromkeys(f.method for f in figures)
    )
