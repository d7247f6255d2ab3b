"""Everything that writes, run once for each of its file-system calls, with a fault at that call.

    LD_PRELOAD=shim.so python -m support.fault_points OPERATION FOLDER

An operation starts from an old state. A run without faults counts its calls (the points); then it
runs again for each point and each fault that can happen there. After each run the target must be
the old one or the new one, bit by bit, and the same operation once more must leave exactly what
the run without faults left: no temporary file stays. The result is one JSON object.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import typer.main

import ratiorec
from ratiorec.cli import main
from ratiorec.errors import RatiorecError
from ratiorec.export.arrays import NumpyArrays
from ratiorec.export.exporting import export
from ratiorec.export.vectors import ExportTrial
from ratiorec.model.artifact import Artifact
from ratiorec.sinks import Job, sink_of, write_lists
from ratiorec.training.checkpoint import Checkpoints, FitState, KeptMembers
from support.command_line import everything_in
from support.sink_places import in_csv, in_parquet, in_sqlite
from support.small_models import small_model

OLD, NEW = small_model(0), small_model(1)
N_USERS_AT_A_TIME = 10  # of twenty: two blocks


class Fault(IntEnum):
    """As the shim numbers them, and one that needs no shim."""

    IO_ERROR = 1
    DISK_FULL = 2
    SHORT_WRITE = 3
    SIGNAL_BEFORE = 4
    SIGNAL_AFTER = 5
    KILL = 6
    TORN_KILL = 7
    SIGNAL_AT_LINE = 8


OF_READING = (Fault.IO_ERROR, Fault.SIGNAL_BEFORE, Fault.SIGNAL_AFTER)
OF_ANY = (*OF_READING, Fault.KILL)
AT: Mapping[str, tuple[Fault, ...]] = {
    # a process that dies while it reads leaves what it had written before, at a point of its own
    **dict.fromkeys(("read", "open to read", "list"), OF_READING),
    **dict.fromkeys(("open to write", "mkdir"), (*OF_ANY, Fault.DISK_FULL)),
    "write": (*OF_ANY, Fault.DISK_FULL, Fault.TORN_KILL, Fault.SHORT_WRITE),
    "write to stream": (*OF_ANY, Fault.DISK_FULL, Fault.TORN_KILL),  # a short one is an error
}


@dataclass(frozen=True)
class Operation:
    """Something that writes.

    `old` makes what is there before; `run` is called in a copy of it; `target` reads what counts,
    and must be able to; `is_between` allows targets that are made of whole old and whole new parts.
    With `by_line` a signal comes before each line of Python, too.
    """

    old: Callable[[Path], None]
    run: Callable[[Path], None]
    target: Callable[[Path], Any]
    is_between: Callable[[Any, Any, Any], bool] = lambda found, old, new: False
    by_line: bool = False


def nothing(place: Path) -> None:
    """No old state at all."""


def model_at(place: Path) -> dict[str, bytes] | None:
    """The files of a model that could be loaded; None where there is none."""
    if not (place / "model" / "model.json").exists():
        return None
    Artifact.load(place / "model")
    header = (place / "model" / "model.json").read_bytes()
    arrays = place / "model" / json.loads(header)["arrays"]["file"]
    return {"header": header, "arrays": arrays.read_bytes()}


def content(name: str, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """The bytes of a file that could be read; None where there is none."""

    def found(place: Path) -> bytes | None:
        path = place / name
        if not path.exists():
            return None
        read(path)
        return path.read_bytes()

    return found


def with_pairs(place: Path) -> None:
    OLD.save(place / "model")
    (place / "new.csv").write_text("user_id,item_id\nuser1,item7\nzoe,item3\n", encoding="utf-8")


def update(place: Path) -> None:
    command("update", str(place / "model"), str(place / "new.csv"))


typer.main.get_command = functools.cache(typer.main.get_command)  # most of the time of a command


class CommandFailedError(Exception):
    """A command that ended with a code of its own; that of a bug is no such thing."""


def command(*words: str) -> None:
    sys.argv = ["ratiorec", *words]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main()
    except SystemExit as left:
        if left.code == 128 + signal.SIGINT:
            raise KeyboardInterrupt from None
        if left.code:
            assert "Traceback" not in said.getvalue()
            raise CommandFailedError(said.getvalue()) from None


def fit_state(seconds: float) -> tuple[FitState, dict[str, Any]]:
    state = FitState({"seed": 0}, "search", {"epoch": 1}, [], None, None, 0, seconds)
    return state, {"parameter": np.full(50, seconds)}


def checkpoint(place: Path, seconds: float) -> None:
    Checkpoints(place / "run").write(*fit_state(seconds))


def checkpoint_at(place: Path) -> Any:
    found = Checkpoints(place / "run").read({"seed": 0})
    return None if found is None else (found[0].seconds, found[1]["parameter"].tolist())


def members(place: Path, *names: str) -> None:
    """Keep the last of the members beside those before it."""
    records = [{"name": name} for name in names]
    kept = KeptMembers(place / "run", {"seed": 0})
    kept.write(records, float(len(names)), names[-1], NEW.scorer)


def members_at(place: Path) -> Any:
    """The records of members, each of whom has its model."""
    kept = KeptMembers(place / "run", {"seed": 0})
    records, seconds = kept.read()
    for record in records:
        scorer = kept.scorer(record["name"], NEW.seen)
        assert np.array_equal(scorer.arrays()["items"], NEW.scorer.arrays()["items"])
    return records, seconds


def lists_of(model: Artifact, to: str) -> Callable[[Path], None]:
    job = Job.of(model, model.users.ids, 3)

    def write(place: Path) -> None:
        sink = sink_of(to.format(place))
        write_lists(job, sink, users_at_a_time=N_USERS_AT_A_TIME)

    return write


def rows_at(place: Path) -> Any:
    """The lists in a database, by user."""
    path = place / "lists.db"
    if not path.exists() or not path.stat().st_size:
        return None
    lists: dict[str, list[Any]] = {}
    for row in in_sqlite(path):
        lists.setdefault(row[0], []).append(row[1:])
    return lists


def each_list_is_whole(found: Any, old: Any, new: Any) -> bool:
    """Whether every user has the old list or the new one."""
    return all(rows in (old.get(user), new.get(user)) for user, rows in found.items())


def exported(model: Artifact) -> Callable[[Path], None]:
    trial = ExportTrial(k=3)
    return lambda place: void(export(model, NumpyArrays(), place / "vectors", trial=trial))


def void(_: object) -> None:
    """Let go of a result."""


def export_at(place: Path) -> Any:
    folder = place / "vectors"
    if not folder.exists():
        return None
    np.load(folder / "user_vectors.npy")
    return everything_in(folder)


SQLITE = "sqlite:///{}/lists.db"
OPERATIONS: Mapping[str, Operation] = {
    "save over a model": Operation(
        lambda place: OLD.save(place / "model"),
        lambda place: NEW.save(place / "model"),
        model_at,
        by_line=True,
    ),
    "save a new model": Operation(nothing, lambda place: NEW.save(place / "model"), model_at),
    "save another card": Operation(
        lambda place: OLD.save(place / "model"),
        lambda place: OLD.with_card({"seed": 9}).save(place / "model"),
        model_at,
    ),
    "update": Operation(with_pairs, update, model_at),
    "checkpoint": Operation(
        lambda place: checkpoint(place, 1.0),
        lambda place: checkpoint(place, 2.0),
        checkpoint_at,
        by_line=True,
    ),
    "members of auto": Operation(
        lambda place: members(place, "ease"),
        lambda place: members(place, "ease", "walk"),
        members_at,
        by_line=True,
    ),
    "lists to CSV": Operation(
        lists_of(OLD, "{}/lists.csv"),
        lists_of(NEW, "{}/lists.csv"),
        content("lists.csv", in_csv),
        by_line=True,
    ),
    "lists to Parquet": Operation(
        lists_of(OLD, "{}/lists.parquet"),
        lists_of(NEW, "{}/lists.parquet"),
        content("lists.parquet", in_parquet),
    ),
    "lists to SQLite": Operation(
        lists_of(OLD, SQLITE), lists_of(NEW, SQLITE), rows_at, each_list_is_whole
    ),
    "export over an export": Operation(exported(OLD), exported(NEW), export_at, by_line=True),
    "a new export": Operation(nothing, exported(NEW), export_at),
}


class Shim:
    """The functions of the preloaded library."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._arm, self._disarm = library.fault_arm, library.fault_disarm
        self._name = library.fault_name
        self._name.restype = ctypes.c_char_p

    @contextlib.contextmanager
    def armed(self, place: Path, fault: Fault | None = None, point: int = -1) -> Iterator[None]:
        if fault is Fault.SIGNAL_AT_LINE:
            with interrupted_at(point):
                yield
            return
        self._arm(str(place).encode(), fault or 0, point)
        try:
            yield
        finally:
            self._disarm()

    def names(self, place: Path, run: Callable[[Path], None]) -> list[str]:
        """What each call is, in a run without a fault."""
        self._arm(str(place).encode(), 0, -1)
        run(place)
        n_points = self._disarm()
        return [self._name(point).decode() for point in range(n_points)]


