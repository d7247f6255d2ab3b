"""Training killed at random moments and resumed: the same bits, and never a half-written file.

A small model is trained once without interruption. Then, in every round, the same command is
killed (SIGKILL) once or several times: at a moment drawn uniformly over the duration of a run,
or some time after its first checkpoint, or just as it saves its model. After each kill every
file it left must be whole; in the end `--resume` must give the arrays of the uninterrupted
run, bit for bit, and its training curve.

    python -m ratiorec_lab.studies.kill_and_resume
    python -m ratiorec_lab.studies.kill_and_resume --rounds 100 --seed 1

Ends with 1 when a model differs or a file is not whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open

from ratiorec.errors import ModelError
from ratiorec.model.artifact import Artifact
from ratiorec.model.store import HEADER, read_model
from ratiorec.training.checkpoint import FILE
from ratiorec_lab.studies.study import parser, tell

SETTINGS = {
    "encoder.dimension": 8,
    "encoder.n_layers": 1,
    "batches.n_users": 150,
    "training.validate_every_epochs": 2,
    "training.min_steps_between_validations": 1,
    "training.patience": 2,
    "training.learning_rate": 0.03,
}
SHARE_AIMED_AT_TRAINING = 0.3
SHARE_AIMED_AT_SAVING = 0.3
SECONDS_OF_SAVING = 0.02


@dataclass
class Tally:
    """What has happened so far."""

    equal: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    half_written: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Command:
    """One command, and the paths it writes to."""

    folder: Path
    n_epochs: int

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "model.checkpoint" / FILE

    @property
    def log(self) -> Path:
        return self.folder / "model.training.jsonl"

    def start(self) -> subprocess.Popen[str]:
        """The command, which goes on from a checkpoint where there is one."""
        settings = SETTINGS | {"training.epochs": self.n_epochs}
        options = [
            word for name, value in settings.items() for word in ("--set", f"{name}={value}")
        ]
        return started(
            *("fit", "synthetic", "--preset", "dregn-cf", "-o", str(self.model), "--device", "cpu"),
            *("--checkpoint-seconds", "0", "--resume", *options),
        )

    def finish(self) -> dict[str, object]:
        """Let the command end; its model's arrays to the last bit, and the curve of its risk.

        The refit starts afresh, so only the curve can tell whether the search went on well.
        """
        end(self.start())
        header, arrays = read_model(self.model)
        for record in header["card"]["curve"]:
            del record["seconds"]
        bits = {name: array.tobytes() for name, array in arrays.items()}
        return bits | {"curve": header["card"]["curve"]}

    def traces(self) -> tuple[list[Path], int]:
        """What tells how far a command has come: its model's files, its checkpoint's age."""
        age = 0
        with contextlib.suppress(FileNotFoundError):  # not there yet, or no longer
            age = self.checkpoint.stat().st_mtime_ns
        return sorted(self.model.glob("*")), age


def started(*arguments: str) -> subprocess.Popen[str]:
    """The command line as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ratiorec.cli", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def main() -> int:
    """Train once without interruption, then many times with kills."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--most-kills", type=int, default=3, help="in one round")
    options.add_argument("--epochs", type=int, default=20, help="the longer, the longer training")
    options.add_argument("--seed", type=int, default=0, help="for the moments of the kills")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        uninterrupted = Command(Path(place) / "uninterrupted", asked.epochs)
        started = time.monotonic()
        expected = uninterrupted.finish()
        duration = time.monotonic() - started
        card = Artifact.load(uninterrupted.model).card
        tally = Tally()
        rng = random.Random(asked.seed)
        for number in range(asked.rounds):
            training = Command(Path(place) / str(number), asked.epochs)
            for _ in range(rng.randint(1, asked.most_kills)):
                kill_once(training, duration, tally, rng)
            tally.equal += training.finish() == expected
    tell(
        {
            "rounds": asked.rounds,
            "kills": sum(tally.kills.values()),
            "killed_while": dict(sorted(tally.kills.items())),
            "equal": tally.equal,
            "half_written": tally.half_written,
            "uninterrupted": {"seconds": round(duration, 2), "refit_steps": card["steps"]},
        }
    )
    return 0 if tally.equal == asked.rounds and not tally.half_written else 1


def kill_once(training: Command, duration: float, tally: Tally, rng: random.Random) -> None:
    """Start the command and kill it; one that ended sooner is undone and started again."""
    while True:
        before = training.traces()
        process = training.start()
        wait_for_the_moment(training, process, duration, rng)
        process.kill()
        end(process)
        tally.half_written += faults(training)
        if process.returncode < 0:
            tally.kills[stage(before, training.traces())] += 1
            return
        for file in (*training.model.iterdir(), training.log):
            file.unlink(missing_ok=True)
        training.model.rmdir()


def end(process: subprocess.Popen[str]) -> None:
    """Wait for the end of a command, which is good or the kill."""
    _, errors = process.communicate()
    if process.returncode > 0:
        raise RuntimeError(f"the command ended with {process.returncode}: {errors}")


def stage(before: tuple[list[Path], int], after: tuple[list[Path], int]) -> str:
    """What a command was doing when it was killed, by the traces it left."""
    if before[0] != after[0]:
        return "saving"
    return "training" if before[1] != after[1] else "starting"


def wait_for_the_moment(
    training: Command, process: subprocess.Popen[str], duration: float, rng: random.Random
) -> None:
    """Until it saves, or trains, or any moment, as the dice fall."""
    files, age = training.traces()
    aim = rng.random()
    if aim < SHARE_AIMED_AT_SAVING:
        wait_until(lambda: training.traces()[0] != files, process)
        wait(process, rng.uniform(0, SECONDS_OF_SAVING))
    elif aim < SHARE_AIMED_AT_SAVING + SHARE_AIMED_AT_TRAINING:
        wait_until(lambda: training.traces()[1] != age, process)
        wait(process, rng.uniform(0, duration / 4))
    else:
        wait(process, rng.uniform(0, duration))


def wait(process: subprocess.Popen[str], seconds: float) -> None:
    """So long, or until the end of the command."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def wait_until(happens: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until it happens, or the end of the command."""
    while process.poll() is None and not happens():
        time.sleep(0.0005)


def faults(training: Command) -> list[str]:
    """The files that are not whole; hidden ones are temporary and may be anything."""
    found = []
    if (training.model / HEADER).exists():
        try:
            Artifact.load(training.model)
        except ModelError as error:
            found.append(str(error))
    found += [
        f"{file.name}: not the content it is named by"
        for file in training.model.glob("arrays-*")
        if hashlib.sha256(file.read_bytes()).hexdigest()[:16] not in file.name
    ]
    if training.checkpoint.exists() and not is_checkpoint(training.checkpoint):
        found.append(f"{training.checkpoint.name}: not a checkpoint")
    if training.log.exists() and not is_log(training.log):
        found.append(f"{training.log.name}: not whole lines of JSON")
    return found


def is_checkpoint(file: Path) -> bool:
    """Whether all arrays and the position can be read."""
    try:
        with safe_open(file, framework="np") as content:
            json.loads(content.metadata()["ratiorec"])
            return all(content.get_tensor(name).size for name in content.keys())  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError):
        return False


def is_log(file: Path) -> bool:
    """Whether every line is whole."""
    text = file.read_text(encoding="utf-8")
    try:
        lines = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return False
    return all("epoch" in line for line in lines) and text[-1:] in ("", "\n")


if __name__ == "__main__":
    sys.exit(main())
