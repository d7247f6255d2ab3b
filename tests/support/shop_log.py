"""The log of a shop as one finds it: odd columns in an odd order, repeats, quantities, bad rows."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import numpy as np

HEADER = ("event_time", "qty", "sku", "country", "customer")
KINDS = ("TEA", "TOY", "TIN", "TAPE")
BAD_ROWS = {  # by what is wrong with them
    "too few columns": ("2026-02-03T00:00:00Z", "1", "SKU00001-TEA"),
    "no item": ("2026-02-03T00:00:00Z", "1", "", "DE", "C00001"),
    "no customer": ("2026-02-03T00:00:00Z", "1", "SKU00001-TOY", "DE", ""),
    "a quantity that is no number": ("2026-02-03T00:00:00Z", "abc", "SKU00002-TIN", "FR", "C00002"),
    "a negative quantity": ("2026-02-03T00:00:00Z", "-1", "SKU00003-TAPE", "FR", "C00003"),
}
_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def shop_rows(n_customers: int = 240, *, seed: int = 0) -> list[tuple[str, ...]]:
    """Good rows, in order of time; a customer buys from two kinds of goods, some of it again."""
    rng = np.random.default_rng(seed)
    goods = [f"SKU{number:05d}-{KINDS[number % 4]}" for number in range(80)]
    rows: list[tuple[str, ...]] = []
    for customer in range(n_customers):
        liked = [number for number in range(80) if number % 4 in (customer % 4, customer % 4 ^ 1)]
        bought = rng.choice(liked, rng.integers(6, 18), replace=False)
        for number in [*bought, *bought[:3]]:  # the first three are bought twice
            moment = _START + datetime.timedelta(minutes=int(rng.integers(0, 250_000)))
            quantity, country = str(rng.integers(1, 6)), ("DE", "FR", "IT")[customer % 3]
            stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            rows.append((stamp, quantity, goods[number], country, f"C{customer:05d}"))
    return sorted(rows)


def write_shop_log(path: Path, rows: list[tuple[str, ...]], *, bad: bool = False) -> Path:
    """A CSV file of rows; with `bad`, one row of every kind that cannot be used among them."""
    rows = list(rows)
    for place, row in enumerate(BAD_ROWS.values()) if bad else ():
        rows.insert(100 * (place + 1), row)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEADER, *rows])
    return path
