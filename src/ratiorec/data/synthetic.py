"""Synthetic pairs, drawn from a known distribution so that the true ratio is known.

Themes stand evenly on a circle. An item of a theme lies near it, a user near a favourite one,
and a user likes an item the more, the smaller the angle between them; so neighbouring themes
share their fans. With popularity a power law over a random order of the items,

    p(i|u,+) ∝ popularity_i · exp(taste_strength · cos(angle_u − angle_i)).

The risk takes its unlabelled mean over all items alike, which makes p(i|u) uniform, and the
ratio that a perfect model would find is r(i|u) = p(i|u,+) / p(i|u) = |I| · p(i|u,+). Its
logarithm has rank four at most, so inner products of short vectors can express it.

A user's pairs must be distinct, and plain drawing without replacement would take likely items
less often than their share. Systematic sampling does not: an item is among the n pairs of a
user with probability n · p(i|u,+) exactly, as long as that is no more than one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.split import RatioSplit
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, require_range

EMBEDDED_SEED = 0

_FLAT_HEAD = 5  # ranks start at |I|/5: no item is so popular that every user must have it
_USER_SPREAD, _ITEM_SPREAD = 0.4, 0.15  # radians around a theme
_FEWEST, _MOST = 0.75, 1.25  # pairs of a user, in units of the mean

_GIVEN_NAMES = (
    "Ada Bela Cleo Dora Emil Faye Gus Hana Ines Jonas Kira Leo Mira "
    "Nils Orla Piet Quinn Rosa Sami Tess Ugo Vera Wim Xenia Yara Zeno"
)
_ADJECTIVES = (
    "Quiet Amber Wandering Hidden Silver Restless Golden Distant Patient Crimson Hollow Early"
)
_NOUNS_BY_THEME = (
    "Harbour Tide Lighthouse Anchor Reef Lagoon Sail Gull Jetty Current Pearl Estuary",
    "Summit Ridge Glacier Avalanche Goat Cairn Gorge Slope Hut Chamois Boulder Pass",
    "Comet Orbit Nebula Eclipse Satellite Meteor Zenith Quasar Moon Rocket Horizon Aurora",
    "Cog Spring Bellows Anvil Lathe Pendulum Piston Rivet Gauge Furnace Chisel Dynamo",
    "Avenue Tram Rooftop Arcade Lantern Corner Kiosk Stairwell Plaza Neon Balcony Bridge",
    "Orchard Fern Hedge Nettle Plum Trellis Poppy Beehive Meadow Willow Clover Thistle",
)


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """Drawn pairs, and the ratio r(i|u) they were drawn by, users by items."""

    dataset: Dataset
    ratio: NDArray[np.float64]


@dataclass(frozen=True)
class Synthetic:
    """A population of users and items whose true ratio is known.

    Users have between ¾ and 5/4 of `mean_pairs`, but no more than can be drawn when no item
    may come twice; `test_fraction` of each user's pairs are the test part.
    """

    n_users: int = 1500
    n_items: int = 500
    n_clusters: int = 6
    popularity_exponent: float = 1.0
    taste_strength: float = 1.0
    mean_pairs: int = 70
    test_fraction: float = 0.2

    def __post_init__(self) -> None:
        require_range("Synthetic.n_clusters", self.n_clusters, at_least=1)
        require_range("Synthetic.n_users", self.n_users, at_least=2)
        require_range("Synthetic.n_items", self.n_items, at_least=2)
        require_range("Synthetic.mean_pairs", self.mean_pairs, at_least=2, below=self.n_items + 1)
        require_range("Synthetic.popularity_exponent", self.popularity_exponent, at_least=0)
        require_range("Synthetic.taste_strength", self.taste_strength, at_least=0)
        RatioSplit(self.test_fraction)

    def __call__(self, *, rng: np.random.Generator) -> SyntheticData:
        item_clusters = rng.permutation(np.arange(self.n_items) % self.n_clusters)
        share = self._positive_distribution(item_clusters, rng)
        drawn = draw_distinct(share, self._sizes(share, rng), rng=rng)
        pairs = Interactions.from_indices(
            _numbered(_GIVEN_NAMES, self.n_users, kind="user"),
            _numbered("item", self.n_items, kind="item").with_names(item_names(item_clusters)),
            *np.nonzero(drawn),
        )
        split = RatioSplit(self.test_fraction)(pairs, rng=rng)
        return SyntheticData(
            Dataset("synthetic", split.train, split.held_out), share * self.n_items
        )

    def _positive_distribution(
        self, item_clusters: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """p(i|u,+), users by items, each row a distribution."""
        user_clusters = rng.integers(0, self.n_clusters, self.n_users)
        ranks = rng.permutation(self.n_items) + 1 + self.n_items / _FLAT_HEAD
        turn = 2 * np.pi / self.n_clusters
        user_angles = turn * user_clusters + rng.normal(0, _USER_SPREAD, self.n_users)
        item_angles = turn * item_clusters + rng.normal(0, _ITEM_SPREAD, self.n_items)
        alikeness = np.cos(np.subtract.outer(user_angles, item_angles))
        taste = np.exp(self.taste_strength * alikeness)
        share: NDArray[np.float64] = taste * ranks**-self.popularity_exponent
        share /= share.sum(axis=1, keepdims=True)
        return share

    def _sizes(self, share: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        fewest, most = (round(part * self.mean_pairs) for part in (_FEWEST, _MOST))
        possible = np.floor(1 / share.max(axis=1)).astype(np.int64)
        if possible.min() < 2:
            raise ConfigError(
                "some user would draw hardly any item but one",
                where="Synthetic.popularity_exponent and taste_strength",
                found=f"a share of {share.max():.2f} for one item",
                wanted="smaller ones, so that no share is above one half",
            )
        wished = rng.integers(fewest, most + 1, self.n_users)
        sizes: NDArray[np.int64] = np.minimum(wished, possible)
        return sizes


def embedded() -> SyntheticData:
    """The draw that `load("synthetic")` gives: default settings, seed `EMBEDDED_SEED`."""
    return Synthetic()(rng=np.random.default_rng(EMBEDDED_SEED))


def draw_distinct(
    share: NDArray[np.float64], sizes: NDArray[np.int64], *, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw `sizes[u]` distinct items, each with probability exactly `sizes[u] * share[u, i]`.

    Systematic sampling: items lie in random order on a line, each as long as its probability,
    and every whole step from a random start marks one. No probability may be above one.
    """
    order = rng.permuted(np.tile(np.arange(share.shape[1]), (len(share), 1)), axis=1)
    ends = np.cumsum(np.take_along_axis(share, order, axis=1) * sizes[:, None], axis=1)
    ends[:, -1] = sizes  # the sum of the shares is one only up to rounding
    marks_before_end = np.ceil(ends - rng.random((len(share), 1)))
    is_marked = np.diff(marks_before_end, axis=1, prepend=0) > 0
    drawn = np.zeros_like(is_marked)
    np.put_along_axis(drawn, order, is_marked, axis=1)
    return drawn


