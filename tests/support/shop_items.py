"""The goods of the shop whose log is in `shop_log`: titles, categories, prices, stock, new ones."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from support.shop_log import KINDS

N_OLD, N_NEW = 80, 8
_WORDS = {
    "TEA": "green leaves from the hills, brewed hot in a pot",
    "TOY": "wooden figure for children to play with",
    "TIN": "round box of painted metal with a lid",
    "TAPE": "sticky roll for parcels, strong and wide",
}


class Good(NamedTuple):
    """A row of the file."""

    sku: str
    title: str
    category: str
    brand: str
    price: float
    stock: int
    labels: str
    description: str


def goods(*, restocked: bool = False) -> list[Good]:
    """All goods, those that nobody has bought last; restocked, stock and prices are others."""
    found = []
    for number in range(N_OLD + N_NEW):
        kind, brand = KINDS[number % 4], f"brand {number % 5}"
        labels = [label for label, every in (("fair", 3), ("new", 7)) if number % every == 0]
        found.append(
            Good(
                f"SKU{number:05d}-{kind}",
                f"{kind.title()} no. {number}",
                kind.lower(),
                brand,
                float(5 + number * 7 % 60) + (0.5 if restocked else 0),
                (number + 3 * restocked) % 6,
                "|".join(labels),
                f"{_WORDS[kind]} of {brand}",
            )
        )
    return found


def write_goods(path: Path, rows: list[Good]) -> Path:
    """A CSV file of them."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([Good._fields, *rows])
    return path
