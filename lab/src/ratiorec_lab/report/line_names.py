"""Where the names of lines stand: at their ends, beside them, or in a legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ratiorec_lab.report.frame import SIZE, WIDTH, Frame
from ratiorec_lab.report.inside_labels import inside_labels
from ratiorec_lab.report.legend import (
    GAP,
    Line,
    end_label_heights,
    end_labels,
    legend,
    legend_rows,
    reaches_the_end,
)
from ratiorec_lab.report.lettering import text_width
from ratiorec_lab.report.markup import Markup, join


class FitFrame(Protocol):
    """Makes the frame of a chart, with room for names beside or above the data."""

    def __call__(self, *, right_margin: float = 0.0, n_legend_rows: int = 0) -> Frame: ...


def name_lines(lines: Sequence[Line], fit: FitFrame, *, names_inside: bool) -> tuple[Frame, Markup]:
    """The names where they tell most, and the frame that leaves room for them."""
    named = [line for line in lines if line.is_labelled] or lines
    found = _at_ends(named, fit)
    if found is None and names_inside:
        found = _at_ends_or_inside(named, lines, fit)
    return _in_legend(named, fit) if found is None else found


def _at_ends(named: Sequence[Line], fit: FitFrame) -> tuple[Frame, Markup] | None:
    room = GAP + max(text_width(line.name, SIZE) for line in named)
    frame = fit(right_margin=room)
    if room > 0.3 * WIDTH:
        return None
    heights = end_label_heights(named, frame)
    return None if heights is None else (frame, end_labels(named, heights, frame))


def _at_ends_or_inside(
    named: Sequence[Line], lines: Sequence[Line], fit: FitFrame
) -> tuple[Frame, Markup] | None:
    """Lines that end early are named inside, the others at their ends if that can be."""
    frame = fit()
    late = [line for line in named if reaches_the_end(line, frame)]
    early = [line for line in named if not reaches_the_end(line, frame)]
    at_ends = _at_ends(late, fit) if late and early else None
    if at_ends is not None:
        inside = inside_labels(early, lines, at_ends[0])
        if inside is not None:
            return at_ends[0], join(at_ends[1], inside)
    inside = inside_labels(named, lines, frame)
    return None if inside is None else (frame, inside)


def _in_legend(named: Sequence[Line], fit: FitFrame) -> tuple[Frame, Markup]:
    rows = legend_rows(named)
    frame = fit(n_legend_rows=len(rows))
    return frame, legend(rows, frame)
