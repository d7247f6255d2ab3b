"""Random data of a given size, to stand in for real ones where only the size matters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.scorers import FloatMatrix, InnerProduct

# a hundredth of the items then has about a ninth of the pairs, and a tenth two fifths, much as in
# Gowalla and Yelp2018, whatever the number of items
_EXPONENT = 0.75
_FLAT_HEAD = 200  # ranks start at |I|/200
_MOST_SHARE = 0.5  # of all possible pairs: beyond it, drawing anew hardly ever finds another


def random_pairs(n_users: int, n_items: int, n_pairs: int) -> Interactions:
    """About so many pairs, spread evenly over the users; every user and every item has one."""
    rng = np.random.default_rng(0)
    degree = max(1, min(n_items, round(n_pairs / n_users)))
    users = np.repeat(np.arange(n_users), degree)
    # neighbouring items, so that no user has one twice
    first = rng.integers(0, n_items, n_users).repeat(degree)
    items = (first + np.tile(np.arange(degree), n_users)) % n_items
    everyone = np.arange(max(n_users, n_items))
    return dense_pairs(
        n_users,
        n_items,
        np.concatenate([users, everyone % n_users]),
        np.concatenate([items, everyone % n_items]),
    )


def long_tailed_pairs(n_users: int, n_items: int, n_pairs: int) -> Interactions:
    """So many pairs, users alike and items by a power law; every user and every item has one.

    There are more where `n_pairs` would not give everyone one, and fewer where they would be more
    than half of all that are possible.
    """
    rng = np.random.default_rng(0)
    everyone = np.arange(max(n_users, n_items))
    pairs = (everyone % n_users) * n_items + everyone % n_items
    wanted = min(n_pairs, int(_MOST_SHARE * n_users * n_items))
    popularity = (rng.permutation(n_items) + n_items / _FLAT_HEAD) ** -_EXPONENT
    popularity /= popularity.sum()
    while (n_missing := wanted - len(pairs)) > 0:
        n_drawn = n_missing + n_missing // 2 + 1  # some come twice, and a round over all is long
        items = rng.choice(n_items, n_drawn, p=popularity)
        drawn = np.sort(rng.integers(0, n_users, n_drawn) * n_items + items)
        once = drawn[np.diff(drawn, prepend=-1) > 0]
        new = once[~np.isin(once, pairs, assume_unique=True)]
        pairs = np.append(pairs, rng.permutation(new)[:n_missing])
    return dense_pairs(n_users, n_items, *np.divmod(pairs, n_items))


def dense_pairs(
    n_users: int, n_items: int, users: NDArray[np.int64], items: NDArray[np.int64]
) -> Interactions:
    """Pairs of users and items who are called by their numbers."""
    names = Vocabulary.dense(n_users, kind="user"), Vocabulary.dense(n_items, kind="item")
    return Interactions.from_indices(*names, users, items)


def random_model(n_users: int, n_items: int, dimension: int, *, seed: int = 1) -> InnerProduct:
    """Factors whose inner products are neither tied nor large."""
    rng = np.random.default_rng(seed)
    return InnerProduct(_normal(rng, n_users, dimension), _normal(rng, n_items, dimension))


def _normal(rng: np.random.Generator, n: int, dimension: int) -> FloatMatrix:
    return rng.standard_normal((n, dimension), dtype=np.float32) / np.float32(dimension**0.5)
