from __future__ import annotations

import numpy as np
import torch

from ratiorec.risk.pairs import CrossedPairs, ListedPairs
from reference.comparison import random_embeddings
from small_data import random_batch


def test_listed_pairs_are_entries_of_the_crossed_ones() -> None:
    rng = np.random.default_rng(4)
    batch = random_batch(rng, n_users=6, n_items=9)
    embeddings = random_embeddings(rng, n_users=6, n_items=9, largest_score=3)
    no_ratio = torch.empty(len(batch.users), len(batch.candidates))
    listed = ListedPairs(batch, torch.empty(len(batch.rows)))
    crossed = CrossedPairs(batch, slice(None), slice(None), no_ratio)
    torch.testing.assert_close(
        listed.scores(embeddings), crossed.scores(embeddings)[batch.rows, batch.columns]
    )
    assert torch.equal(listed.popularity, crossed.popularity[batch.columns])


def test_a_tile_of_crossed_pairs_is_a_part_of_the_whole() -> None:
    rng = np.random.default_rng(4)
    batch = random_batch(rng, n_users=6, n_items=9)
    embeddings = random_embeddings(rng, n_users=6, n_items=9, largest_score=3)
    whole = CrossedPairs(batch, slice(None), slice(None), torch.empty(0))
    tile = CrossedPairs(batch, slice(1, 3), slice(2, 4), torch.empty(0))
    torch.testing.assert_close(tile.scores(embeddings), whole.scores(embeddings)[1:3, 2:4])
    assert torch.equal(tile.popularity, whole.popularity[2:4])
