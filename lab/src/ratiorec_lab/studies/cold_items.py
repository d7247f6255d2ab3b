"""Items that nobody has had, told by their content: held out entirely, and ranked among themselves.

    python -m ratiorec_lab.studies.cold_items --data ml-100k
    python -m ratiorec_lab.studies.cold_items --data synthetic

A fifth of the items is held out with all pairs, the model is trained without them, and its lists
are of the held-out items alone. Several draws of items, each with its own training; a user's figure
is the mean over the draws, and the intervals are over users. Rivals know no user: the number of
users that the content makes probable (the same ridge regression of popularity), and chance. On
ml-100k the content is genres, the words of the title and the year; on the synthetic set, whose
pairs follow themes, it is the item's name, whose noun is of the theme. Nothing is chosen on
held-out items.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers, Tags, Texts
from ratiorec.data.benchmarks import fetch, load
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.evaluation.evaluate import Report
from ratiorec.evaluation.intervals import intervals_of, mean
from ratiorec.training.cold_items import CONTENT, POPULARITY, RANDOM, evaluate_cold_items
from ratiorec.training.fit import FitOptions
from ratiorec_lab.studies.study import parser, tell

SHARE, K = 0.2, 20
METRICS = (f"recall@{K}", f"ndcg@{K}")
PRESETS = {"ml-100k": "ease,item-knn,softmax,dregn-cf-fast", "synthetic": "ease,item-knn,softmax"}


def main() -> None:
    """Every preset with all attributes, and the first with each attribute alone."""
    options = parser(__doc__)
    options.add_argument("--data", choices=sorted(PRESETS), default="ml-100k")
    options.add_argument("--presets", default=None)
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--max-seconds", type=float, default=60)
    options.add_argument("--data-dir", default=None)
    asked = options.parse_args()
    data = load(asked.data, data_dir=asked.data_dir).train
    table = movies(data, asked.data_dir) if asked.data == "ml-100k" else names(data)
    data = replace(data, items=Vocabulary(data.items.ids, "item"))  # names would be content, too
    presets = (asked.presets or PRESETS[asked.data]).split(",")
    rows = [judged(data, table, preset, asked) for preset in presets]
    if len(table.columns) > 1:
        for name, column in table.columns.items():
            one = Attributes(table.n_rows, {name: column})
            rows.append(judged(data, one, presets[0], asked))
    tell(
        {
            "dataset": asked.data,
            "items": data.n_items,
            "users": data.n_users,
            "pairs": data.n_pairs,
            "share": SHARE,
            "draws": asked.draws,
            "rows": rows,
        }
    )


def judged(
    data: Interactions, table: Attributes, preset: str, asked: argparse.Namespace
) -> dict[str, Any]:
    """Figures of one preset over all draws."""
    started = time.perf_counter()
    found = [
        evaluate_cold_items(
            data,
            table,
            share=SHARE,
            ks=(K,),
            seed=seed,
            preset=preset,
            device="cpu",
            options=FitOptions(max_seconds=asked.max_seconds),
        )
        for seed in range(asked.draws)
    ]
    pooled = {
        name: over_draws([one.reports[name] for one in found], data.n_users)
        for name in (CONTENT, POPULARITY, RANDOM)
    }
    ahead = {
        name: told({m: pooled[CONTENT][m] - pooled[name][m] for m in METRICS})
        for name in (POPULARITY, RANDOM)
    }
    return {
        "preset": preset,
        "attributes": list(table.columns),
        "held_out": found[0].counts["held_out"],
        "ridges": [one.model.card["cold_items"] for one in found],
        **{name: told(figures) for name, figures in pooled.items()},
        "ahead_of": ahead,
        "seconds": time.perf_counter() - started,
    }


def over_draws(reports: Sequence[Report], n_users: int) -> dict[str, NDArray[np.float64]]:
    """Of each user the mean over the draws that judge it; NaN for one whom none does."""
    sums = {name: np.zeros(n_users) for name in METRICS}
    counts = np.zeros(n_users)
    for report in reports:
        counts[report.users] += 1
        for name in METRICS:
            sums[name][report.users] += report.per_user[name]
    return {name: np.where(counts > 0, sums[name] / counts.clip(1), np.nan) for name in METRICS}


def told(per_user: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, float]]:
    """Means with 95 % intervals over the users judged."""
    judged_users = {name: values[~np.isnan(values)] for name, values in per_user.items()}
    return {
        name: {"value": mean(judged_users[name]), "low": low, "high": high}
        for name, (low, high) in intervals_of(judged_users, 0).items()
    }


def movies(data: Interactions, data_dir: str | None) -> Attributes:
    """Genres, title and year, from the file of items beside the pairs."""
    path = fetch("ml-100k", data_dir=data_dir) / "ml-100k.item"
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    of_item = {int(item): rest for item, *rest in lines}
    titles, years, genres = zip(*(of_item[int(item)] for item in data.items.ids), strict=True)
    numbers = [float(year) if year.isdigit() else np.nan for year in years]
    return Attributes(
        data.n_items,
        {
            "genres": Tags.of([words.split() for words in genres]),
            "title": Texts(np.array(titles, object)),
            "year": Numbers(np.array(numbers)),
        },
    )


def names(data: Interactions) -> Attributes:
    """The names of the items."""
    assert data.items.names is not None
    return Attributes(data.n_items, {"name": Texts(data.items.names)})


if __name__ == "__main__":
    main()
