"""Steps of one training as each of its processes sees them: batches, seconds, bytes and memory.

    python -m ratiorec_lab.together.watched JOBS FOLDER

JOBS is a list in JSON. What a process found of them is a file of its own in FOLDER. Alone it
trains as a fit by one process does; under torchrun as `ratiorec fit` there.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ratiorec.batches.users import AnyBatch, Batch, Epochs
from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.distributed.ranks import Ranks, rows_of_rank
from ratiorec.distributed.team import GradientTeam
from ratiorec.encoders.settings import LightGCN
from ratiorec.files import write_json
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.machine import is_rank, peak_memory_mb
from ratiorec.settings import Settings
from ratiorec.training.experiment import find_device
from ratiorec.training.loop import GradientTraining
from ratiorec.training.team import ALONE, Team
from ratiorec_lab.bench.clock import synchronize
from ratiorec_lab.bench.kernels import products_floor, term_floor
from ratiorec_lab.bench.random_data import long_tailed_pairs
from ratiorec_lab.bench.step import trained

Found = dict[str, Any]
MIB = 2**20


@dataclass(frozen=True)
class Job:
    """Steps to take of a preset (`PRESET[:SETTING=VALUE]…`) on a data set or on random pairs.

    A process that is alone tells of every batch what each of `cut_for` processes would have of it.
    """

    data: str | Mapping[str, int]
    preset: str
    n_steps: int
    seed: int = 0
    device: str = "cpu"
    cut_for: Sequence[int] = ()

    def load(self) -> Dataset:
        """The pairs."""
        if isinstance(self.data, str):
            return load(self.data)
        size = self.data["users"], self.data["items"], self.data["pairs"]
        return Dataset("long-tailed pairs", long_tailed_pairs(*size))


def found_by(start: Callable[..., None], jobs: Sequence[Job]) -> list[list[Found]]:
    """What every process found of each job; `start` is told the module that they run."""
    with tempfile.TemporaryDirectory() as place:
        start(__name__, json.dumps([asdict(job) for job in jobs]), place)
        files = sorted(Path(place).glob("*.json"))
        by_process = [json.loads(file.read_text()) for file in files]
    return [list(one) for one in zip(*by_process, strict=True)]


def main(jobs: str, folder: str) -> None:
    """Do all jobs with those who are there."""
    with ExitStack() as stack:
        asked = [Job(**job) for job in json.loads(jobs)]
        ranks = stack.enter_context(_ranks(asked[0].device)) if is_rank() else None
        found = [watched(job, ranks) for job in asked]
        write_json(Path(folder, f"{ranks.rank if ranks else 0}.json"), found)


@contextmanager
def _ranks(device: str) -> Iterator[Ranks]:
    ranks = Ranks.join(torch.device(str(find_device(device))))
    yield ranks
    ranks.leave()


def watched(job: Job, ranks: Ranks | None) -> Found:
    """The steps of one job, and what the model is worth after them where there is a test part."""
    dataset, settings = job.load(), trained(job.preset)
    team: Team = GradientTeam(ranks) if ranks else ALONE
    device = torch.device(str(ranks.device if ranks else find_device(job.device)))
    rng = np.random.default_rng(job.seed)
    own = team.portion(dataset.train)
    run = team.start(settings, own, rng=rng, device=device, memory_mb=math.inf, shared={})
    assert isinstance(run, GradientTraining)
    look = Look(own, dataset.train.n_users, ranks, job.cut_for)
    if not run.epochs.same_shape:
        run.epochs = LookedAt(run.epochs, look)
    with _threads(device):
        steps = list(timed_steps(run, job.n_steps, look, ranks))
    test = None
    if dataset.test is not None:
        test = team.judge(run.scorer(), own, team.portion(dataset.test), device=device)
    return {
        "users": own.n_users,
        "pairs": own.n_pairs,
        "threads": torch.get_num_threads(),
        "steps": [step._asdict() for step in steps],
        "digests": look.digests,
        "operations_per_step": operations_of_step(settings, own, look),
        "peak_mb": peak_memory_mb(),
        "bytes": bytes_held(run),
        "test": test,
    }


def _threads(device: torch.device) -> AbstractContextManager[None]:
    return deterministic_threads() if device.type == "cpu" else nullcontext()


class Step(NamedTuple):
    """What one step took, and what of it was spent on others and said to them."""

    seconds: float
    talking: float = 0.0
    n_bytes: float = 0.0


def timed_steps(
    run: GradientTraining, n_steps: int, look: Look, ranks: Ranks | None
) -> Iterator[Step]:
    """So many steps, each of a GPU's bursts as long as the others; the looks are not counted."""

    def clock() -> NDArray[np.float64]:
        synchronize(run.device)
        now = time.perf_counter() - look.seconds
        return np.array([now, *((ranks.seconds, ranks.n_bytes) if ranks else (0.0, 0.0))])

    before = clock()
    while run.step < n_steps:
        for losses in run.one_epoch(n_steps):
            after = clock()
            yield from [Step(*((after - before) / len(losses)).tolist())] * len(losses)
            before = after


