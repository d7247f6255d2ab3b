"""Accuracy against variety of lists, for several strengths of the rule that makes them diverse.

    python -m ratiorec_lab.studies.diversity --data ml-100k
    python -m ratiorec_lab.studies.diversity --data gowalla --preset dregn-cf-fast --max-seconds 240

One model is trained on the training pairs; its lists of 20 are made anew for each strength
(theory: L3) and judged on the test part, or on a random fifth of each user's pairs where the data
have none. Diversity is told twice: by the users of the listed items (theory: M9), and by the
vectors that the rule itself looks at, as 1 − the mean cosine of two listed items. Nothing is chosen
on the test pairs. Intervals are 95 %, over users.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import ratiorec as rr
from ratiorec.data.benchmarks import load
from ratiorec.evaluation.evaluate import evaluate
from ratiorec.evaluation.intervals import intervals_of
from ratiorec.model.artifact import Artifact
from ratiorec.reranking.reranker import Reranker
from ratiorec.scorers import FloatMatrix, Indices, Scorer
from ratiorec.scorers.scorer import Pairs
from ratiorec.scorers.topk import Exact, Progress, Ranking
from ratiorec.training.compare import with_test_part
from ratiorec_lab.studies.study import parser, tell

STRENGTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
K = 20
TEST_SHARE = 0.2
BY_USERS, BY_VECTORS = f"diversity@{K}", f"vector_diversity@{K}"
JUDGED = (f"ndcg@{K}", f"recall@{K}", BY_USERS)


@dataclass(frozen=True, eq=False)
class Reranked:
    """Ranks as a model does under rules, and keeps what it has listed."""

    exact: Exact
    pick: Reranker
    listed: list[Ranking]

    def stream(
        self,
        scorer: Scorer,
        users: Indices,
        *,
        seen: Pairs | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Ranking]:
        """Blocks of lists."""
        for block in self.exact.stream(scorer, users, seen=seen, pick=self.pick, progress=progress):
            self.listed.append(block)
            yield block


def main() -> None:
    """Train once, then rank for each strength."""
    options = parser(__doc__)
    options.add_argument("--data", default="ml-100k")
    options.add_argument("--preset", default="dregn-cf")
    options.add_argument("--max-seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--data-dir", default=None)
    asked = options.parse_args()
    given = load(asked.data, data_dir=asked.data_dir)
    dataset = with_test_part(given, TEST_SHARE, seed=asked.seed, by="random")
    model = rr.fit(
        dataset,
        preset=asked.preset,
        seed=asked.seed,
        max_seconds=asked.max_seconds,
        device="cpu",
        progress=False,
    )
    assert dataset.test is not None
    curve = [judged(model, dataset.test, strength) for strength in STRENGTHS]
    tell(
        {
            "dataset": asked.data,
            "preset": asked.preset,
            "seed": asked.seed,
            "steps": model.card["steps"],
            "test": "a random fifth" if dataset is not given else "the test part",
            "k": K,
            "curve": curve,
        }
    )


def judged(model: Artifact, test: Pairs, strength: float) -> dict[str, Any]:
    """Figures of the lists of one strength."""
    pick = model.shelf.reranker(rr.Rules(diversity=strength), K, model.seen)
    ranker = Reranked(Exact(K), pick, [])
    report = evaluate(
        model.scorer, model.seen, test, ks=(K,), ranker=lambda _: ranker, background=model.seen
    )
    lists = np.concatenate([block.items for block in ranker.listed])
    vectors: FloatMatrix | None = getattr(model.scorer, "item_vectors", None)
    per_user = {name: report.per_user[name] for name in JUDGED}
    if vectors is not None:
        per_user[BY_VECTORS] = vector_diversity(lists, vectors)
    return {
        "strength": strength,
        "users": len(report.users),
        **{
            name: {"value": float(np.nanmean(per_user[name])), "low": low, "high": high}
            for name, (low, high) in intervals_of(per_user, report.seed).items()
        },
    }


def vector_diversity(lists: Indices, vectors: FloatMatrix) -> np.ndarray[Any, np.dtype[np.float64]]:
    """1 − the mean cosine of the vectors of two listed items; NaN for fewer than two.

    >>> vector_diversity(np.array([[0, 1], [0, 2]]), np.array([[1, 0], [0, 2], [3, 0]], np.float32))
    array([1., 0.])
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(lengths > 0, lengths, 1)
    is_item = lists >= 0
    totals = np.zeros((len(lists), vectors.shape[1]))
    for items, there in zip(lists.T, is_item.T, strict=True):
        totals += np.where(there[:, None], directions[items], 0)
    n = is_item.sum(axis=1)
    itself = np.where(is_item, (lengths[:, 0] > 0)[lists], False).sum(axis=1)
    mean = (np.square(totals).sum(axis=1) - itself) / np.maximum(n * (n - 1), 1)
    return np.where(n > 1, 1 - mean, np.nan)


if __name__ == "__main__":
    main()
