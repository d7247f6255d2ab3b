"""Random expressions over attributes, and what each means of a row in plain types."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags, Texts

Row = dict[str, Any]
Truth = Callable[[Row], bool]


class Asked(NamedTuple):
    """A column that is asked about: its name as it is written, its kind, and likely values."""

    column: str
    name: str
    kind: str
    values: Sequence[Any]


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\")
    return (
        '"' + escaped.replace('"', '\\"') + '"' if "'" in text or len(text) % 2 else f"'{escaped}'"
    )


def random_condition(rng: random.Random, columns: Sequence[Asked]) -> tuple[str, Truth]:
    """A condition as somebody may write it, and what it means."""
    column, name, kind, values = rng.choice(columns)
    value = rng.choice(values)
    some = rng.sample(list(values), rng.randrange(min(4, len(values))))
    write = str if kind == "number" else quoted
    listed = "[" + ",".join(map(write, some)) + "]"
    is_missing: Truth = lambda row: not row[column] if kind == "tags" else row[column] is None  # noqa: E731
    known: Callable[[Truth], Truth] = lambda truth: (  # noqa: E731
        lambda row: row[column] is not None and truth(row)
    )
    either: list[tuple[str, Truth]] = [
        (f"{name} is missing", is_missing),
        (f"{name} IS NOT missing", lambda row: not is_missing(row)),
    ]
    if kind == "tags":
        either += [
            (f"{name} has {quoted(value)}", lambda row: value in row[column]),
            (f"{name} has any {listed}", lambda row: any(one in row[column] for one in some)),
            (f"{name} has all {listed}", lambda row: all(one in row[column] for one in some)),
        ]
        return rng.choice(either)
    either += [
        (f"{name}=={write(value)}", known(lambda row: row[column] == value)),
        (f"{name} = {write(value)}", known(lambda row: row[column] == value)),
        (f"{name} != {write(value)}", known(lambda row: row[column] != value)),
        (f"{name} in {listed}", known(lambda row: row[column] in some)),
        (f"{name} not in {listed}", known(lambda row: row[column] not in some)),
    ]
    if kind == "number":
        either += [
            (f"{name} < {value}", known(lambda row: row[column] < value)),
            (f"{name}<={value}", known(lambda row: row[column] <= value)),
            (f"{name} > {value}", known(lambda row: row[column] > value)),
            (f"{name}>={value}", known(lambda row: row[column] >= value)),
        ]
    else:
        part = value[1:3].swapcase()
        has_part = known(lambda row: part.casefold() in row[column].casefold())
        either.append((f"{name} contains {quoted(part)}", has_part))
    return rng.choice(either)


def random_expression(
    rng: random.Random, columns: Sequence[Asked], depth: int = 4
) -> tuple[str, Truth]:
    """Conditions joined by and, or, not and parentheses."""
    join = rng.choice(["", "not", "and", "or"]) if depth else ""
    if not join:
        return random_condition(rng, columns)
    if join == "not":
        text, truth = random_expression(rng, columns, depth - 1)
        return f"not ({text})", lambda row: not truth(row)
    parts = [random_expression(rng, columns, depth - 1) for _ in range(rng.randrange(2, 4))]
    joined = f" {join} ".join(f"({text})" for text, _ in parts)
    combine = all if join == "and" else any
    return joined, lambda row: combine(truth(row) for _, truth in parts)


NUMBERS = [0.0, 1.0, 2.5, 50.0, -3.0]
KINDS = ["tea", "jam", "oats", 'quo"te', "back\\slash"]
TAGS = ["organic", "fair", "new", "Größe"]
WORDS = ["Green tea", "GREEN jam", "oats", "Straße", ""]
COLUMNS = (
    Asked("price", "price", "number", [*NUMBERS, 7.0]),
    Asked("kind", "kind", "category", [*KINDS, "no such"]),
    Asked("unit labels", "`unit labels`", "tags", [*TAGS, "no such"]),
    Asked("in", "`in`", "text", WORDS),
)


def random_table(rng: random.Random, n_rows: int = 40) -> Attributes:
    """Rows of `COLUMNS`, of which some are missing."""

    def some(values: list[Any]) -> list[Any]:
        return [rng.choice([None, *values]) for _ in range(n_rows)]

    texts = np.empty(n_rows, object)
    texts[:] = some(WORDS)
    numbers = [np.nan if value is None else value for value in some(NUMBERS)]
    return Attributes(
        n_rows,
        {
            "price": Numbers(np.array(numbers, np.float64)),
            "kind": Categories.of(some(KINDS)),
            "unit labels": Tags.of(rng.sample(TAGS, rng.randrange(4)) for _ in range(n_rows)),
            "in": Texts(texts),
        },
    )
