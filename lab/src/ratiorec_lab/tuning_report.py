"""A search for settings as a page: its course, what mattered, and what each setting did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ratiorec.data.interactions import Dataset
from ratiorec.training.search_space import RANGES, Range
from ratiorec.training.tune import Trial, Tuning
from ratiorec_lab.report import charts, page
from ratiorec_lab.report.page import Cell, Table
from ratiorec_lab.report.writing import format_column

_MOST_ROWS = 20
_MOST_SLICES = 8


def write_report(tuning: Tuning, dataset: Dataset, path: Path, *, seed: int, device: str) -> None:
    """One HTML file with everything that is known about a search."""
    best = tuning.ranked[0]
    states = [trial.state for trial in tuning.trials]
    counts = ", ".join(f"{states.count(one)} {one}" for one in ("done", "pruned", "failed"))
    sections = [
        page.Section("At a glance", [page.Columns(_glance(tuning))]),
        _slices(tuning, best.preset),
        _trial_section(tuning),
        _failures(tuning),
    ]
    page.write(
        page.Page(
            title=f"Settings of {best.preset} for {dataset.name}",
            lead=f"{len(states)} trials ({counts}) with seed {seed} on {device}, each judged on "
            f"the held-out pairs of {tuning.n_validation_users:,} users, drawn by "
            f"{tuning.validation_by}. The best has nDCG@20 {best.score:.4f}.",
            sections=[section for section in sections if section.blocks],
            footer="Made by ratiorec tune.",
        ),
        path,
    )


def _glance(tuning: Tuning) -> list[page.Figure]:
    figures = [_course(tuning)]
    name = tuning.ranked[0].preset
    if shares := tuning.importance.get(name):
        chart = charts.bar_chart(
            [charts.Bar(_words(path), share) for path, share in shares.items()],
            title=f"What matters for {name}",
            value_label="importance, all settings together 1",
            write=format_column(list(shares.values())),
        )
        note = "How far the best trials agree in a setting while others differ (PED-ANOVA)."
        figures.append(page.Figure(chart, note))
    return figures


def _words(path: str) -> str:
    """A setting without its table, in words that a line may be broken between."""
    return path.partition(".")[2].replace("_", " ").replace(".", " ")


def _course(tuning: Tuning) -> page.Figure:
    names = dict.fromkeys(trial.preset for trial in tuning.ranked)
    chart = charts.line_chart(
        [charts.Series(name, *_best_so_far(tuning.trials, name)) for name in names],
        title="The best so far",
        x_label="trial",
        y_label="nDCG@20, validation pairs",
    )
    return page.Figure(chart, "A line begins with its preset as it is.")


def _best_so_far(trials: Sequence[Trial], name: str) -> tuple[list[int], list[float]]:
    """Steps from the first trial of a preset to the last trial of all."""
    places: list[int] = []
    scores: list[float] = []
    for place, trial in enumerate(trials, 1):
        is_better = not scores or trial.score > scores[-1]
        if trial.preset == name and trial.state == "done" and is_better:
            places += [place] * (1 + bool(scores))
            scores += [*scores[-1:], trial.score]
    return [*places, len(trials)], [*scores, scores[-1]]


def _slices(tuning: Tuning, name: str) -> page.Section:
    """A drawing for each setting of a preset, the most important first."""
    done = [trial for trial in tuning.ranked if trial.preset == name]
    paths = list(tuning.importance.get(name, done[0].settings))[:_MOST_SLICES]
    figures = [_slice(done, path) for path in paths] if len(done) > 1 else []
    return page.Section("What does each setting do?", [page.Columns(figures)] if figures else [])


def _slice(done: Sequence[Trial], path: str) -> page.Figure:
    known = RANGES[path.removeprefix("second.")]
    is_log = not isinstance(known, Range) or known.log
    chart = charts.scatter_chart(
        [trial.settings[path] for trial in done],
        [trial.score for trial in done],
        title=path,
        x_label=f"{path}, logarithmic" if is_log else path,
        y_label="nDCG@20",
        log_x=is_log,
    )
    best = done[0].settings[path]
    return page.Figure(chart, f"A point is a trial that came to its end; the best has {best:g}.")


def _trial_section(tuning: Tuning) -> page.Section:
    rows: list[list[Cell]] = []
    for trial in tuning.ranked[:_MOST_ROWS]:
        assert trial.validation is not None
        changes = [f"{setting} {value:g}" for setting, value in tuning.changes(trial).items()]
        told = "; ".join(changes) or "as it is"
        figures = (trial.score, trial.validation["recall@20"], trial.seconds, trial.epochs)
        rows.append([trial.preset, *figures, told])
    headers = ["", "nDCG@20", "Recall@20", "seconds", "epochs", "settings"]
    return page.Section("Which trials were best?", [Table(headers, rows, "Validation pairs")])


def _failures(tuning: Tuning) -> page.Section:
    failed = [(one.preset, one.why) for one in tuning.trials if one.state == "failed"]
    reasons: list[list[Cell]] = [[name, why] for name, why in dict.fromkeys(failed)]
    reasons += [[name, why] for name, why in tuning.left_out.items()]
    table = Table(["", "reason"], reasons, "Presets or trials without figures")
    return page.Section("What could not run?", [table] if reasons else [])
