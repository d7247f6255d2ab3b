from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from ratiorec.errors import ConfigError, StorageError
from ratiorec.sinks import Block, Job, Tally, write_lists
from ratiorec.sinks.job import Notify
from support.sink_places import small_model


@dataclass
class Slow:
    """A sink that takes its time, and perhaps fails."""

    where: str = "nowhere"
    done: Tally = field(default_factory=Tally)
    ranked: int = 0
    most_ahead: int = 0
    fails: bool = False
    threads: set[str] = field(default_factory=set)

    def describe(self) -> dict[str, str]:
        return {}

    @contextmanager
    def open(self, job: Job, *, resume: bool, notify: Notify) -> Iterator[Slow]:
        yield self

    def progress(self, done: int, total: int) -> None:
        self.ranked = done
        self.most_ahead = max(self.most_ahead, done - self.done.n_users)

    def write(self, block: Block) -> None:
        threading.Event().wait(0.02)
        if self.fails:
            raise StorageError("full", where="", found="", wanted="")
        self.threads.add(threading.current_thread().name)
        self.done = self.done.plus(Tally.of(block.lists))

    def finish(self) -> None:
        pass


def test_ranking_is_never_more_than_two_blocks_ahead_of_writing() -> None:
    slow, model = Slow(), small_model()
    write_lists(Job.of(model, model.users.ids, 2), slow, users_at_a_time=5, progress=slow.progress)
    assert slow.done.n_users == 60
    assert slow.most_ahead <= 2 * 5  # one being written and one being ranked


def test_blocks_are_written_beside_ranking() -> None:
    slow, model = Slow(), small_model()
    write_lists(Job.of(model, model.users.ids, 2), slow, users_at_a_time=5)
    assert threading.current_thread().name not in slow.threads


def test_a_failure_of_the_last_block_is_no_success() -> None:
    model = small_model()
    with pytest.raises(StorageError):
        write_lists(Job.of(model, model.users.ids, 2), Slow(fails=True))


def test_a_failure_ends_ranking() -> None:
    slow, model = Slow(fails=True), small_model()
    job = Job.of(model, model.users.ids, 2)
    with pytest.raises(StorageError):
        write_lists(job, slow, users_at_a_time=5, progress=slow.progress)
    assert slow.ranked <= 3 * 5


def test_a_block_without_users_is_refused() -> None:
    model = small_model()
    with pytest.raises(ConfigError, match="a block must have users"):
        write_lists(Job.of(model, model.users.ids), Slow(), users_at_a_time=0)


@dataclass
class Interrupted(Slow):
    """A sink during whose first block Ctrl-C is pressed three times."""

    is_writing: bool = False
    closed_while_writing: bool = False

    @contextmanager
    def open(self, job: Job, *, resume: bool, notify: Notify) -> Iterator[Interrupted]:
        try:
            yield self
        finally:
            self.closed_while_writing = self.is_writing

    def write(self, block: Block) -> None:
        self.is_writing = True
        main = threading.main_thread().ident
        assert main is not None
        for _ in range(3):
            signal.pthread_kill(main, signal.SIGINT)
            threading.Event().wait(0.05)  # the main thread hears it, and goes back to waiting
        self.is_writing = False


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads here")
def test_ctrl_c_closes_no_sink_while_a_block_is_written_to_it() -> None:
    model, sink = small_model(), Interrupted()
    with pytest.raises(KeyboardInterrupt):
        write_lists(Job.of(model, model.users.ids, 3), sink, users_at_a_time=30)
    assert not sink.is_writing
    assert not sink.closed_while_writing
