"""A training run on disk: one file, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from ratiorec.errors import CheckpointError
from ratiorec.files import atomic_write, made_folder, write_json
from ratiorec.scorers import SCORERS, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.solvers.solver import State

FILE = "checkpoint.safetensors"
CURRENT = "current.json"  # which of several processes' checkpoints counts
MEMBERS = "members.json"
_MEMBER = ".member.safetensors"
FORMAT = 3


@dataclass(frozen=True)
class FitState:
    """Where a fit stands, as far as JSON can say it.

    `identity` is what must be the same for the run to go on: data, settings, seed, options.
    `best` holds the step, the metrics and the kind of scorer of the best validation so far.
    """

    identity: dict[str, Any]
    phase: str
    position: dict[str, Any]
    history: list[dict[str, Any]]
    best: dict[str, Any] | None
    epoch_risk: float | None
    stale: int
    seconds: float


class AnyCheckpoints(Protocol):
    """Where the checkpoint of one run is kept."""

    @property
    def folder(self) -> Path:
        """Its folder."""

    def write(self, progress: FitState, arrays: State) -> None:
        """Replace the checkpoint; a crash leaves the old one."""

    def read(self, identity: dict[str, Any]) -> tuple[FitState, State] | None:
        """The last checkpoint, or None where there is none; one of another run is refused."""

    def remove(self) -> None:
        """Drop the checkpoint once its model is safe."""


@dataclass(frozen=True)
class Checkpoints:
    """The folder of one run's checkpoint."""

    folder: Path

    def write(self, progress: FitState, arrays: State) -> None:
        """Replace the checkpoint; a crash leaves the old one."""
        from safetensors.numpy import save

        header = header_of(progress)
        with made_folder(self.folder), atomic_write(self.folder / FILE) as file:
            file.write(save(arrays, metadata={"ratiorec": header}))

    def read(self, identity: dict[str, Any]) -> tuple[FitState, State] | None:
        """The last checkpoint, or None where there is none; one of another run is refused."""
        from safetensors import SafetensorError, safe_open

        path = self.folder / FILE
        if not path.exists():
            refuse_other_kind(self.folder / CURRENT, "several processes", "--workers 1 or more")
            return None
        try:
            with safe_open(path, framework="np") as file:
                header = dict(json.loads((file.metadata() or {})["ratiorec"]))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise CheckpointError(
                "the checkpoint cannot be read",
                where=str(path),
                found=f"{type(error).__name__}: {error}",
                wanted="a checkpoint of this program; without --resume training starts anew",
            ) from None
        return state_from(header, identity, path), arrays

    def remove(self) -> None:
        """Drop the checkpoint once its model is safe, and nothing else that is in the folder."""
        with contextlib.suppress(OSError):  # what is left over does no harm
            for inner in self.folder.glob(f"*/{FILE}"):
                Checkpoints(inner.parent).remove()
            for name in (FILE, MEMBERS, f"*{_MEMBER}"):  # and what a killed run was writing
                for file in (*self.folder.glob(name), *self.folder.glob(f".{name}.*.tmp")):
                    file.unlink(missing_ok=True)
            self.folder.rmdir()


def refuse_other_kind(path: Path, whose: str, wanted: str) -> None:
    """Refuse to begin anew where there is a checkpoint, of whoever cannot be continued so."""
    if path.exists():
        raise CheckpointError(
            f"the checkpoint is one of {whose}",
            where=str(path.parent),
            found=path.name,
            wanted=f"{wanted}, to go on from it; without --resume training starts anew",
        )


def header_of(progress: FitState) -> str:
    """Where a fit stands, as a checkpoint says it."""
    return json.dumps({"format": FORMAT, **asdict(progress)}, allow_nan=False)


def state_from(header: dict[str, Any], identity: dict[str, Any], path: Path) -> FitState:
    """Where a fit stands; what is of another format or another run is refused."""
    named = header.keys() == {field.name for field in fields(FitState)} | {"format"}
    if not named or header.pop("format") != FORMAT:
        raise CheckpointError(
            "the checkpoint has another format",
            where=str(path),
            found="another version's",
            wanted=f"format {FORMAT}; without --resume training starts anew",
        )
    progress = FitState(**header)
    _require_same_run(progress.identity, identity, path)
    return progress


def _require_same_run(theirs: dict[str, Any], ours: dict[str, Any], path: Path) -> None:
    ours = json.loads(json.dumps(ours))
    different = [name for name in ours if theirs.get(name) != ours[name]]
    if different:
        name, found, wanted = _first_difference(different[0], theirs, ours)
        raise CheckpointError(
            f"the checkpoint belongs to another run: {', '.join(different)} differ",
            where=str(path),
            found=f"{name} = {found}",
            wanted=f"{name} = {wanted}; without --resume training starts anew",
        )


def _first_difference(name: str, theirs: Any, ours: Any) -> tuple[str, Any, Any]:
    """The first value that differs, by its whole name: tables of settings are long.

    >>> _first_difference("a", {"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    ('a.c', 2, 3)
    """
    found, wanted = theirs.get(name), ours.get(name)
    if isinstance(found, dict) and isinstance(wanted, dict):
        inner = next(key for key in {**wanted, **found} if found.get(key) != wanted.get(key))
        path, *values = _first_difference(inner, found, wanted)
        return f"{name}.{path}", *values
    return name, found, wanted


@dataclass(frozen=True)
class KeptMembers:
    """What an automatic fit has finished: one file of records, and one for each model."""

    folder: Path
    identity: dict[str, Any]

    def write(
        self,
        records: list[dict[str, Any]],
        seconds: float,
        name: str,
        scorer: StoredScorer | None,
    ) -> None:
        """Keep the records, and the model of the member that has come last."""
        from safetensors.numpy import save

        with made_folder(self.folder):
            if scorer is not None:
                with atomic_write(self.folder / f"{name}{_MEMBER}") as file:
                    file.write(save(scorer.arrays(), metadata={"kind": scorer.kind}))
            content = {"identity": self.identity, "seconds": seconds, "members": records}
            write_json(self.folder / MEMBERS, content)

    def read(self) -> tuple[list[dict[str, Any]], float]:
        """The records and the seconds spent; none where nothing was finished."""
        path = self.folder / MEMBERS
        if not path.exists():
            return [], 0.0
        content = json.loads(path.read_text(encoding="utf-8"))
        _require_same_run(content["identity"], self.identity, path)
        return content["members"], content["seconds"]

    def scorer(self, name: str, histories: UserItems) -> StoredScorer:
        """The model of a member, for users who have these histories."""
        from safetensors import safe_open

        with safe_open(self.folder / f"{name}{_MEMBER}", framework="np") as file:
            kind = (file.metadata() or {})["kind"]
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return SCORERS[kind].from_arrays(arrays, histories)
