"""From a source larger than memory to a training set on disk.

DuckDB numbers the ids and joins each row with the places of its two, both under a memory limit and
spilling to disk. The rows come out of it in no order and are put down in buckets by ranges of
users; each bucket is merged as a log that fits into memory is. All is done in a folder beside the
target, which it replaces in one step.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.formats.merging import (
    Weighting,
    decayed,
    length_of_half_life,
    require_rows,
    weights_of_kinds,
    with_span,
)
from ratiorec.data.formats.reading import BadRows, Reading
from ratiorec.data.formats.values import Times
from ratiorec.data.stored.before import Before, old_ends, with_rows_before
from ratiorec.data.stored.buckets import Buckets, merged, old_pairs, ranges_of
from ratiorec.data.stored.columns import dtype_of_times
from ratiorec.data.stored.database import WorkDatabase, opened, text, too_small
from ratiorec.data.stored.folder import (
    Manifest,
    PartWriter,
    StoredPart,
    foreign,
    is_stored,
    reading_in,
    verified_manifest,
    write_manifest,
)
from ratiorec.data.stored.ids import Side, numbered, write_ids
from ratiorec.data.stored.source import FILE, ROW, Asked, SourceRows, rows_of, settle_bad_rows
from ratiorec.data.stored.splitting import AskedSplit, Counts, split_stored
from ratiorec.data.vocabulary import MergedPairs
from ratiorec.errors import ConfigError
from ratiorec.files import refuse_foreign, whole_folder

LEAST_MB = 512
_OURS_MB = 250  # of Python and its libraries
_SHARE_OF_DUCKDB = 0.6  # it takes more than its limit for what it reads and hands over
_BYTES_OF_A_USER = 40  # numbers of each user that are in memory throughout
_WHOLE = "whole"


@dataclass(frozen=True)
class Prepared:
    """What was written; `split` is what a split has done."""

    manifest: Manifest
    reading: Reading | None
    split: Counts | None = None


@dataclass(frozen=True)
class _Stream:
    """The rows that are used, as they come out of DuckDB, and what is known of all of them."""

    rows: SourceRows
    good: str
    weight: str | None
    half_life: float | None
    times: NDArray[Any] | None
    first_place: int
    has_places: bool
    reading: Reading

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The numbers of a row in a bucket."""
        fields = [("user", "<i4"), ("item", "<i4")]
        fields += [("weights", "<f8")] if self.weight is not None else []
        if "timestamp" in self.rows.columns:
            fields.append(("timestamps", dtype_of_times(self.rows.columns["timestamp"]).str))
        return fields + ([("order", "<i4")] if self.has_places else [])


def prepare(
    asked: Asked,
    folder: Path,
    *,
    memory_mb: float,
    weighting: Weighting = Weighting(),  # noqa: B008 - frozen
    bad: BadRows | None = None,
    split: AskedSplit | None = None,
    append: bool = False,
) -> Prepared:
    """Write the training set of a source into a folder, in at most so much memory.

    Args:
        asked: The source, or a training set on disk that is to be split.
        folder: What it replaces, in one step, is a training set or nothing.
        memory_mb: The memory that the whole process may take.
        weighting: What rows and their repeats weigh.
        bad: What becomes of rows that cannot be used.
        split: What is held out; the folder then has a test part.
        append: Whether the pairs of the folder stay, with their ids in their places.

    Raises:
        DataError: The source, or a row of it, cannot be used.
        MemoryBudgetError: The budget is too small.
        StorageError: The disk is full, or the folder is something else.
    """
    if memory_mb < LEAST_MB:
        raise too_small(memory_mb, found=f"{memory_mb:g}", wanted=f"{LEAST_MB} or more")
    refuse_foreign(folder, "a training set", foreign)
    if asked.query is None and is_stored(Path(asked.data)):
        weighting.refuse_for(asked.data, "a training set on disk", allowed=())
        return _split_again(Path(asked.data), folder, split, memory_mb)
    before = Before.of(folder, weighting, split) if append else None
    with whole_folder(folder) as new:
        work = new / "work"
        work.mkdir()
        done = _written(asked, new, work, memory_mb, weighting, bad or BadRows(), before, split)
        if before is not None:
            before.require_unchanged()
    return done


