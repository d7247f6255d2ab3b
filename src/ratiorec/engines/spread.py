"""Bulk jobs on an engine: workers rank blocks of users and write each as a part of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from ratiorec.errors import ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.scorers.topk import Progress
from ratiorec.sinks.dataset import FolderOfParts, Part, write_part
from ratiorec.sinks.job import Job, Notify, Tally, kept_users_told
from ratiorec.sinks.places import Folder

_INTERPRETER_MB = 300
_BYTES_OF_A_ROW = 512  # a row with ids of text as Python has it, in columns and as Parquet


class Task(NamedTuple):
    """A part to be written; the ids of its users, where they are not simply those of the model."""

    part: Part
    user_ids: NDArray[Any] | None


class Work(Protocol):
    """What an engine does to tasks: a value that travels to workers, and begins there once."""

    @property
    def memory_mb(self) -> float:
        """The memory that a worker needs, at most."""
        ...

    def begin(self, *, n_threads: int | None) -> Callable[[Task], Tally]:
        """Make ready, on so many threads or all; the call that does a task."""
        ...


class Engine(Protocol):
    """Who does the work: it maps tasks to what came of them."""

    def __call__(self, work: Work, tasks: Sequence[Task]) -> Generator[Tally]:
        """Do each task once, in any order; the first error that stays ends it."""
        ...


@dataclass(frozen=True)
class OneProcess:
    """The engine that is always there: this process, on all of its cores."""

    def __call__(self, work: Work, tasks: Sequence[Task]) -> Generator[Tally]:
        """The tasks one after another."""
        if tasks:
            yield from map(work.begin(n_threads=None), tasks)


@dataclass(frozen=True, eq=False)
class RankParts:
    """Ranks blocks of users and writes them, as a value that is sent to workers.

    `identity` is that of the query for all users of the model, so that no worker takes another
    model for this one. `loaded` is the model where it is in memory already; it does not travel.
    """

    model: Path
    query: Query
    identity: str
    place: Folder
    n_users: int
    loaded: Artifact | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"loaded": None}

    @property
    def memory_mb(self) -> float:
        """Twice the model, since its file is read whole and then taken apart, and two blocks."""
        n_bytes = sum(file.stat().st_size for file in self.model.glob("arrays-*.safetensors"))
        block = 2 * self.n_users * self.query.k * _BYTES_OF_A_ROW
        return _INTERPRETER_MB + self.query.memory_mb + (2 * n_bytes + block) / 2**20

    def begin(self, *, n_threads: int | None) -> Callable[[Task], Tally]:
        """Load the model, once for all tasks of a worker."""
        model = self.loaded
        if model is None:
            model = Artifact.load(self.model)
            self._require_same(model)

        def rank(task: Task) -> Tally:
            part, ids = task
            if ids is None:
                ids = model.users.ids[part.start : part.stop]
            (block,) = Job(model, ids, self.query).blocks(0, len(ids), n_threads=n_threads)
            return write_part(self.place, part, block.lists)

        return rank

    def _require_same(self, model: Artifact) -> None:
        if Job(model, model.users.ids, self.query).identity != self.identity:
            raise ModelError(
                "a worker has found another model",
                where=str(self.model),
                found="other content than that of the command",
                wanted="the same folder for all workers, that nobody replaces meanwhile",
            )


@dataclass(frozen=True)
class Spread:
    """Where lists go and who ranks them: a dataset, and an engine with the folder of the model."""

    dataset: FolderOfParts
    engine: Engine
    model: Path

    @property
    def where(self) -> str:
        return self.dataset.where

    def describe(self) -> dict[str, str]:
        """Its name for programs, without a password."""
        return self.dataset.describe()


def spread_lists(
    job: Job,
    spread: Spread,
    *,
    resume: bool = True,
    users_at_a_time: int | None = None,
    progress: Progress | None = None,
    notify: Notify = lambda _: None,
) -> Tally:
    """Rank a job into a dataset, by an engine; what came of it, earlier parts included.

    Args:
        job: Whose lists, of the model in `spread.model`.
        spread: Where they go, and who ranks.
        resume: Rank only the parts that are missing, where there are some of the same job;
            otherwise all, in place of what the dataset held.
        users_at_a_time: Users in a part; by default as many as have 131,072 rows. A job that
            goes on keeps the parts it began with.
        progress: Told how many users are written, and of how many.
        notify: Told what was found, and what is kept when something fails.

    Raises:
        DataError: The job has no user.
        StorageError: The dataset holds something else, or could not be written.
        EngineError: A part failed on every worker it was given to.
    """
    n_users = job.block_length(users_at_a_time, where=spread.where)
    total = len(job.user_ids)
    opened = spread.dataset.open(job, users_at_a_time=n_users, resume=resume, notify=notify)
    with opened as filling:
        if filling.done.n_users:
            notify(f"{filling.done.n_users:,} users were written before; going on with the others")
        tasks = [Task(part, _own_ids(job, part)) for part in filling.missing]
        with kept_users_told(filling, total, notify):
            with closing(spread.engine(_work_of(job, spread, filling.parts), tasks)) as tallies:
                for tally in tallies:
                    filling.add(tally)
                    if progress is not None:
                        progress(filling.done.n_users, total)
            filling.finish()
        return filling.done


def _is_for_everyone(job: Job) -> bool:
    return job.user_ids is job.model.users.ids


def _own_ids(job: Job, part: Part) -> NDArray[Any] | None:
    return None if _is_for_everyone(job) else job.user_ids[part.start : part.stop]


def _work_of(job: Job, spread: Spread, parts: Sequence[Part]) -> RankParts:
    everyone = job if _is_for_everyone(job) else replace(job, user_ids=job.model.users.ids)
    n_users = max(part.stop - part.start for part in parts)
    folder, place = spread.model.absolute(), spread.dataset.place
    return RankParts(folder, job.query, everyone.identity, place, n_users, job.model)
