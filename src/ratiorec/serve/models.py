"""The model that is served: loaded, checked, and replaced by another between two requests."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ratiorec.errors import ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.model.store import header_bytes, parts_are_whole
from ratiorec.serve.search import Catalogue, Directory

_MOST_READINGS = 10

Signature = tuple[tuple[str, int, int, int], ...]
"""Name, number, size and time of change of the files of a model folder."""


@dataclass(frozen=True, eq=False)
class Served:
    """A model that has shown that it ranks, and the version under which it is known."""

    artifact: Artifact
    version: str
    loaded_at: float = field(default_factory=time.time)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The items, to be searched."""
        return Catalogue.of(self.artifact.items, self.artifact.seen)

    @cached_property
    def directory(self) -> Directory:
        """The users, to be searched."""
        return Directory.of(self.artifact.users)


def read_served(folder: Path) -> Served:
    """Read a model and make a list or two with it, so that whatever lists need is there.

    Raises:
        ModelError: There is no whole model, it makes no lists, or it is replaced faster than it
            can be read.
    """
    for _ in range(_MOST_READINGS):
        version = version_of(folder)
        artifact = Artifact.load(folder)
        if version == version_of(folder):
            with parts_are_whole(folder):
                _make_lists(artifact)
            return Served(artifact, version)
    raise ModelError(
        "the model is replaced all the time",
        where=str(folder),
        found=f"another one after each of {_MOST_READINGS} readings",
        wanted="a model that stands still for a moment",
    )


def _make_lists(artifact: Artifact) -> None:
    """One for a user and one for a history, as the rule for histories is made at first use."""
    artifact.recommend(artifact.users.ids[:1], 1)
    if len(artifact.items):
        artifact.recommend_to([artifact.items.ids[:1].tolist()], 1)


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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._replacing = threading.Lock()
        self._signature = signature_of(folder)
        self._current = read_served(folder)

    @property
    def current(self) -> Served:
        return self._current

    def has_changed(self) -> bool:
        """Whether the folder differs from what was last read, or tried to be read."""
        return signature_of(self.folder) != self._signature

    def reload(self) -> bool:
        """Take the model that the folder holds now; False where it is the one in use.

        Raises:
            ModelError: It cannot be used; the one in use stays.
        """
        with self._replacing:
            self._signature = signature_of(self.folder)
            if version_of(self.folder) == self._current.version:
                Artifact.load(self.folder)  # the header alone does not tell of cut arrays
                return False
            self._current = read_served(self.folder)
            return True
