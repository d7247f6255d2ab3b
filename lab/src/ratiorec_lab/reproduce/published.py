"""Published figures as the paper prints them, and its names of data sets, methods and metrics.

Figures 1 to 5 hold no numbers in writing; what the text says of them stands here. Three places
look like slips and are kept as printed: Table 1 speaks of four data sets and has three; Table 3
has nDCG@20 above R@20 in rows (a) and (b) on Gowalla, and nowhere else; section 5.3 calls
Yelp2018 «Yelp2019» once.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

PAPER_DATASETS = ("gowalla", "yelp2018", "amazon-book")
STAND_IN = "amazon-book-75"  # for amazon-book, where that cannot be had
NOT_THE_PAPERS = ("amazon-cds",)  # shown beside its data sets where methods are compared
SMALL = "synthetic-small"  # of a quick run

METRICS: Mapping[str, str] = MappingProxyType({"recall@20": "R@20", "ndcg@20": "nDCG@20"})
SELECTED_BY = "ndcg@20"

_DATASETS = {"gowalla": "Gowalla", "yelp2018": "Yelp2018", "amazon-book": "Amazon-Book"}
_METHODS = {
    "ngcf": "NGCF",
    "mult-vae": "Mult-VAE",
    "enmf": "ENMF",
    "lightgcn": "LightGCN",
    "lightgcn-dns": "LightGCN-DNS",
    "dregn-cf": "DREGN-CF",
    "dregn-cf-fast": "DREGN-CF (spectral start)",
    "dregn-cf-uniform": "DREGN-CF-UNI-W",
    "bpr-mf": "BPR-MF",
    "wmf": "WMF",
    "ease": "EASE",
    "item-knn": "item-kNN",
    "implicit-als": "implicit's ALS",
}


def dataset_name(name: str) -> str:
    """A data set as the paper writes it; others as they are called here."""
    return _DATASETS.get(name, name)


def method_name(preset: str) -> str:
    """A preset as the paper writes it; others as they are called here."""
    return _METHODS.get(preset, preset)


class Counts(NamedTuple):
    """Size of a data set: a line of Table 1."""

    n_users: int
    n_items: int
    n_pairs: int  # of the training and the test part together
    density: float


class Quality(NamedTuple):
    """R@20 and nDCG@20 of a method on a data set."""

    recall: float
    ndcg: float

    def of(self, metric: str) -> float:
        """The figure of `recall@20` or `ndcg@20`."""
        return {"recall@20": self.recall, "ndcg@20": self.ndcg}[metric]


class PublishedEffort(NamedTuple):
    """Training of a method on one data set as section 5.3 tells it; None where it does not."""

    steps: int | None = None
    seconds_per_step: float | None = None
    seconds: float | None = None


By = Mapping[str, Mapping[str, Quality]]
"""By preset, then by data set."""


def _by_dataset(*figures: float) -> Mapping[str, Quality]:
    pairs = zip(figures[::2], figures[1::2], strict=True)
    return MappingProxyType(
        {name: Quality(*pair) for name, pair in zip(PAPER_DATASETS, pairs, strict=True)}
    )


# Table 1
STATISTICS: Mapping[str, Counts] = MappingProxyType(
    {
        "gowalla": Counts(29_858, 40_981, 1_027_370, 0.00084),
        "yelp2018": Counts(31_668, 38_048, 1_561_406, 0.00130),
        "amazon-book": Counts(52_643, 91_599, 2_984_108, 0.00062),
    }
)

# Table 2
EFFECTIVENESS: By = MappingProxyType(
    {
        "ngcf": _by_dataset(0.1567, 0.1325, 0.0575, 0.0474, 0.0342, 0.0262),
        "mult-vae": _by_dataset(0.1644, 0.1340, 0.0589, 0.0458, 0.0413, 0.0306),
        "enmf": _by_dataset(0.1512, 0.1306, 0.0622, 0.0513, 0.0344, 0.0272),
        "lightgcn": _by_dataset(0.1828, 0.1551, 0.0651, 0.0532, 0.0421, 0.0324),
        "dregn-cf": _by_dataset(0.1810, 0.1541, 0.0687, 0.0564, 0.0482, 0.0378),
    }
)

# not the paper's: figures in circulation for the same splits
ELSEWHERE: By = MappingProxyType(
    {
        "ease": _by_dataset(0.1765, 0.1467, 0.0657, 0.0552, 0.0710, 0.0567),
        "item-knn": _by_dataset(0.1570, 0.1214, 0.0639, 0.0531, 0.0736, 0.0606),
    }
)


class PublicReport(NamedTuple):
    """A figure of a method in a public report on the same split; None where it is not told."""

    source: str
    where: str
    recall: float | None
    ndcg: float
    settings: str


# public figures of matrix factorisation with the BPR loss, each on the split that LightGCN uses
_BARS = "64 dimensions, {} negatives a pair, batches of {}; step chosen on the test part"
_FREEREC = "64 dimensions; others not seen"
_GRECX = "64 dimensions, step not told; others not seen"
_NGCF = "64 dimensions; others not seen, taken from a quotation of its Table 2"
BPR_MF: Mapping[str, tuple[PublicReport, ...]] = MappingProxyType(
    {
        "gowalla": (
            PublicReport("NGCF's article", "arXiv 1905.08108", 0.1291, 0.1109, _NGCF),
            PublicReport("freerec", "github.com/MTandHJ/freerec", 0.1491, 0.1235, _FREEREC),
            PublicReport("BARS", "github.com/reczoo/BARS", 0.1627, 0.1378, _BARS.format(300, 256)),
            PublicReport("GRecX", "github.com/maenzhier/GRecX", None, 0.1400, _GRECX),
        ),
        "yelp2018": (
            PublicReport("NGCF's article", "arXiv 1905.08108", 0.0433, 0.0354, _NGCF),
            PublicReport("freerec", "github.com/MTandHJ/freerec", 0.0570, 0.0460, _FREEREC),
            PublicReport("BARS", "github.com/reczoo/BARS", 0.0576, 0.0468, _BARS.format(50, 1024)),
            PublicReport("GRecX", "github.com/maenzhier/GRecX", 0.0603, 0.0494, _GRECX),
        ),
    }
)

# Table 3, rows (a) to (h)
ABLATION: By = MappingProxyType(
    {
        "pu": _by_dataset(0.1021, 0.1232, 0.0451, 0.0382, 0.0292, 0.0232),
        "dre": _by_dataset(0.1024, 0.1327, 0.0472, 0.0407, 0.0344, 0.0263),
        "dregn-cf-no-is": _by_dataset(0.1808, 0.1542, 0.0689, 0.0566, 0.0496, 0.0386),
        "dregn-cf-no-nn": _by_dataset(0.1798, 0.1537, 0.0683, 0.0563, 0.0481, 0.0375),
        "dregn-cf-uniform": _by_dataset(0.1549, 0.1324, 0.0635, 0.0525, 0.0333, 0.0260),
        "dregn-cf-popularity": _by_dataset(0.1575, 0.1347, 0.0637, 0.0526, 0.0452, 0.0361),
        "dregn-cf-static": _by_dataset(0.1176, 0.0955, 0.0273, 0.0222, 0.0160, 0.0120),
        "dregn-cf": _by_dataset(0.1810, 0.1541, 0.0687, 0.0564, 0.0482, 0.0378),
    }
)

# all of these by preset; what Tables 2 and 3 both have is the same in both
OF_THE_PAPER: By = MappingProxyType({**ABLATION, **EFFECTIVENESS})
QUALITY: By = MappingProxyType({**OF_THE_PAPER, **ELSEWHERE})

# Figure 1, as far as section 5.3 has numbers; on one Tesla P100
EFFICIENCY: Mapping[tuple[str, str], PublishedEffort] = MappingProxyType(
    {
        ("dregn-cf", "gowalla"): PublishedEffort(240, 0.301),
        ("dregn-cf", "yelp2018"): PublishedEffort(480, 0.360),
        ("dregn-cf", "amazon-book"): PublishedEffort(480),
        ("enmf", "gowalla"): PublishedEffort(123, 1.036),
        ("enmf", "yelp2018"): PublishedEffort(302, 1.630),
        ("enmf", "amazon-book"): PublishedEffort(3120),
        ("mult-vae", "amazon-book"): PublishedEffort(910, 3.156, 2889),
    }
)


def quality(figures: By, preset: str, dataset: str, metric: str) -> float | None:
    """A published metric, or None where there is none."""
    found = figures.get(preset, {}).get(dataset)
    return None if found is None else found.of(metric)


def effort(preset: str, dataset: str) -> PublishedEffort:
    """Published training of a method; time not told is steps by their time.

    >>> effort("dregn-cf", "gowalla").seconds
    72.24
    """
    found = EFFICIENCY.get((preset, dataset), PublishedEffort())
    if found.seconds is None and found.steps is not None and found.seconds_per_step is not None:
        return found._replace(seconds=found.steps * found.seconds_per_step)
    return found
