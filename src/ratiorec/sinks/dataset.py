"""A dataset: a folder of Parquet parts, one for each block of users, which many may fill."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from ratiorec import __version__
from ratiorec.errors import RatiorecError, StorageError, require_extra
from ratiorec.scorers.table import Recommendations
from ratiorec.sinks.job import Job, Notify, Tally
from ratiorec.sinks.places import Folder, is_left_over

MANIFEST = "_manifest.json"
DONE = "_SUCCESS"
"""The file that says to the engines people run that a dataset is complete."""

_FORMAT = "ratiorec-lists"
_PART = re.compile(r"part-(\d{12})-(\d{12})-([0-9a-f]{16})\.parquet")
_READERS = 16  # parts looked at side by side: in a store far away each is a wait


class Part(NamedTuple):
    """The lists of the users `start` … `stop` of a job, which `stamp` tells from others."""

    start: int
    stop: int
    stamp: str

    @property
    def name(self) -> str:
        """Sorted by name, parts stand in the order of the job."""
        return f"part-{self.start:012d}-{self.stop:012d}-{self.stamp}.parquet"


def write_part(place: Folder, part: Part, lists: Recommendations) -> Tally:
    """Write the lists of one part, whole or not at all."""
    from pyarrow import parquet

    content = io.BytesIO()
    parquet.write_table(lists.to_arrow(), content)
    place.write(part.name, content.getvalue())
    return Tally.of(lists)


@dataclass(frozen=True)
class FolderOfParts:
    """A folder that one job fills, part by part in any order.

    `_manifest.json` names the job and its blocks from the start on; `_SUCCESS` is written last.
    """

    place: Folder

    def __post_init__(self) -> None:  # refused before anything is ranked
        require_extra("pyarrow", "arrow", where=self.where)

    @property
    def where(self) -> str:
        return self.place.where

    def describe(self) -> dict[str, str]:
        """Its name for programs, without a password."""
        return {"folder": self.where}

    @contextmanager
    def open(
        self, job: Job, *, users_at_a_time: int, resume: bool, notify: Notify
    ) -> Iterator[Filling]:
        """The parts of this job that are there and those that are missing.

        Raises:
            StorageError: The folder holds something else, or the lists of another job.
        """
        names, bounds = self.place.names(), None
        if MANIFEST in names:
            bounds = self._bounds_of(job, resume=resume)
        elif foreign := sorted(name for name in names if not is_left_over(name)):
            self._refuse(
                "the folder holds no lists and is left as it is",
                f"other files, such as {foreign[0]}",
                "a new folder, an empty one, or one that this command wrote",
            )
        if bounds is None:
            bounds = self._begun(job, users_at_a_time, names)
        elif len(bounds) > 1 and bounds[1] != min(users_at_a_time, bounds[-1]):
            notify(f"going on in the blocks that were begun with: {bounds[1]:,} users")
        parts = [Part(*block, job.identity[:16]) for block in pairwise(bounds)]
        yield Filling(self.place, parts, *self._kept(parts))

    def _bounds_of(self, job: Job, *, resume: bool) -> list[int] | None:
        """Where the blocks of this job begin and end; None where it is to start anew."""
        try:
            with self.place.open(MANIFEST) as file:
                manifest = json.loads(file.read())
            found, bounds = manifest["request"], [int(bound) for bound in manifest["blocks"]]
            is_ours = manifest["format"] == _FORMAT and bounds == sorted(bounds)
            is_same = manifest["identity"] == job.identity and bounds[-1] == len(job.user_ids)
        except (ValueError, KeyError, TypeError, IndexError):
            is_ours = False
        if not is_ours:
            found, wanted = f"another {MANIFEST}", "a new folder, or one that this command wrote"
            self._refuse("the folder holds no lists of ours", found, wanted)
        if not resume:
            return None
        if not is_same:
            self._refuse(
                "the folder holds the lists of another model or request",
                _difference(found, _request(job)),
                "another folder, the same request, or --no-resume, which replaces them",
            )
        return bounds

    def _begun(self, job: Job, users_at_a_time: int, names: list[str]) -> list[int]:
        """The blocks of a job that starts in this folder; what was there of another is removed."""
        n_users = len(job.user_ids)
        bounds = [*range(0, n_users, users_at_a_time), n_users]
        self.place.make()
        if DONE in names:
            self.place.remove(DONE)
        manifest = {"format": _FORMAT, "identity": job.identity, "request": _request(job)}
        text = json.dumps(manifest | {"blocks": bounds}, ensure_ascii=False)
        self.place.write(MANIFEST, text.encode())
        for name in names:
            if _PART.fullmatch(name):
                self.place.remove(name)
        return bounds

    def _kept(self, parts: list[Part]) -> tuple[list[Part], Tally]:
        """The parts that are missing, and what the others hold."""
        there = set(self.place.names())
        with ThreadPoolExecutor(_READERS) as pool:
            tallies = list(pool.map(self._tally, [p if p.name in there else None for p in parts]))
        kept = Tally()
        for tally in tallies:
            kept = kept if tally is None else kept.plus(tally)
        return [part for part, found in zip(parts, tallies, strict=True) if found is None], kept

    def _tally(self, part: Part | None) -> Tally | None:
        """What a part holds; None where it is not there or not whole."""
        from pyarrow import ArrowException, parquet

        if part is None:
            return None
        try:
            with self.place.open(part.name) as file:
                ranks = parquet.ParquetFile(file).read(["rank"])["rank"].to_numpy()
        except (ArrowException, RatiorecError, OSError, KeyError):
            return None
        n_users = part.stop - part.start
        return Tally(n_users, len(ranks), n_users - int((ranks == 1).sum()))

    def _refuse(self, what: str, found: str, wanted: str) -> None:
        raise StorageError(what, where=self.where, found=found, wanted=wanted)


@dataclass
class Filling:
    """A dataset that has been opened for one job."""

    place: Folder
    parts: list[Part]
    missing: list[Part]
    done: Tally = field(default_factory=Tally)

    def add(self, tally: Tally) -> None:
        """Count a part that has been written."""
        self.done = self.done.plus(tally)

    def finish(self) -> None:
        """All parts are written: remove what is none of them, and say that all is there."""
        ours = {part.name for part in self.parts}
        for name in self.place.names():
            if is_left_over(name) or (_PART.fullmatch(name) and name not in ours):
                self.place.remove(name)
        counts = {"users": self.done.n_users, "rows": self.done.n_rows}
        self.place.write(DONE, json.dumps(counts).encode())


def _request(job: Job) -> dict[str, Any]:
    """What people would call the request by; the identity knows it exactly."""
    query = job.query
    return {
        "users": len(job.user_ids),
        "k": query.k,
        "include-seen": not query.exclude_seen,
        "allow": None if query.allow is None else len(query.allow),  # type: ignore[arg-type]
        "deny": None if query.deny is None else len(query.deny),  # type: ignore[arg-type]
        "filter": None if query.filter is None else str(query.filter),
        "attributes": list(query.attributes),
        "ratiorec": __version__,
    }


def _difference(there: dict[str, Any], asked: dict[str, Any]) -> str:
    """In what two requests differ, as far as it is written down."""
    told = [
        f"{name} = {there.get(name)} there, {value} asked for"
        for name, value in asked.items()
        if there.get(name) != value
    ]
    return "; ".join(told) or "another model, or other users or items of the same number"