def _written(
    asked: Asked,
    new: Path,
    work: Path,
    memory_mb: float,
    weighting: Weighting,
    bad: BadRows,
    before: Before | None,
    split: AskedSplit | None,
) -> Prepared:
    limit_mb = _SHARE_OF_DUCKDB * (memory_mb - _OURS_MB)
    with opened(work, origin=asked.origin, memory_mb=memory_mb, limit_mb=limit_mb) as database:
        stream = _stream(database, asked, work, weighting, bad, before)
        old = None if before is None else before.folder
        users, items = (
            numbered(database, stream.rows, kind, stream.good, old) for kind in ("user", "item")
        )
        for side in (users, items):
            write_ids(database, side, new, old)
        left_mb = memory_mb - _OURS_MB - _BYTES_OF_A_USER * users.n / 2**20
        indptr = old_ends(before, users.n)
        n_rows = users.n_rows + np.diff(indptr)
        ranges = ranges_of(n_rows, len(stream.fields) - 2, memory_mb=left_mb, of=memory_mb)
        buckets = Buckets(work, ranges, stream.fields)
        _fill(database, buckets, stream, users, items)
    for path in work.glob("work.duckdb*"):
        path.unlink()
    part = _WHOLE if split is not None else "train"
    reading, n_pairs = _merged_parts(new, part, buckets, stream, indptr, items.n, weighting, before)
    shutil.rmtree(work)
    counts = None
    if split is not None:
        counts = split_stored(StoredPart(new, _WHOLE), new, split, memory_mb=left_mb)
        for path in new.glob(f"{_WHOLE}.*.npy"):
            path.unlink()
    name = asked.name if before is None else before.manifest["name"]
    sizes = (users.n, items.n)
    return _completed(new, name, sizes, n_pairs, reading, split, counts)


def _completed(
    new: Path,
    name: str,
    sizes: tuple[int, int],
    n_pairs: int,
    reading: Reading | None,
    split: AskedSplit | None,
    counts: Counts | None,
) -> Prepared:
    parts = {"train": n_pairs}
    if counts is not None:
        parts = {"train": counts.train, "test": counts.held_out}
    manifest = write_manifest(
        new,
        name=name,
        n_users=sizes[0],
        n_items=sizes[1],
        n_pairs=parts,
        reading=None if reading is None else reading.to_json(),
        split=None if split is None else vars(split),
    )
    return Prepared(manifest, reading, counts)


def _split_again(
    source: Path, folder: Path, split: AskedSplit | None, memory_mb: float
) -> Prepared:
    """The split of a training set that is on disk already."""
    manifest = verified_manifest(source)
    if split is None or manifest["split"] is not None:
        raise ConfigError(
            "this is a training set already",
            where=str(source),
            found="a test part" if manifest["split"] else "one that is not split",
            wanted="data split, of a training set without a test part",
        )
    with whole_folder(folder) as new:
        for path in source.glob("[ui]*s.*.npy"):
            shutil.copyfile(path, new / path.name)
        left_mb = memory_mb - _OURS_MB - _BYTES_OF_A_USER * manifest["users"] / 2**20
        counts = split_stored(StoredPart(source), new, split, memory_mb=left_mb)
        sizes = (manifest["users"], manifest["items"])
        return _completed(new, manifest["name"], sizes, 0, reading_in(manifest), split, counts)


# SourceRows


def _stream(
    database: WorkDatabase,
    asked: Asked,
    work: Path,
    weighting: Weighting,
    bad: BadRows,
    before: Before | None,
) -> _Stream:
    """The rows that are used: looked through once, with all faults told."""
    rows = rows_of(database, asked, work)
    n_bad = settle_bad_rows(database, rows, bad)
    good = f"NOT ({rows.bad})" if n_bad else "true"
    names = {role: column.name for role, column in rows.columns.items()}
    reading = Reading(
        rows.origin,
        names,
        rows.n_rows,
        n_dropped=n_bad,
        bad_rows=bad.sentences(rows.origin),
        unused_event=rows.unused_event,
    )
    weight, reading = _weight(database, rows, good, weighting, reading)
    times = _extremes(database, rows, good)
    is_date = times is not None and rows.columns["timestamp"].kind == "dates"
    span = None if times is None else Times(times, is_date)
    reading = with_span(reading, span, weighting)
    half_life = None
    if weighting.half_life is not None:
        half_life = length_of_half_life(span, weighting.half_life, reading)
    n_zero = 0
    if weight not in (None, "1.0"):
        counted = f"SELECT count(*) FROM {rows.relation} WHERE {good} AND ({weight}) = 0"
        (n_zero,) = database.one(counted)
        good = f"{good} AND ({weight}) <> 0" if n_zero else good
    reading = replace(reading, n_zero_weight=n_zero)
    require_rows(rows.n_rows - n_bad - n_zero, reading)
    n_before = 0 if before is None else before.reading.n_rows
    has_places = rows.has_places and n_before + rows.n_rows < 2**31
    stream = _Stream(rows, good, weight, half_life, times, n_before, has_places, reading)
    if before is not None:
        counts_once = weighting.repeats == "once"
        before.require_same_columns([name for name, _ in stream.fields], counts_once=counts_once)
        if times is not None:
            before.require_same_times(times, reading)
    return stream