@dataclass
class Look:
    """What is remembered of the batches; `seconds` were spent on looking."""

    own: Interactions
    n_users: int
    ranks: Ranks | None
    cut_for: Sequence[int]
    digests: dict[str, list[str]] = field(default_factory=dict)
    n_scores: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def __call__(self, batch: Batch) -> None:
        """One batch, as it was dealt."""
        began = time.perf_counter()
        self.n_scores.append(len(batch.users) * len(batch.candidates))
        for rank, size in self._parts():
            there = rows_of_rank(rank, size, self.n_users)
            told = self.digests.setdefault(f"{rank} of {size}", [])
            first = there.start if self.ranks else 0
            told.append(digest(batch, batch.users.numpy() + first, there))
        self.seconds += time.perf_counter() - began

    def _parts(self) -> list[tuple[int, int]]:
        if self.ranks is not None:
            return [(self.ranks.rank, self.ranks.size)] if self.cut_for else []
        return [(rank, size) for size in self.cut_for for rank in range(size)]


def digest(batch: Batch, users: NDArray[np.int64], there: slice) -> str:
    """Of users, rows and columns of a batch, and of its candidates, as the rank of `there` has it.

    Users are in the order in which they were dealt.
    """
    here = np.flatnonzero((users >= there.start) & (users < there.stop))
    rows, columns = batch.rows.numpy(), batch.columns.numpy()
    theirs = np.isin(rows, here)
    parts = (
        *(users[here], np.searchsorted(here, rows[theirs]), columns[theirs]),
        *(batch.prior.numpy()[here], batch.candidates.numpy()),
        *(batch.popularity.numpy(), batch.inclusion.numpy()),
    )
    whole = hashlib.sha256()
    for part in parts:
        whole.update(str((part.dtype, part.shape)).encode())
        whole.update(part.tobytes())
    return whole.hexdigest()


@dataclass(frozen=True, eq=False)
class LookedAt:
    """Batches, each of which is looked at as it is dealt."""

    epochs: Epochs
    look: Callable[[Batch], None]

    same_shape: ClassVar[bool] = False

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return self.epochs.n_steps

    def __call__(self, rng: np.random.Generator) -> Iterator[Any]:
        for batch in self.epochs(rng):
            self.look(batch)
            yield batch

    def complete(self, dealt: Any) -> AnyBatch:
        """The batch as losses read it."""
        return self.epochs.complete(dealt)


def operations_of_step(settings: Settings, own: Interactions, look: Look) -> float | None:
    """Those of the graph's products, there and back, and of the three products with all scores."""
    if not look.n_scores:
        return None
    encoder = settings.encoder
    dimension: int = encoder.dimension  # type: ignore[union-attr]
    scores = term_floor({"users": 1, "items": 1, "dimension": dimension})
    n_operations = scores.n_operations * float(np.mean(look.n_scores))
    if isinstance(encoder, LightGCN):
        size = {"nodes": 0, "entries": 2 * own.n_pairs, "dimension": dimension}
        n_operations += 2 * products_floor(size, encoder.n_layers).n_operations
    return n_operations


def bytes_held(run: GradientTraining) -> dict[str, int]:
    """The sizes of the tables and of what the optimiser remembers of them."""
    arrays, _ = run.state()
    sizes = {"tables": 0, "optimizer": 0}
    for name, array in arrays.items():
        sizes["tables" if name.startswith("parameter.") else "optimizer"] += array.nbytes
    return sizes


if __name__ == "__main__":
    main(*sys.argv[1:])
