"""Plots of a fit and of a comparison (extra `plots`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ratiorec.errors import DataError, require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ratiorec.training.compare import PresetResult

_METRIC = "ndcg@20"


def plot_curve(card: Mapping[str, Any]) -> Axes:
    """nDCG@20 on the validation pairs against the seconds spent, a line for each search."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for record in card.get("curve") or ():
        if record.get("validation"):
            name = str(record["phase"]).removesuffix("search").strip() or str(card.get("preset"))
            curves.setdefault(name, []).append((record["seconds"], record["validation"][_METRIC]))
    if not curves:
        raise DataError(
            "there is no curve to plot",
            where="plot",
            found="no validation in this model's card",
            wanted="a model that was fitted with validation pairs",
        )
    axes = _axes("seconds", f"validation {_METRIC}")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.legend(fontsize="small")
    return axes


def plot_comparison(results: Sequence[PresetResult]) -> Axes:
    """nDCG@20 of each preset, best on top, with 95 % intervals where the test users give them."""
    axes = _axes(_METRIC, "")
    for place, result in enumerate(reversed(results)):
        assert result.figures is not None
        value, intervals = result.figures.metrics[_METRIC], result.figures.intervals or {}
        low, high = intervals.get(_METRIC, (value, value))
        axes.barh(place, value, color="#4c78a8", height=0.6)
        axes.plot([low, high], [place, place], color="black", linewidth=1.5)
    axes.set_yticks(range(len(results)), [result.preset for result in reversed(results)])
    return axes


def _axes(x: str, y: str) -> Axes:
    pyplot = require_extra("matplotlib.pyplot", "plots", where="plot")
    axes: Axes = pyplot.subplots(figsize=(7, 4), layout="constrained")[1]
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    return axes
