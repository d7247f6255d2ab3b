"""The model that is served: loaded, checked, searched, and replaced between two requests."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.catalogue.filters import read_filters
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.model.store import header_bytes, parts_are_whole
from ratiorec.reranking.rules import Rules, read_rules
from ratiorec.scorers import Indices
from ratiorec.scorers.scorer import UserItems

_MOST_READINGS = 10
_EDGE = "\x1f"  # on both sides of each word; no query has it

Signature = tuple[tuple[str, int, int, int], ...]
"""Name, number, size and time of change of the files of a model folder."""


@dataclass(frozen=True, eq=False)
class Lines:
    """Words of each line, without regard to capitals; `starts` is where each line begins.

    A search goes no further than its results are asked for.
    """

    text: str
    starts: Indices

    @classmethod
    def of(cls, lines: Iterable[Iterable[str]]) -> Lines:
        """The lines in the order in which they are to be found."""
        written = [f"{_EDGE}{_EDGE.join(map(_plain, words))}{_EDGE}\n" for words in lines]
        lengths = np.fromiter(map(len, written), np.int64, len(written))
        return cls("".join(written), np.cumsum(lengths) - lengths)

    def equal_to(self, query: str) -> Iterator[int]:
        """Lines in which a word is the query."""
        return self._having(f"{_EDGE}{_plain(query)}{_EDGE}")

    def beginning_with(self, query: str) -> Iterator[int]:
        """Lines in which a word begins with the query; an empty one finds all."""
        return self._having(f"{_EDGE}{_plain(query)}")

    def containing(self, query: str) -> Iterator[int]:
        """Lines in which a word has the query anywhere; an empty one finds all."""
        return self._having(_plain(query) or _EDGE)

    def _having(self, part: str) -> Iterator[int]:
        """Each line once, in their order."""
        place = self.text.find(part)
        while place >= 0:
            line = int(np.searchsorted(self.starts, place, "right")) - 1
            yield line
            is_last = line + 1 == len(self.starts)
            place = -1 if is_last else self.text.find(part, int(self.starts[line + 1]))


def _plain(text: str) -> str:
    """What has a meaning here is a space."""
    return text.casefold().replace("\n", " ").replace(_EDGE, " ")


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Ids and names of all items; `by_users` has those with most users first, as `lines` do."""

    by_users: Indices
    lines: Lines

    @classmethod
    def of(cls, items: Vocabulary, seen: UserItems) -> Catalogue:
        """The catalogue of a model's items."""
        by_users = np.argsort(-np.bincount(seen.indices, minlength=len(items)), kind="stable")
        columns = [items.ids] if items.names is None else [items.ids, items.names]
        words = zip(*(column[by_users].tolist() for column in columns), strict=True)
        return cls(by_users, Lines.of(map(str, line) for line in words))

    def find(self, query: str, k: int) -> list[int]:
        """The first k items that have the query in id or name, those with most users first.

        An item whose id or name is the query stands before all others.
        """
        found = chain(self.lines.equal_to(query) if query else (), self.lines.containing(query))
        lines = list(islice(dict.fromkeys(islice(found, 2 * k)), k))
        chosen: list[int] = self.by_users[lines].tolist()
        return chosen


@dataclass(frozen=True, eq=False)
class Directory:
    """All ids, in the order of the model."""

    users: Vocabulary
    lines: Lines

    @classmethod
    def of(cls, users: Vocabulary) -> Directory:
        """The directory of a model's users."""
        return cls(users, Lines.of([str(identifier)] for identifier in users.ids.tolist()))

    def find(self, query: str, k: int) -> list[int]:
        """The first k users with the query in their id, in the order of the model.

        First comes whoever has this very id, then ids that are the same but for capitals, then
        those that begin so.
        """
        itself = self.users.indices([query], on_unknown="skip")
        found = chain(
            itself[itself >= 0].tolist(),
            self.lines.equal_to(query),
            self.lines.beginning_with(query),
            self.lines.containing(query),
        )
        return list(islice(dict.fromkeys(islice(found, 4 * k)), k))