def _weight(
    database: WorkDatabase, rows: SourceRows, good: str, weighting: Weighting, reading: Reading
) -> tuple[str | None, Reading]:
    """What each row weighs, in SQL and less the decay; None where nothing says that it does."""
    factors = [rows.columns["weight"].value] if "weight" in rows.columns else []
    if "event" in rows.columns:
        value = rows.columns["event"].value
        found = database.run(
            f"SELECT {value} AS kind, count(*) FROM {rows.relation} WHERE {good} "
            "GROUP BY 1 ORDER BY 1"
        )
        kinds = [kind for kind, _ in found]
        weights, counts = weights_of_kinds(kinds, [n for _, n in found], weighting, reading)
        cases = " ".join(
            f"WHEN {text(kind) if isinstance(kind, str) else kind} THEN {weight!r}"
            for kind, weight in zip(kinds, weights, strict=True)
        )
        factors.append(f"CAST(CASE {value} {cases} END AS DOUBLE)")
        given = weighting.event_weights
        reading = replace(reading, event_weights=given and dict(given), event_rows=counts)
    if not factors and (weighting.half_life is not None or weighting.repeats in ("sum", "max")):
        factors = ["1.0"]
    return (" * ".join(factors) if factors else None), reading


def _extremes(database: WorkDatabase, rows: SourceRows, good: str) -> NDArray[Any] | None:
    """The first and the last moment."""
    if "timestamp" not in rows.columns:
        return None
    times = rows.columns["timestamp"]
    found = database.one(
        f"SELECT min({times.value}), max({times.value}) FROM {rows.relation} WHERE {good}"
    )
    return None if found[0] is None else np.array(found, dtype_of_times(times))


def _fill(
    database: WorkDatabase, buckets: Buckets, stream: _Stream, users: Side, items: Side
) -> None:
    """Put all rows down in their buckets."""
    rows, columns = stream.rows, stream.rows.columns
    inner = [f"{columns[kind].value} AS the_{kind}" for kind in ("user", "item")]
    outer = ["u.place", "i.place"]
    if stream.weight is not None:
        inner.append(f"CAST({stream.weight} AS DOUBLE) AS the_weight")
        outer.append("the_weight")
    if "timestamp" in columns:
        inner.append(f"{columns['timestamp'].value} AS the_time")
        outer.append("the_time")
    parts = ""
    if stream.has_places:
        inner.append(f"{FILE} AS the_file, {ROW} AS the_row")
        outer.append(f"CAST({stream.first_place} + first + the_row AS INTEGER)")
        parts = "JOIN parts ON part = the_file"
    query = (
        f"SELECT {', '.join(f'{one} AS c{place}' for place, one in enumerate(outer))} FROM "
        f"(SELECT {', '.join(inner)} FROM {rows.relation} WHERE {stream.good}) {parts} "
        f"JOIN {users.table} u ON u.raw = the_user JOIN {items.table} i ON i.raw = the_item"
    )
    for batch in database.batches(query):
        found = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        if stream.half_life is not None:
            assert stream.times is not None
            ages = (stream.times[1] - found[3]) / stream.half_life
            found[2] = decayed(found[2], ages)
        buckets.add(found)


def _merged_parts(
    new: Path,
    part: str,
    buckets: Buckets,
    stream: _Stream,
    indptr: NDArray[np.int64],
    n_items: int,
    weighting: Weighting,
    before: Before | None,
) -> tuple[Reading, int]:
    """Write the pairs of all buckets, with those that are there already, and what was read."""
    writer, n_removed = PartWriter(new, part), 0
    for start, end, rows in buckets.taken():
        old: MergedPairs | None = None
        if before is not None:
            old = old_pairs(before.pairs, indptr, start, end)
        rows["user"] -= start
        pairs, n_taken_back = merged(rows, end - start, n_items, weighting, old)
        n_removed += n_taken_back
        writer.append(pairs)
    reading = replace(stream.reading, n_removed=n_removed)
    n_used = reading.n_rows - reading.n_dropped - reading.n_zero_weight
    if before is not None:
        reading = with_rows_before(reading, before.reading)
        n_used = reading.n_rows - reading.n_dropped - reading.n_zero_weight
    require_rows(writer.n_pairs, reading)
    n_pairs = writer.close()
    return replace(reading, n_repeats=n_used - reading.n_removed - n_pairs), n_pairs
