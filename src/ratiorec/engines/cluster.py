"""The engine Ray: workers on the machines of a cluster, or on this one alone."""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ratiorec import __version__
from ratiorec.engines.spread import Task, Work
from ratiorec.errors import ConfigError, EngineError, require_extra, require_range
from ratiorec.machine import usable_cores
from ratiorec.sinks.job import Notify, Tally

_ALONE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as there: listen to this machine and no other
}
_STORE_BYTES = 100 * 2**20  # for what Ray hands about: blocks are ranges, their lists are files
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_SECONDS_OF_SILENCE = 30.0
_SECONDS_TO_ANSWER = 10.0
_MOST_OF_A_MESSAGE = 500


@dataclass(frozen=True)
class RayCluster:
    """Ray workers that each load the model once and take one block after another.

    A block whose worker has failed or died goes to a new worker.

    Attributes:
        address: Of a Ray that runs: "auto", "HOST:PORT" or "ray://HOST:PORT". By default the one
            this program is connected to, or else one on this machine alone, for this job.
        n_workers: By default as many as the cluster has cores for.
        cores_per_worker: Cores that a worker ranks on, around one copy of the model.
        n_attempts: How often a block, or the start of a worker, may fail before the job ends.
        notify: Told of workers that failed, and of waiting for room.
    """

    address: str | None = None
    n_workers: int | None = None
    cores_per_worker: int = 1
    n_attempts: int = 3
    notify: Notify = field(default=lambda _: None, compare=False)

    def __post_init__(self) -> None:
        for name in ("n_workers", "cores_per_worker", "n_attempts"):
            if (value := getattr(self, name)) is not None:
                require_range(name, value, at_least=1, what="an engine needs workers")
        _ray(self.address)  # refused before anything is ranked

    def __call__(self, work: Work, tasks: Sequence[Task]) -> Generator[Tally]:
        """What came of each task, as soon as it is done."""
        if not tasks:
            return
        n_cores = None if self.n_workers is None else self.n_workers * self.cores_per_worker
        with connected(self.address, n_cores) as ray:
            n_there = int(ray.cluster_resources().get("CPU", 0))
            n_workers = self.n_workers or max(1, n_there // self.cores_per_worker)
            crew = _Crew(ray, self, work, deque(tasks))
            try:
                yield from crew.results(min(n_workers, len(tasks)))
            finally:
                crew.dismiss()


@dataclass
class _Crew:
    """The workers of one job, and what each is doing."""

    ray: Any
    engine: RayCluster
    work: Work
    waiting: deque[Task]
    calls: dict[Any, tuple[Any, Task | None]] = field(default_factory=dict)
    failures: Counter[int | None] = field(default_factory=Counter)

    def results(self, n_workers: int) -> Iterator[Tally]:
        """What came of the tasks. Only a worker that has started is given one."""
        n_left, has_started = len(self.waiting), False
        for _ in range(n_workers):
            self._hire()
        while n_left:
            ready, _ = self.ray.wait(list(self.calls), timeout=_SECONDS_OF_SILENCE)
            if not ready and not has_started:
                self._tell_of_waiting()
            for call in ready:
                worker, task = self.calls.pop(call)
                try:
                    found = self.ray.get(call)
                except self.ray.exceptions.RayError as error:
                    self._replace(worker, task, error)
                    continue
                if task is None:
                    _require_own_version(*found)
                    has_started = True
                else:
                    n_left -= 1
                    yield found
                self._give(worker)

    def dismiss(self) -> None:
        """End all workers; a part that one was writing is not there."""
        for worker, _ in self.calls.values():
            self.ray.kill(worker)

    def _hire(self) -> None:
        options = {
            "num_cpus": self.engine.cores_per_worker,
            "memory": int(self.work.memory_mb * 2**20),
            "max_restarts": 0,  # a new one may come to be on another machine
        }
        worker = self.ray.remote(**options)(_worker_class()).remote()
        begin = pickle.dumps(self.work), __version__, self.engine.cores_per_worker
        self.calls[worker.begin.remote(*begin)] = worker, None

    def _give(self, worker: Any) -> None:
        """The next task for a worker, who may go where there is none."""
        if self.waiting:
            task = self.waiting.popleft()
            self.calls[worker.rank.remote(task)] = worker, task
        else:
            self.ray.kill(worker)

    def _replace(self, worker: Any, task: Task | None, error: Exception) -> None:
        """Another worker in the place of one that failed, unless that has been tried enough."""
        self.ray.kill(worker)
        what = "a worker could not start" if task is None else f"{_users(task)} failed"
        place = None if task is None else task.part.start
        self.failures[place] += 1
        where, found = _told(error)
        if (n_failures := self.failures[place]) >= self.engine.n_attempts:
            raise EngineError(
                f"{what}, {n_failures} times",
                where=where,
                found=found,
                wanted="the cause mended; the same command goes on with what is missing",
            ) from error
        self.engine.notify(f"{what} ({where}: {found}); another worker tries again")
        if task is not None:
            self.waiting.appendleft(task)
        self._hire()

    def _tell_of_waiting(self) -> None:
        cores, memory = self.engine.cores_per_worker, self.work.memory_mb
        self.engine.notify(
            f"waiting for room in the cluster: a worker needs {cores} free cores and "
            f"{memory:,.0f} MB on one machine"
        )


def _worker_class() -> type:
    """The class of workers: it travels as it is, so that any version can say which it is."""

    class RankingWorker:
        """A process with the model, which does one task after another."""

        def begin(self, work: bytes, version: str, n_threads: int) -> tuple[str, str]:
            """Load the model, if this is the same ratiorec; which it is, and where."""
            import pickle
            import socket

            import ratiorec

            if ratiorec.__version__ == version:
                self.rank_task = pickle.loads(work).begin(n_threads=n_threads)
            return ratiorec.__version__, socket.gethostname()

        def rank(self, task: Any) -> Any:
            """The lists of a block as a part; how much it holds."""
            return self.rank_task(task)

    return RankingWorker


def _require_own_version(version: str, host: str) -> None:
    if version != __version__:
        raise ConfigError(
            "a worker has another version of ratiorec",
            where=host,
            found=version,
            wanted=f"{__version__}, as the command has, on every machine of the cluster",
        )


def _users(task: Task) -> str:
    return f"the block of users {task.part.start + 1:,} to {task.part.stop:,}"


def _told(error: Any) -> tuple[str, str]:
    """Where a worker failed and why, in one line: the error of the work, or Ray's own words."""
    cause = getattr(error, "cause", None) or error
    place = f"process {error.pid} on {error.ip}" if hasattr(error, "pid") else "a Ray worker"
    text = f"{type(cause).__name__}: {cause}"
    return place, " ".join(text.split())[:_MOST_OF_A_MESSAGE]


def _ray(address: str | None) -> Any:
    """Ray; imported for this machine alone it never asks for the machine's outer address."""
    with _environment(address):
        return require_extra("ray", "ray", where="--engine ray")


def _host(address: str | None) -> tuple[str, int] | None:
    """The machine and port of an address that names them."""
    found = re.fullmatch(r"(?:ray://)?([^:/]+|\[[0-9A-Fa-f:]+\]):(\d{1,5})", address or "")
    return None if found is None else (found[1].strip("[]"), int(found[2]))


@contextmanager
def _environment(address: str | None) -> Iterator[None]:
    """Inside, what Ray reads when it is imported and hands on to its processes."""
    host = _host(address)
    is_alone = address is None or (host is not None and host[0] in _LOOPBACK)
    old = {name: os.environ.get(name) for name in _ALONE}
    os.environ.update(_ALONE if is_alone else {})
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def connected(address: str | None = None, n_cores: int | None = None) -> Iterator[Any]:
    """Ray, connected as `RayCluster` says; what was begun for this ends with the block."""
    ray = _ray(address)
    if address is None and ray.is_initialized():
        yield ray
        return
    own = {
        "num_cpus": usable_cores() if n_cores is None else n_cores,
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES,
    }
    options = {"address": "local", **own} if address is None else {"address": address}
    try:
        if (host := _host(address)) is not None:  # Ray itself would try for minutes
            socket.create_connection(host, timeout=_SECONDS_TO_ANSWER).close()
        with _environment(address), _same_signals():
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ImportError) as error:
        raise EngineError(
            "Ray could not be reached" if address else "Ray could not be started",
            where=f"--engine-address {address}" if address else "this machine",
            found=_told(error)[1],
            wanted="the address of a Ray that runs, or none for one on this machine",
        ) from error
    try:
        if address is None:
            _require_loopback(ray.util.get_node_ip_address())
        yield ray
    finally:
        with _same_signals():
            ray.shutdown()


def _require_loopback(address: str) -> None:
    if address not in _LOOPBACK:
        raise EngineError(
            "Ray would listen to the network",
            where="this machine",
            found=f"a Ray at {address}, since this program imported ray before",
            wanted="ray imported by nobody else, or ray.init() called by the program itself",
        )


@contextmanager
def _same_signals() -> Iterator[None]:
    """Keep how this process hears a polite kill, which Ray takes over."""
    old = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, old)
