"""Figures 2 and 3 of the paper: static and adaptive weights, negative sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ratiorec.settings import TwoStageSettings
from ratiorec_lab.reproduce.cells import CURVE_EPOCHS, VALIDATED, Cell, Value
from ratiorec_lab.reproduce.exhibits import (
    CurveExhibit,
    Exhibit,
    Panel,
    Runs,
    Series,
)
from ratiorec_lab.reproduce.plan import Findings, Plan
from ratiorec_lab.reproduce.published import (
    METRICS,
    SELECTED_BY,
    STAND_IN,
    dataset_name,
    method_name,
)
from ratiorec_lab.reproduce.records import Record, convergence, file_of, validations
from ratiorec_lab.reproduce.remarks import as_or_unlike, beyond, missing_lines
from ratiorec_lab.reproduce.wording import figure

METHOD = "dregn-cf"


Lines = Mapping[str, Cell | None]
"""Cells by the names of their lines; None where the protocol has none."""


def _curves(
    findings: Findings,
    lines: Mapping[str, Lines],
    remarks: Callable[[str, Mapping[str, Record]], Iterator[str]],
    *,
    by: str,
    log_x: bool = False,
) -> tuple[tuple[Panel, ...], tuple[str, ...]]:
    """Panels and remarks for the lines of each data set; `by` is "epoch" or "step"."""
    panels: list[Panel] = []
    told: list[str] = []
    for dataset, cells in lines.items():
        records = findings.named_records(cells)
        panels += (_panel(dataset, records, m, by=by, log_x=log_x) for m in METRICS if records)
        told += missing_lines(findings, dataset, cells)
        if not findings.plan.is_quick:
            told += remarks(dataset_name(dataset), records)
    return tuple(panels), tuple(told)


def _panel(
    dataset: str, records: Mapping[str, Record], metric: str, *, by: str, log_x: bool
) -> Panel:
    points = {
        name: tuple((float(getattr(v, by)), v.metrics[metric]) for v in validations(record))
        for name, record in records.items()
    }
    return Panel(
        title=f"{dataset_name(dataset)}, {METRICS[metric]}",
        x_label=f"training {by}",
        y_label=f"{METRICS[metric]} on {_judged_on(records)}",
        series=tuple(Series(name, values) for name, values in points.items()),
        log_x=log_x,
    )


def _judged_on(records: Mapping[str, Record]) -> str:
    entries = (entry for record in records.values() for entry in record["curve"])
    return "the test part" if any("test" in entry for entry in entries) else "validation pairs"


def _all(lines: Mapping[str, Lines]) -> Iterator[Cell]:
    return (cell for cells in lines.values() for cell in cells.values() if cell is not None)


def _best(record: Record) -> float:
    return max(one.metrics[SELECTED_BY] for one in validations(record))


def _last(record: Record) -> float:
    return validations(record)[-1].metrics[SELECTED_BY]


# Figure 2

ADAPTIVE, FIRST = "adaptive", "uniform (as the first model)"
SAME, TENTH = "static (same rate)", "static (a tenth of the rate)"


FINISHED, CONTINUED = "first model to its end", "started from the first model"


@dataclass(frozen=True)
class FigStaticAdaptive:
    """Figure 2: weights that stay as a first model left them, against weights that follow.

    The paper draws it on Yelp2018. Under `validated` the second model goes on for a while after it
    has stopped to improve, so that the curve can be seen, and follows three first models: one of
    `first_epochs`, one trained to its end as the paper has it, and one that it also starts from,
    as the paper's words may be read.
    """

    first_epochs: int = 60
    patience: int = 20

    def named(self, plan: Plan, dataset: str) -> dict[str, Cell | None]:
        """The cells by the names of their lines."""
        lines: dict[str, Cell | None] = {ADAPTIVE: plan.first_curve(METHOD, dataset)}
        for end, changes in self._ways(plan).items():
            static = plan.changed("dregn-cf-static", dataset, changes)
            tenth = None
            if static is not None:
                assert isinstance(static.settings, TwoStageSettings)
                rate = static.settings.second.training.learning_rate / 10
                slower = changes | {"second.training.learning_rate": rate}
                tenth = plan.changed("dregn-cf-static", dataset, slower)
            lines |= {f"{SAME}{end}": static, f"{TENTH}{end}": tenth}
        return lines | {FIRST: plan.first_curve("dregn-cf-uniform", dataset)}

    def _ways(self, plan: Plan) -> dict[str, dict[str, Value]]:
        """Settings of the first model, by the end of the lines' names."""
        if plan.protocol != VALIDATED or plan.is_quick:
            return {"": {}}
        shown: dict[str, Value] = {"second.training.patience": self.patience}
        finished = shown | {"first.training.epochs": CURVE_EPOCHS}
        return {
            "": shown | {"first.training.epochs": self.first_epochs},
            f", {FINISHED}": finished,
            f", {CONTINUED}": finished | {"second_starts_from_first": "true"},
        }

    def lines(self, plan: Plan) -> dict[str, Lines]:
        """The cells for each data set that is drawn."""
        return {dataset: self.named(plan, dataset) for dataset in plan.among("yelp2018")}

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Runs with a curve on validation pairs."""
        return _all(self.lines(plan))

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One figure."""
        lines = self.lines(findings.plan)
        panels, remarks = _curves(findings, lines, _static_remarks, by="epoch")
        yield CurveExhibit(
            id="fig-static-adaptive",
            title="Static and adaptive weights",
            caption="Figure 2 of the paper, on validation pairs. Epochs of a static run are "
            "counted through both of its models, of which only the second is validated; the first "
            "is of the same kind as the line with uniform weights and has "
            f"{self.first_epochs} epochs, or {CURVE_EPOCHS} where it is trained to its end.",
            panels=panels,
            remarks=remarks,
            runs=_runs(findings, lines),
        )


