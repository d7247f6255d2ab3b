"""Processes started by torchrun: on this host, or on two that are network namespaces of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from ratiorec.machine import usable_cores

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
_LINK, _PORT = "eth0", "29500"


def threads_of_each(n_ranks: int) -> int:
    """The cores of this machine, shared out."""
    return max(1, usable_cores() // n_ranks)


def run_alone(*module: str) -> None:
    """A module in a process of its own, which has all cores."""
    start([sys.executable, "-m", *module], threads_of_each(1)).finish()


def run_ranks(n_ranks: int, *module: str) -> None:
    """The same module in so many processes on this host."""
    here = (*TORCHRUN, "--standalone", f"--nproc-per-node={n_ranks}", "-m", *module)
    start(here, threads_of_each(n_ranks)).finish()


def run_on_two_hosts(*module: str) -> None:
    """The same module in one process on each of two hosts, which share nothing but a link.

    Raises:
        OSError: This system has no network namespaces, or not for this user.
    """
    with _two_hosts() as hosts, ExitStack() as stack:
        all_started = []
        for rank, host in enumerate(hosts):
            words = (
                *("ip", "netns", "exec", host, *TORCHRUN, "--nnodes=2", f"--node-rank={rank}"),
                *("--nproc-per-node=1", "--rdzv-backend=static", f"--master-addr={_ADDRESSES[0]}"),
                *(f"--master-port={_PORT}", "-m", *module),
            )
            started = start(words, threads_of_each(2), GLOO_SOCKET_IFNAME=_LINK)
            stack.callback(started.process.kill)
            all_started.append(started)
        for started in all_started:
            started.finish()


@contextmanager
def _two_hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a link between them, gone at the end with all that is in them."""
    if shutil.which("ip") is None:
        raise OSError("there is no command `ip`")
    hosts = tuple(f"ratiorec-{os.getpid()}-{place}" for place in range(2))
    with ExitStack() as stack:
        for host in hosts:
            _ip("netns", "add", host)
            stack.callback(_ip, "netns", "delete", host)
        ends = [word for host in hosts for word in ("netns", host)]
        _ip("link", "add", _LINK, *ends[:2], "type", "veth", "peer", "name", _LINK, *ends[2:])
        for host, address in zip(hosts, _ADDRESSES, strict=True):
            _ip("-netns", host, "address", "add", f"{address}/30", "dev", _LINK)
            for link in ("lo", _LINK):
                _ip("-netns", host, "link", "set", link, "up")
        yield hosts[0], hosts[1]


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@dataclass(frozen=True)
class Started:
    """A process, and the file of its output: a pipe that nobody reads would stop it."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def finish(self) -> None:
        """Wait for its good end.

        Raises:
            RuntimeError: It was none; the end of what the process said is told.
        """
        code = self.process.wait()
        with self.output:
            self.output.seek(0)
            told = self.output.read().decode(errors="replace")
        if code:
            raise RuntimeError(f"{self.process.args!r} ended with {code}: {told[-3000:]}")


def start(command: Sequence[str], n_threads: int, **variables: str) -> Started:
    """A command with so many threads in each process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": str(n_threads)} | variables
    output = tempfile.TemporaryFile()  # noqa: SIM115 `finish` closes it
    process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    return Started(process, output)
