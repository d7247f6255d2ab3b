"""Evidence of how the public test parts were drawn: the ends of the users' lines, or random shares.

    python -m ratiorec_lab.studies.public_splits --data gowalla,yelp2018

For each data set: the drift in log popularity from train to test items, from a random share of the
same size to the rest, and from the rest of each train line to its last tenth; the agreement of
neighbours, which is 1 where the lines are sorted and their order says nothing; the correlation of
an item's mean place in the train lines with its share in the test part; and how hard a random
tenth, the last tenth and the test part are for one model.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

import ratiorec as rr
from ratiorec.data.benchmarks import load
from ratiorec.data.describe import neighbour_agreement, order_evidence, popularity_drift
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.split import VALIDATION_BY, LeaveLast, RatioSplit
from ratiorec_lab.studies.study import parser, tell

DATA = "gowalla,yelp2018,amazon-cds,amazon-book-75"
TENTH = 0.1
MANY_PAIRS = 20  # an item's share in the test part is a coarse figure with fewer


def main() -> None:
    """Look at every data set."""
    options = parser(__doc__)
    options.add_argument("--data", default=DATA, help="Names with commas between them.")
    options.add_argument("--preset", default="item-knn", help="The model that is asked.")
    asked = options.parse_args()
    tell(
        {
            "preset": asked.preset,
            "datasets": [evidence(load(name), asked.preset) for name in asked.data.split(",")],
        }
    )


def evidence(dataset: Dataset, preset: str) -> dict[str, Any]:
    """The figures of one data set."""
    train, test = dataset.train, dataset.test
    assert test is not None
    popularity = train.item_degrees + test.item_degrees
    drawn = RatioSplit(test.n_pairs / (train.n_pairs + test.n_pairs))(
        _together(train, test), rng=np.random.default_rng(0)
    )
    last = LeaveLast(fraction=TENTH)(train)
    agreement, n_compared = neighbour_agreement(train)
    verdict = order_evidence(train)
    return {
        "dataset": dataset.name,
        "data_sha256": train.sha256,
        "test_against_train": asdict(popularity_drift(train, test, popularity)),
        "random_share_against_rest": asdict(
            popularity_drift(drawn.train, drawn.held_out, popularity)
        ),
        "last_tenth_against_rest": asdict(
            popularity_drift(last.train, last.held_out, train.item_degrees)
        ),
        "neighbours": {"agreement": agreement, "compared": n_compared},
        "place_and_share_in_test": place_and_share(train, test),
        "order_is_informative": verdict.is_informative,
        "sentence": verdict.sentence,
        "recall@20": recalls(dataset, preset),
    }


def place_and_share(train: Interactions, test: Interactions) -> dict[str, float]:
    """The correlation, over items, of mean place in a line and share in the test part."""
    places = np.empty(train.n_pairs)
    ranks = np.arange(train.n_pairs) - np.repeat(train.indptr[:-1], train.user_degrees)
    places[train.by_moment()] = (ranks + 0.5) / train.user_degrees[train.pair_users]
    n_pairs = train.item_degrees + test.item_degrees
    chosen = (n_pairs >= MANY_PAIRS) & (train.item_degrees > 0)
    mean = np.bincount(train.indices, places, train.n_items)[chosen] / train.item_degrees[chosen]
    share = test.item_degrees[chosen] / n_pairs[chosen]
    return {"correlation": float(np.corrcoef(mean, share)[0, 1]), "items": int(chosen.sum())}


def recalls(dataset: Dataset, preset: str) -> dict[str, float]:
    """R@20 of one model on a random tenth and the last tenth of train, and on the test part."""
    assert dataset.test is not None
    parts = {"test": (dataset.train, dataset.test)}
    for by in ("random", "last"):
        split = VALIDATION_BY[by](TENTH)(dataset.train, rng=np.random.default_rng(0))
        parts[f"{by} tenth"] = (split.train, split.held_out)
    found = {}
    for name, (train, held_out) in parts.items():
        model = rr.fit(train, preset=preset, device="cpu", options=rr.FitOptions(validation=0))
        found[name] = model.evaluate(held_out, ks=(20,)).value("recall@20")
    return found


def _together(train: Interactions, test: Interactions) -> Interactions:
    users, items = (
        np.concatenate([getattr(part, name) for part in (train, test)])
        for name in ("pair_users", "indices")
    )
    return Interactions.from_indices(train.users, train.items, users, items)


if __name__ == "__main__":
    main()
