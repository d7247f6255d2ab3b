from __future__ import annotations

import numpy as np
import pytest

from ratiorec.errors import ConfigError, ModelError
from ratiorec.scorers import PopularityScorer
from support.small_scorers import rows_of

COUNTS = np.array([3, 0, 7], np.float32)


def test_everyone_has_the_same_scores() -> None:
    assert PopularityScorer(COUNTS, 9).scores(np.array([8, 0])).tolist() == [[3, 0, 7], [3, 0, 7]]


def test_there_are_as_many_users_as_histories() -> None:
    again = PopularityScorer.from_arrays(
        PopularityScorer(COUNTS, 2).arrays(), rows_of([[0], [], [1, 2]])
    )
    assert again.n_users == 3


def test_there_is_no_similarity_and_the_message_says_what_has_one() -> None:
    with pytest.raises(
        ConfigError, match=r"no similarity.*found: popularity.*wanted: .*neighbours"
    ):
        PopularityScorer(COUNTS, 9).similarity()


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (COUNTS.astype(np.float64), r"malformed.*counts.*float64 \[3\].*float32 \[n_items\]"),
        (COUNTS[None], r"malformed.*float32 \[1, 3\]"),
        (np.array([1, np.nan], np.float32), "not finite"),
        (np.array([1, -np.inf], np.float32), "not finite"),
    ],
)
def test_malformed_counts_are_refused(counts: np.ndarray, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        PopularityScorer(counts, 2)
