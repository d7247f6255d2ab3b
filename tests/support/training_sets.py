"""Logs as files, training sets of them on disk, and what is in either, by ids."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ratiorec.data.formats import Columns
from ratiorec.data.formats.merging import Weighting
from ratiorec.data.interactions import Interactions
from ratiorec.data.stored.folder import open_stored
from ratiorec.data.stored.prepare import prepare
from ratiorec.data.stored.source import Asked
from ratiorec.data.stored.splitting import AskedSplit

MEMORY_MB = 1024
Pairs = dict[tuple[Any, Any], tuple[Any, ...]]
"""What there is of each pair beside its ids."""


def write_parts(folder: Path, columns: dict[str, Sequence[Any]], ends: Sequence[int]) -> Path:
    """The rows of a log as Parquet files that are cut at these rows; the pattern of all."""
    folder.mkdir(parents=True, exist_ok=True)
    table, bounds = pa.table(columns), [0, *ends, len(next(iter(columns.values())))]
    for part, (start, end) in enumerate(itertools.pairwise(bounds)):
        pq.write_table(table.slice(start, end - start), folder / f"part-{part:03}.parquet")
    return folder / "*.parquet"


def prepared(
    data: Path | str,
    folder: Path,
    *,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    split: AskedSplit | None = None,
    append: bool = False,
    **weighting: Any,
) -> Interactions:
    """The training part of the training set that is made of a source."""
    prepare(
        Asked(str(data), columns),
        folder,
        memory_mb=MEMORY_MB,
        weighting=Weighting(**weighting),
        split=split,
        append=append,
    )
    return open_stored(folder).train


def by_ids(data: Interactions) -> Pairs:
    """The pairs with all that is known of them."""
    users, items = data.users.ids[data.pair_users], data.items.ids[data.indices]
    none = np.full(data.n_pairs, None)
    earliest = data.timestamps if data.earliest is None else data.earliest
    beside = [data.weights, data.timestamps, data.order, earliest]
    columns = [(none if values is None else values).tolist() for values in beside]
    return dict(
        zip(
            zip(users.tolist(), items.tolist(), strict=True),
            zip(*columns, strict=True),
            strict=True,
        )
    )
