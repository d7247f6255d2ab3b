"""What models make of pairs that come in after training, from the files that judge it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ratiorec_lab.reproduce.exhibits import Measured

HERE = Path(__file__).parent
NAMES = {"gowalla": "Gowalla", "yelp2018": "Yelp2018"}
FIGURES = {"recall@20": "R@20", "ndcg@20": "nDCG@20"}
HELD_OUT = {
    "users": "a tenth of the users",
    "pairs": "3/10 of the pairs of 3/10 of the users",
    "items": "a tenth of the items",
}
OTHERS = ("others_before", ("others_before", "others_update"))
LISTS = {  # whose lists: what stands under before, `partial_fit` and `update`
    "users": {"theirs": ("", ("partial_fit", "update")), "the others'": OTHERS},
    "pairs": {"theirs": ("before", ("partial_fit", "update")), "the others'": OTHERS},
    "items": {
        "everybody's": ("", ("partial_fit", "update")),
        "everybody's, by the new items alone": ("", ("items_partial_fit", "items_update")),
    },
}


def table() -> str:
    """Percent of the figures of a model trained on all pairs, with Student's 95 % intervals."""
    lines = [
        "| what comes in | whose lists | figure | before | `partial_fit` | `update` |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(HERE.glob("bench-fold_in_quality*.json"), key=lambda path: path.stem):
        lines += rows(json.loads(path.read_text(encoding="utf-8"))["result"], path.name)
    return "\n".join(lines)


def rows(result: dict[str, Any], file: str) -> Iterator[str]:
    """Of one file: whom the pairs are about, then the others."""
    name, held_out = NAMES[result["data"]], HELD_OUT[result["held_out"]]
    what = f"{name}, {held_out} ([{len(result['splits'])} splits](../results/{file}))"
    for whose, (before, ways) in LISTS[result["held_out"]].items():
        for metric, label in FIGURES.items():
            cells = [percent(result["splits"], key, metric) for key in (before, *ways)]
            yield f"| {what} | {whose} | {label} | {' | '.join(cells)} |"
            what = ""


def percent(splits: list[dict[str, Any]], key: str, metric: str) -> str:
    """A mean and its interval; nothing where there was nothing before."""
    if not key:
        return ""
    values = tuple(100 * split["ratios"][key][metric] for split in splits)
    found = Measured(values).interval
    assert found is not None
    return f"{statistics.fmean(values):.1f} ({found[0]:.1f} to {found[1]:.1f})"
