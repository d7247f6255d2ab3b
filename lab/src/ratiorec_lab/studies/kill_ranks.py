"""One of several training processes killed at random moments: all go on to the same model.

A small model is trained by two processes without interruption. Then, under `--workers 2` and under
`torchrun --max-restarts 3`, the same command loses a process (SIGKILL), up to three times in a
round, at a moment drawn uniformly over a quarter of the training, counted from the first new
checkpoint. Meanwhile the checkpoint is loaded again and again: whatever stands in its folder must
be whole. In the end the model must be that of the uninterrupted run and nothing else be left.

Then two processes are asked to stop, and three, and one, go on from their checkpoint.

    python -m ratiorec_lab.studies.kill_ranks
    python -m ratiorec_lab.studies.kill_ranks --kills 10 --seed 1

Ends with 1 when a model is another one or a file is not whole. It needs /proc to find the ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.checkpoint import hf_storage, state_dict_loader
from torch.distributed.checkpoint.api import CheckpointException

from ratiorec.distributed.checkpoint import STATE
from ratiorec.distributed.session import RESTARTS
from ratiorec.model.store import read_model
from ratiorec.training.checkpoint import CURRENT
from ratiorec_lab.studies.kill_and_resume import SETTINGS, is_log
from ratiorec_lab.studies.study import parser, tell
from ratiorec_lab.together.hosts import TORCHRUN, Started, start, threads_of_each

CLOSE = 1e-5  # of any number in the model
TOLERANCE = 5e-4  # of R@20
SECONDS_BETWEEN_CHECKPOINTS = 0.1
CHECKPOINTS_BEFORE_STOP = 5
BY_WORKERS, BY_TORCHRUN = "--workers", "torchrun --max-restarts"
Model = tuple[dict[str, np.ndarray[Any, Any]], float]


@dataclass(frozen=True)
class Training:
    """One command, and the paths it writes to."""

    folder: Path
    n_epochs: int
    n_ranks: int = 2
    way: str = BY_WORKERS

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "model.checkpoint"

    def start(self, *more: str) -> Started:
        """The command, its processes under the one that starts them."""
        settings = SETTINGS | {"training.epochs": self.n_epochs}
        fit = (
            *("-m", "ratiorec", "fit", "synthetic", "--preset", "dregn-cf", "--device", "cpu"),
            *("--validation", "0", "--checkpoint-seconds", str(SECONDS_BETWEEN_CHECKPOINTS)),
            *("-o", str(self.model), *more),
            *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
        )
        size = str(self.n_ranks)
        if self.way == BY_WORKERS:
            command = (sys.executable, *fit, "--workers", size)
        else:
            restarts = f"--max-restarts={RESTARTS}"
            command = (*TORCHRUN, "--standalone", "--nproc-per-node", size, restarts, *fit)
        return start(command, threads_of_each(self.n_ranks))

    def found(self) -> Model:
        """What the model has learnt, and R@20 on the test part."""
        header, arrays = read_model(self.model)
        factors = {name: array for name, array in arrays.items() if name.startswith("scorer.")}
        return factors, float(header["card"]["test"]["recall@20"])

    def rank_processes(self) -> dict[int, int]:
        """The processes that train now, by rank."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                words = (process / "cmdline").read_bytes().split(b"\0")
                names = (process / "environ").read_bytes().split(b"\0")
                ranks = [name[5:] for name in names if name.startswith(b"RANK=")]
                if str(self.model).encode() in words and ranks:
                    found[int(ranks[0])] = int(process.name)
        return found

    def checkpoint_name(self) -> str | None:
        """That of the checkpoint from which training would go on."""
        try:
            return str(json.loads((self.checkpoint / CURRENT).read_text())["checkpoint"])
        except FileNotFoundError:
            return None

    def left(self) -> list[str]:
        """All that is there, folders too."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@dataclass
class Tally:
    """What has happened so far."""

    kills: int = 0
    rounds: int = 0
    equal_to_the_bit: int = 0
    largest_difference: float = 0.0
    largest_difference_of_recall: float = 0.0
    checkpoints_loaded: int = 0
    half_written: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)

    def compare(self, found: Model, expected: Model) -> None:
        """One finished model with the uninterrupted one."""
        self.rounds += 1
        difference = largest_difference(found, expected)
        self.equal_to_the_bit += difference == 0
        self.largest_difference = max(self.largest_difference, difference)
        gap = abs(found[1] - expected[1])
        self.largest_difference_of_recall = max(self.largest_difference_of_recall, gap)

    @property
    def is_good(self) -> bool:
        """Whether all is as promised."""
        same = self.largest_difference <= CLOSE or self.largest_difference_of_recall <= TOLERANCE
        return same and not self.half_written and not self.left_over


def largest_difference(found: Model, expected: Model) -> float:
    """Between two numbers at the same place of both models."""
    assert found[0].keys() == expected[0].keys()
    return max(
        float(np.abs(array.astype(np.float64) - expected[0][name]).max())
        for name, array in found[0].items()
    )


def main() -> int:
    """Train once without interruption, then with kills, then with other numbers of processes."""
    options = parser(__doc__)
    options.add_argument("--kills", type=int, default=10, help="of each way to start processes")
    options.add_argument("--epochs", type=int, default=20, help="the longer, the longer training")
    options.add_argument("--seed", type=int, default=0, help="for the moments of the kills")
    asked = options.parse_args()
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as place:
        uninterrupted = Training(Path(place, "uninterrupted"), asked.epochs)
        seconds = seconds_of_training(uninterrupted)
        expected, files = uninterrupted.found(), uninterrupted.left()
        tallies = {}
        for way in (BY_WORKERS, BY_TORCHRUN):
            tally = tallies[way] = Tally()
            while tally.kills < asked.kills:
                training = Training(Path(place, f"{way}-{tally.rounds}"), asked.epochs, way=way)
                most = min(RESTARTS, asked.kills - tally.kills)
                killed(training, most, seconds / 4, tally, rng)
                tally.compare(training.found(), expected)
                tally.left_over += [name for name in training.left() if not like(name, files)]
        others = continued_by_others(Path(place), asked.epochs, expected)
    tell(
        {
            "processes": 2,
            "uninterrupted": {"seconds_of_training": round(seconds, 2), "recall@20": expected[1]},
            "close": CLOSE,
            "tolerance": TOLERANCE,
            "killed": {way: vars(tally) for way, tally in tallies.items()},
            "continued_by": others,
        }
    )
    good = all(tally.is_good for tally in tallies.values())
    return 0 if good and all(other["is_good"] for other in others.values()) else 1


def seconds_of_training(training: Training) -> float:
    """Let a command end; the time from its first checkpoint on."""
    started = training.start()
    wait_for_checkpoint(training, started)
    began = time.monotonic()
    started.finish()
    return time.monotonic() - began


def killed(
    training: Training, n_kills: int, longest_wait: float, tally: Tally, rng: random.Random
) -> None:
    """A command that loses so many processes, one after another, unless it ends before."""
    started = training.start()
    gone: set[int] = set()
    with watched(training, tally):
        for _ in range(n_kills):
            wait_for_new_ranks(training, gone, started)
            wait_for_checkpoint(training, started)
            time.sleep(rng.uniform(0, longest_wait))
            processes = training.rank_processes()
            if started.process.poll() is not None or len(processes) < training.n_ranks:
                break
            gone |= set(processes.values())
            os.kill(processes[rng.randrange(training.n_ranks)], signal.SIGKILL)
            tally.kills += 1
        started.finish()


@contextmanager
def watched(training: Training, tally: Tally) -> Iterator[None]:
    """Load the checkpoint of a training over and over."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SECONDS_BETWEEN_CHECKPOINTS):
            fault = fault_of_checkpoint(training)
            tally.checkpoints_loaded += fault == ""
            tally.half_written += [fault] if fault else []

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    log = training.folder / "model.training.jsonl"
    tally.half_written += [] if is_log(log) else [f"{log.name}: not whole lines of JSON"]


