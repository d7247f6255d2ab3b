"""A training set that more pairs come to: what it holds, and what may come to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.merging import Weighting
from ratiorec.data.formats.reading import Reading
from ratiorec.data.moments import SECONDS_OF_THREE_YEARS
from ratiorec.data.stored.folder import (
    MANIFEST,
    Manifest,
    StoredPart,
    reading_in,
    verified_manifest,
)
from ratiorec.data.stored.splitting import AskedSplit
from ratiorec.errors import ConfigError, DataError
from ratiorec.files import read_regular

_VALUES_AT_ONCE = 1 << 22
_FAR = 100.0  # times as large: units of Unix time are 1,000 apart, days from seconds 86,400


@dataclass(frozen=True)
class Before:
    """The training set that more pairs come to."""

    folder: Path
    manifest: Manifest
    reading: Reading
    content: bytes

    @classmethod
    def of(cls, folder: Path, weighting: Weighting, split: AskedSplit | None) -> Before:
        """The training set of a folder, once more pairs may come to it."""
        content = read_regular(folder / MANIFEST) if (folder / MANIFEST).is_file() else b""
        manifest = verified_manifest(folder)
        found = reading_in(manifest) or Reading("", {}, 0)
        wanted = "both days prepared at once"
        if manifest["split"] is not None or split is not None:
            what, wanted = "a split training set takes no more pairs", "a folder of data prepare"
            raise ConfigError(what, where=str(folder), found="a test part", wanted=wanted)
        if weighting.half_life is not None or weighting.has_negative or found.half_life:
            raise ConfigError(
                "half-lives and negative weights depend on all rows, so none can be added later",
                where="half_life" if weighting.half_life else "event_weights",
                found=f"a training set in {folder}",
                wanted=wanted,
            )
        if (found.repeats, found.event_weights) != (weighting.repeats, weighting.event_weights):
            raise ConfigError(
                "the pairs of the training set were weighed otherwise",
                where=str(folder),
                found=f"repeats {found.repeats}, event weights {found.event_weights}",
                wanted=f"the same, or {wanted}",
            )
        return cls(folder, manifest, found, content)

    @property
    def pairs(self) -> StoredPart:
        """Its pairs."""
        return StoredPart(self.folder)

    def require_same_columns(self, fields: Sequence[str], *, counts_once: bool) -> None:
        """Refuse rows that have more or less beside their ids than the pairs that are there."""
        beside = ("weights", "timestamps", "order")
        has = [name for name in beside if self.pairs.has(name)]
        new = [
            name for name in fields if name in beside and not (counts_once and name == beside[0])
        ]
        if has != new:
            raise DataError(
                "the rows have other columns than the training set",
                where=str(self.folder),
                found=", ".join(new) or "users and items alone",
                wanted=", ".join(has) or "users and items alone",
            )

    def require_same_times(self, times: NDArray[Any], reading: Reading) -> None:
        """Refuse times of another kind or unit than those of the pairs that are there."""
        pieces = self.pairs.pieces("timestamps", _VALUES_AT_ONCE)
        known = np.array([(values.min(), values.max()) for values in pieces])
        sizes = sorted(float(np.abs(one).max()) for one in (known, times))
        is_far = sizes[1] >= SECONDS_OF_THREE_YEARS and sizes[1] > _FAR * sizes[0]
        was, now = self.reading.has_dates, reading.has_dates
        if is_far or (was is not None and was != now):
            raise DataError(
                "the times are of another kind or unit than those of the training set",
                where=str(self.folder),
                found=_kind_of_times(times, now),
                wanted=f"as before: {_kind_of_times(known, was)}",
            )

    def require_unchanged(self) -> None:
        """Refuse to replace what another command has written meanwhile."""
        if read_regular(self.folder / MANIFEST) != self.content:
            raise DataError(
                "the training set was changed by another command",
                where=str(self.folder),
                found="another manifest than at the start",
                wanted="one command at a time; start this one again",
            )


def _kind_of_times(times: NDArray[Any], has_dates: bool | None) -> str:
    first, last = times.min().item(), times.max().item()
    return "dates, in microseconds" if has_dates else f"numbers from {first} to {last}"


def old_ends(before: Before | None, n_users: int) -> NDArray[np.int64]:
    """Where the pairs end that each user has already."""
    if before is None:
        return np.zeros(n_users + 1, np.int64)
    known = before.pairs.array("indptr")
    return np.concatenate([known, np.full(n_users + 1 - len(known), known[-1])])


def with_rows_before(reading: Reading, before: Reading) -> Reading:
    """What was read on both days."""
    event_rows = {**(before.event_rows or {})}
    for kind, n in (reading.event_rows or {}).items():
        event_rows[kind] = event_rows.get(kind, 0) + n
    times = [one for one in (before.first_time, reading.first_time) if one is not None]
    last = [one for one in (before.last_time, reading.last_time) if one is not None]
    return replace(
        reading,
        source=f"{before.source} and {reading.source}",
        n_rows=before.n_rows + reading.n_rows,
        n_dropped=before.n_dropped + reading.n_dropped,
        n_zero_weight=before.n_zero_weight + reading.n_zero_weight,
        n_removed=before.n_removed + reading.n_removed,
        event_rows=event_rows or None,
        first_time=min(times, default=None),
        last_time=max(last, default=None),
    )
