"""The real server on loopback, as a process or a thread, and clients that use its socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ratiorec.serve import server
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.service import JsonLines, Limits, Service

PATIENCE = 30  # seconds; a machine that is busy is no fault


@dataclass
class Server:
    """An address, and ways to ask there."""

    host: str
    port: int
    version: str
    log: Path

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, {n.lower(): v for n, v in answer.getheaders()}, content
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        status, _, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def raw(self, *pieces: bytes, pause: float = 0.0) -> bytes:
        """Send bytes as they are, and read until the server closes."""
        with socket.create_connection((self.host, self.port), timeout=PATIENCE) as connection:
            for place, piece in enumerate(pieces):
                if place:
                    time.sleep(pause)
                with contextlib.suppress(OSError):  # the server may have heard enough
                    connection.sendall(piece)
            received = b""
            with contextlib.suppress(OSError):
                while chunk := connection.recv(65536):
                    received += chunk
            return received

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]


@dataclass
class ServerProcess(Server):
    process: subprocess.Popen[str]

    def stop(self, sig: int = signal.SIGTERM) -> int:
        self.process.send_signal(sig)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def running(model: Path | str, log: Path, *options: str) -> Iterator[ServerProcess]:
    """A server at a free port of loopback; it is gone afterwards, whatever happened."""
    command = [sys.executable, "-m", "ratiorec.cli", "serve", str(model), "--port", "0", "--json"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        said = json.loads(line)
        host, port = said["address"].removeprefix("http://").rsplit(":", 1)
        yield ServerProcess(host, int(port), said["model"], log, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


@contextlib.contextmanager
def running_here(model: Path, log: Path, limits: Limits) -> Iterator[Server]:
    """A server at a free port of loopback, in a thread of this process."""
    service, listener = Service.of(ModelInUse(model), limits), server.bind("127.0.0.1", 0)
    started = threading.Event()
    options = {"watch_seconds": None, "announce": started.set}
    servers = []

    class Kept(server._DrainingServer):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            servers.append(self)

    interval = sys.getswitchinterval()
    with pytest.MonkeyPatch.context() as patch, logged(log), listener:
        patch.setattr(server, "_DrainingServer", Kept)
        thread = threading.Thread(target=server.run, args=(service, listener), kwargs=options)
        thread.start()
        assert started.wait(PATIENCE)
        host, port = listener.getsockname()
        yield Server(host, port, service.models.first.current.version, log)
        assert thread.is_alive()  # nothing of all that was asked has ended it
        servers[0].handle_exit(signal.SIGTERM, None)
        thread.join(PATIENCE)
        assert not thread.is_alive()
    sys.setswitchinterval(interval)


@contextlib.contextmanager
def logged(log: Path) -> Iterator[None]:
    """Inside, the lines of a server go to this file too."""
    loggers = [logging.getLogger(name) for name in ("ratiorec.serve", "uvicorn.error")]
    levels = [logger.level for logger in loggers]
    with log.open("w") as file:
        handler = logging.StreamHandler(file)
        handler.setFormatter(JsonLines())
        for logger, level in zip(loggers, ("INFO", "ERROR"), strict=True):
            logger.addHandler(handler)
            logger.setLevel(level)
        yield
        for logger, before in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(before)


@dataclass
class Load:
    """Clients that ask one request after the other, and count what became of them."""

    server: Server
    path: str
    n_clients: int = 4
    versions: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    n_answered: int = 0
    refused_to_connect: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _finished: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def going(self) -> Iterator[Load]:
        threads = [threading.Thread(target=self._ask_on) for _ in range(self.n_clients)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._finished.set()
            for thread in threads:
                thread.join(PATIENCE)

    def wait_for(self, n_more: int) -> None:
        """Wait until so many more requests have been answered, or one has failed."""
        goal, end = self.n_answered + n_more, time.monotonic() + PATIENCE
        while self.n_answered < goal and not self.failures and time.monotonic() < end:
            time.sleep(0.002)

    def _ask_on(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._finished.is_set():
            if connection is None:
                connection = http.client.HTTPConnection(
                    self.server.host, self.server.port, timeout=PATIENCE
                )
                try:
                    connection.connect()
                except OSError:
                    with self._lock:
                        self.refused_to_connect += 1
                    return
            connection = self._ask_once(connection)
        if connection is not None:
            connection.close()

    def _ask_once(
        self, connection: http.client.HTTPConnection
    ) -> http.client.HTTPConnection | None:
        try:
            connection.request("GET", self.path)
            answer = connection.getresponse()
            body = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            with self._lock:
                self.failures.append(repr(error))
            connection.close()
            return None
        with self._lock:
            self.n_answered += 1
            if answer.status != 200:
                self.failures.append(f"{answer.status} {body}")
            else:
                self.versions.add(body["model"])
        if answer.getheader("connection") == "close":
            connection.close()
            return None
        return connection