@dataclass(frozen=True)
class RequestNames:
    """What requests may ask for by a name: filters, and sets of rules."""

    filters: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, Rules] = field(default_factory=dict)

    @classmethod
    def read(cls, filters: Path | None, rules: Path | None) -> RequestNames:
        """The names in these files, where there are files."""
        return cls(read_filters(filters) if filters else {}, read_rules(rules) if rules else {})

    def given_to(self, artifact: Artifact) -> Artifact:
        """The model with the named filters, once it can do all that has a name.

        Raises:
            ConfigError: Its items have no such columns, or not of the right kind.
        """
        named = artifact.with_filters(self.filters)
        for name, rules in self.rules.items():
            try:
                named.recommend(named.users.ids[:1], 1, rules=rules)
            except ConfigError as error:
                error.where = f"[{name}] {error.where}"
                raise
        return named


@dataclass(frozen=True, eq=False)
class Served:
    """A model that has shown that it ranks, and the version and variant as which it is known."""

    artifact: Artifact
    version: str
    variant: str = ""
    loaded_at: float = field(default_factory=time.time)

    @property
    def name(self) -> dict[str, Any]:
        """What an answer says of the model that it comes from."""
        return {"model": self.version} | ({"variant": self.variant} if self.variant else {})

    @cached_property
    def catalogue(self) -> Catalogue:
        """The items, to be searched."""
        return Catalogue.of(self.artifact.items, self.artifact.seen)

    @cached_property
    def directory(self) -> Directory:
        """The users, to be searched."""
        return Directory.of(self.artifact.users)


def read_served(folder: Path, variant: str = "", names: RequestNames | None = None) -> Served:
    """Read a model and make a list or two with it, so that whatever lists need is there.

    Raises:
        ModelError: It is no whole model, or has not what the names are about.
    """
    for _ in range(_MOST_READINGS):
        version = version_of(folder)
        artifact = Artifact.load(folder)
        if version == version_of(folder):
            with parts_are_whole(folder):
                _make_lists(artifact)
            return Served(_named(artifact, names or RequestNames(), folder), version, variant)
    raise ModelError(
        "the model is replaced all the time",
        where=str(folder),
        found=f"another one after each of {_MOST_READINGS} readings",
        wanted="a model that stands still for a moment",
    )


def _named(artifact: Artifact, names: RequestNames, folder: Path) -> Artifact:
    try:
        return names.given_to(artifact)
    except ConfigError as error:
        raise ModelError(
            f"the model does not fit the filters and rules of the server: {error.what}",
            where=f"{error.where}, {folder}",
            found=error.found,
            wanted=error.wanted,
        ) from error


def _make_lists(artifact: Artifact) -> None:
    """One for a user of each sort, as what histories and attributes need is made at first use."""
    artifact.recommend(artifact.users.ids[:1], 1)
    if len(artifact.items):
        artifact.recommend_to([artifact.items.ids[:1].tolist()], 1)
    if artifact.user_table:
        artifact.recommend_for([{}], 1)


def version_of(folder: Path) -> str:
    """A name for what the folder holds now: digits of the hash of its header."""
    header = header_bytes(folder)
    if header is None:
        return "none"  # loading will say what is wrong
    return hashlib.sha256(header).hexdigest()[:16]


def signature_of(folder: Path) -> Signature:
    """What changes whenever a file of the folder does, without reading any of them."""
    found = []
    try:
        for path in folder.iterdir():
            if not path.name.startswith("."):  # a writer's file that is not whole yet
                stat = path.stat()
                found.append((path.name, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    except OSError:
        return ()
    return tuple(sorted(found))


class ModelInUse:
    """The one model that requests are answered with; the next takes its place when it is ready.

    A request keeps the model it began with, so none sees half of each.
    """

    def __init__(self, folder: Path, variant: str = "", names: RequestNames | None = None) -> None:
        self.folder = folder
        self.variant = variant
        self._names = names
        self._replacing = threading.Lock()
        self._signature = signature_of(folder)
        self._current = self._read()

    def _read(self) -> Served:
        return read_served(self.folder, self.variant, self._names)

    @property
    def current(self) -> Served:
        return self._current

    def has_changed(self) -> bool:
        """Whether the folder differs from what was last read, or tried to be read."""
        return signature_of(self.folder) != self._signature

    def reload(self) -> bool:
        """Take the model that the folder holds now; False where it is the one in use."""
        with self._replacing:
            self._signature = signature_of(self.folder)
            if version_of(self.folder) == self._current.version:
                Artifact.load(self.folder)  # the header alone does not tell of cut arrays
                return False
            self._current = self._read()
            return True