def fault_of_checkpoint(training: Training) -> str | None:
    """What is not whole in a checkpoint, "" where all is; None where it was replaced meanwhile."""
    name = training.checkpoint_name()
    if name is None:
        return None
    try:
        fault = _fault_of(training.checkpoint / name, training.n_ranks)
    except (Exception, CheckpointException) as error:  # whatever a reader says of it
        fault = f"{type(error).__name__}: {error}"
    return fault if training.checkpoint_name() == name else None


def _fault_of(folder: Path, n_ranks: int) -> str:
    json.loads((folder / STATE).read_text(encoding="utf-8"))
    if (n_shards := len(list(folder.glob("*.safetensors")))) != n_ranks:
        return f"{n_shards} shards of {n_ranks}"  # what is left of a table is a shorter one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = hf_storage.HuggingFaceStorageReader(str(folder))
        sizes: dict[str, Any] = reader.read_metadata().state_dict_metadata
        room = {
            key: torch.full(one.size, torch.nan, dtype=one.properties.dtype)
            for key, one in sizes.items()
        }
        state_dict_loader.load(room, storage_reader=reader, no_dist=True)
    return ", ".join(key for key, tensor in room.items() if not tensor.isfinite().all())


def like(name: str, expected: list[str]) -> bool:
    """Whether an uninterrupted run leaves such a file; those of arrays are named by content."""
    return name in expected or Path(name).name.startswith("arrays-")


def continued_by_others(place: Path, n_epochs: int, expected: Model) -> dict[str, dict[str, Any]]:
    """What three, two and one make of the checkpoint of two who were asked to stop."""
    stopped = Training(place / "stopped", n_epochs)
    started = stopped.start()
    for _ in range(CHECKPOINTS_BEFORE_STOP):
        wait_for_checkpoint(stopped, started)
    started.process.terminate()
    with contextlib.suppress(RuntimeError):  # that it was stopped
        started.finish()
    found = {}
    for n_ranks in (3, 1):
        training = Training(place / f"by {n_ranks}", n_epochs, n_ranks)
        shutil.copytree(stopped.checkpoint, training.checkpoint)
        done = epochs_in(training)
        training.start("--resume").finish()
        difference = largest_difference(training.found(), expected)
        gap = abs(training.found()[1] - expected[1])
        found[str(n_ranks)] = {
            "epochs_before": done,
            "largest_difference": difference,
            "difference_of_recall": gap,
            "is_good": difference <= CLOSE or gap <= TOLERANCE,
        }
    return found


def epochs_in(training: Training) -> float:
    """The epochs that are behind a checkpoint."""
    name = training.checkpoint_name()
    assert name is not None
    state = json.loads((training.checkpoint / name / STATE).read_text(encoding="utf-8"))
    return float(state["position"]["epoch"])


def wait_for_new_ranks(training: Training, gone: set[int], started: Started) -> None:
    """Until all ranks are others than those of which one was killed, or the end of the command."""
    while started.process.poll() is None:
        ranks = set(training.rank_processes().values())
        if len(ranks) == training.n_ranks and not ranks & gone:
            return
        time.sleep(0.1)


def wait_for_checkpoint(training: Training, started: Started) -> None:
    """Until there is a new one, or the end of the command."""
    before = training.checkpoint_name()
    while started.process.poll() is None and training.checkpoint_name() in (None, before):
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main())