_WRITERS = tuple(
    str(Path(ratiorec.__file__).parent / name)
    for name in (
        "files.py",
        "model/store.py",
        "training/checkpoint.py",
        "sinks/parts.py",
        "sinks/csv_file.py",
        "export/exporting.py",
    )
)


def is_writing(frame: FrameType) -> bool:
    """Whether a frame is of a module that writes, or of the `with` of one."""
    outer, name = frame.f_back, frame.f_code.co_filename
    by_writer = outer is not None and outer.f_code.co_filename in _WRITERS
    return name in _WRITERS or (name == contextlib.__file__ and by_writer)


@contextlib.contextmanager
def interrupted_at(line: int) -> Iterator[Counter[str]]:
    """Inside, Ctrl-C comes before the line of Python, of those that write, with this number."""
    count = Counter[str]()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not is_writing(frame):
            return None
        if event == "line":
            count["lines"] += 1
            if count["lines"] == line + 1:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(None)


class Run(NamedTuple):
    """One run of an operation, with its fault."""

    fault: Fault
    point: int
    name: str


@dataclass
class Trial:
    """All runs of one operation."""

    operation: Operation
    folder: Path
    shim: Shim
    failures: list[str] = field(default_factory=list)
    n_runs: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.template, self.place = self.folder / "old", self.folder / "place"
        self.template.mkdir()
        self.operation.old(self.template)
        self._renew()
        self.old = self.operation.target(self.place)
        self.names = self.shim.names(self.place, self.operation.run)
        self.new, self.after = self.operation.target(self.place), self._listing()
        assert self.old != self.new
        self._renew()
        with interrupted_at(-1) as count:
            self.operation.run(self.place)
        self.n_lines = count["lines"] if self.operation.by_line else 0

    def runs(self) -> Iterator[Run]:
        for point, name in enumerate(self.names):
            for fault in AT.get(name, OF_ANY):
                yield Run(fault, point, name)
        for line in range(self.n_lines):
            yield Run(Fault.SIGNAL_AT_LINE, line, "line")

    def __call__(self) -> None:
        for run in self.runs():
            self._renew()
            self.n_runs[run.fault.name.lower()] += 1
            try:
                self._check(run)
            except Exception as error:  # told with the run it belongs to
                told = f"{run.fault.name} at {run.name} {run.point}: {type(error).__name__}: "
                self.failures.append(told + str(error)[:300])

    def _check(self, run: Run) -> None:
        meet = self._killed if run.fault in (Fault.KILL, Fault.TORN_KILL) else self._met
        ended = meet(run)
        found = self.operation.target(self.place)
        states = [self.new] if ended else [self.old, self.new]
        is_between = not ended and self.operation.is_between(found, self.old, self.new)
        assert found in states or is_between, f"{'new' if ended else 'old or new'} wanted"
        self.operation.run(self.place)
        assert self.operation.target(self.place) == self.new, "run again: not the new one"
        left = self._listing() ^ self.after
        assert not left, f"run again: other files, {sorted(left)}"

    def _met(self, run: Run) -> bool:
        """Whether the operation came to its end all the same."""
        is_signal = run.fault in (Fault.SIGNAL_BEFORE, Fault.SIGNAL_AFTER, Fault.SIGNAL_AT_LINE)
        try:
            with self.shim.armed(self.place, run.fault, run.point):
                self.operation.run(self.place)
        except (RatiorecError, CommandFailedError):
            assert not is_signal, "an error in place of the signal"
            assert run.fault is not Fault.SHORT_WRITE, "a short write is no error"
            return False
        except KeyboardInterrupt:
            assert is_signal
            return False
        assert not is_signal, "nobody has heard the signal"
        return True

    def _killed(self, run: Run) -> bool:
        child = os.fork()
        if not child:
            with self.shim.armed(self.place, run.fault, run.point):
                self.operation.run(self.place)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the point was not reached"
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False

    def _renew(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.template, self.place)

    def _listing(self) -> set[str]:
        return set(everything_in(self.place))


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    started = time.process_time()
    trial = Trial(OPERATIONS[name], Path(folder).resolve(), Shim())
    trial()
    spent = time.process_time() - started + sum(os.times()[2:4])
    result = {
        "calls": len(trial.names),
        "lines": trial.n_lines,
        "runs": sum(trial.n_runs.values()),
        "by_fault": trial.n_runs,
        "by_name": Counter(trial.names),
        "seconds": round(spent, 1),
        "failures": trial.failures,
    }
    print(json.dumps(result))
