"""What things are called on paper: data sets, methods, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PAPER_DATASETS = ("gowalla", "yelp2018", "amazon-book")
STAND_IN = "amazon-book-75"  # for amazon-book, where that cannot be had
SMALL = "synthetic-small"

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
    "popularity": "popularity",
}


def dataset_name(name: str) -> str:
    """A data set as the paper writes it; others as they are called here."""
    return _DATASETS.get(name, name)


def method_name(preset: str) -> str:
    """A preset as the paper writes it; others as they are called here."""
    return _METHODS.get(preset, preset)


def figure(value: float) -> str:
    """A metric as papers print it.

    >>> figure(0.18116)
    '.1812'
    """
    return f"{value:.4f}".removeprefix("0")


def listed(words: list[str]) -> str:
    """Words with commas, and «and» before the last.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