def item_names(clusters: NDArray[np.int64]) -> list[str]:
    """A name for each item, no two alike; the noun tells the theme.

    >>> item_names(np.array([0, 1, 0]))
    ['Quiet Harbour', 'Quiet Summit', 'Amber Tide']
    """
    n_used = [0] * len(_NOUNS_BY_THEME)
    names = []
    for cluster in clusters.tolist():
        theme = cluster % len(_NOUNS_BY_THEME)
        names.append(_name(n_used[theme], _NOUNS_BY_THEME[theme].split()))
        n_used[theme] += 1
    return names


def _name(number: int, nouns: list[str]) -> str:
    """The number-th name with these nouns: all combinations first, then a second edition."""
    adjectives = _ADJECTIVES.split()
    edition, place = divmod(number, len(adjectives) * len(nouns))
    row, column = divmod(place, len(adjectives))
    name = f"{adjectives[column]} {nouns[(row + column) % len(nouns)]}"
    return name if edition == 0 else f"{name} {edition + 1}"


def _numbered(words: str, n: int, *, kind: str) -> Vocabulary:
    """Ids such as Ada-003: the words in turn, each with its index."""
    cycle = words.split()
    width = max(3, len(str(n - 1)))
    ids = [f"{cycle[index % len(cycle)]}-{index:0{width}}" for index in range(n)]
    return Vocabulary(np.array(ids, dtype=object), kind)