def _runs(findings: Findings, lines: Mapping[str, Lines]) -> Runs:
    """The file of each line."""
    return tuple(
        (f"{dataset_name(dataset)}, {name}", (file_of(record, dataset),))
        for dataset, cells in lines.items()
        for name, record in findings.named_records(cells).items()
    )


def _static_remarks(dataset: str, records: Mapping[str, Record]) -> Iterator[str]:
    for name in records:
        if name in (ADAPTIVE, FIRST):
            continue
        static = _best(records[name])
        if ADAPTIVE in records:
            adaptive = _best(records[ADAPTIVE])
            yield (
                f"{dataset}: the best nDCG@20 of «{name}» is {figure(static)}, "
                f"{beyond(static, adaptive)} that of adaptive weights ({figure(adaptive)})."
            )
        if FIRST in records:
            first = _best(records[FIRST])
            verb = "never reaches" if static < first else "exceeds"
            place = f"{verb} uniform weights trained to their end ({figure(first)})"
            yield as_or_unlike(f"{dataset}: «{name}» {place}", static < first)
    if SAME in records and TENTH in records:
        ends = _last(records[SAME]), _last(records[TENTH])
        yield as_or_unlike(
            f"{dataset}: with the same rate static weights end at {figure(ends[0])}, with a tenth "
            f"of it at {figure(ends[1])}",
            ends[0] < ends[1],
            "where the same rate ends lower",
        )


# Figure 3

_COMPARED = ("lightgcn", "lightgcn-dns", "dregn-cf-uniform", METHOD)
PAIRWISE, DYNAMIC, UNIFORM, OURS = map(method_name, _COMPARED)


@dataclass(frozen=True)
class FigDns:
    """Figure 3: hard-sample weights against dynamic negative sampling (DNS).

    The paper draws it on Amazon-Book, which few can have: Gowalla is drawn beside it.
    """

    def lines(self, plan: Plan) -> dict[str, Lines]:
        """The cells with validation pairs, for each data set that is drawn."""
        return {dataset: self._by_validation(plan, dataset) for dataset in self._datasets(plan)}

    def shown(self, findings: Findings, dataset: str) -> Lines:
        """Test curves where all of them are there, else those on validation pairs."""
        plan = findings.plan
        on_test = self._on_test(plan, dataset)
        is_whole = len(findings.named_records(on_test)) == len(_COMPARED)
        return on_test if is_whole else self._by_validation(plan, dataset)

    def _datasets(self, plan: Plan) -> tuple[str, ...]:
        return plan.among("amazon-book", STAND_IN, "gowalla")

    def _by_validation(self, plan: Plan, dataset: str) -> Lines:
        return {method_name(p): plan.first_curve(p, dataset) for p in _COMPARED}

    def _on_test(self, plan: Plan, dataset: str) -> Lines:
        return {method_name(p): plan.test_curve(p, dataset) for p in _COMPARED}

    def cells(self, plan: Plan) -> Iterator[Cell]:
        """Four runs that have validations along the way, and four with test figures."""
        yield from _all(self.lines(plan))
        if not plan.is_quick:
            yield from _all({d: self._on_test(plan, d) for d in self._datasets(plan)})

    def exhibits(self, findings: Findings) -> Iterator[Exhibit]:
        """One figure."""
        lines = {d: self.shown(findings, d) for d in self._datasets(findings.plan)}
        panels, remarks = _curves(findings, lines, _dns_remarks, by="step", log_x=True)
        yield CurveExhibit(
            id="fig-dns",
            title="Dynamic sampling and hard-sample weights",
            caption="Figure 3 of the paper, which shows the test part of Amazon-Book. A test curve "
            "is drawn after the fact by a run of fixed length that chooses nothing; where there is "
            "none, validation pairs are drawn in its place, as the axis says.",
            panels=panels,
            remarks=remarks,
            runs=_runs(findings, lines),
        )


def _dns_remarks(dataset: str, records: Mapping[str, Record]) -> Iterator[str]:
    """The paper's observations in section 5.5, each held against the figures."""
    steps = {name: found.step for name, r in records.items() if (found := convergence(r))}
    for faster, slower in ((DYNAMIC, PAIRWISE), (OURS, UNIFORM), (OURS, DYNAMIC)):
        if faster in steps and slower in steps:
            yield as_or_unlike(
                f"{dataset}: {faster} converges in {steps[faster]:,} steps and {slower} in "
                f"{steps[slower]:,}",
                steps[faster] < steps[slower],
                f"where {faster} is the faster",
            )
    best = {name: _best(record) for name, record in records.items()}
    for better, worse in ((DYNAMIC, PAIRWISE), (PAIRWISE, UNIFORM), (OURS, DYNAMIC)):
        if better not in best or worse not in best:
            continue
        told = f"{dataset}: {better} reaches nDCG@20 {figure(best[better])} and {worse} "
        told += figure(best[worse])
        if all("test-curve" in records[name]["cell"] for name in (better, worse)):
            yield as_or_unlike(told, best[better] > best[worse], f"where {better} is the better")
        else:  # the paper speaks of the test part, and the verdict judges that
            yield f"{told} on validation pairs."
