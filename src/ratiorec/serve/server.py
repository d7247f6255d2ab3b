"""The server as a process: a socket, a loop, and an end that loses no request."""

from __future__ import annotations

import math
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn

from ratiorec.errors import ConfigError
from ratiorec.serve.access_log import log_event
from ratiorec.serve.app import create_app
from ratiorec.serve.connection import BoundedConnection
from ratiorec.serve.service import Service

_SWITCH_SECONDS = 2e-4  # ranking and answering take turns; Python's 5 ms would be all the latency
_HEAD_BYTES = 2**16  # lists of allowed and denied items may stand in an address


class _Server(uvicorn.Server):
    """Ends by itself on a signal, with nothing left to do for the signal but that."""

    def __init__(
        self, config: uvicorn.Config, service: Service, announce: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen first: a client that is sent away must not knock at a closing door."""
        for server in self.servers:
            server.close()
        self._service.closing.set()
        await super().shutdown(sockets=sockets)
        if self.force_exit:  # what is left out then is no more than a moment
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; whoever presses Ctrl-C twice does not want to wait."""
        self._service.draining.set()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any that is free.

    Raises:
        ConfigError: The address is taken, not allowed, or not one of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigError(
            "cannot listen at this address",
            where=f"--host {host} --port {port}",
            found=getattr(error, "strerror", None) or str(error),
            wanted="an address of this machine and a free port, or port 0",
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """The address as others write it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    service: Service,
    listener: socket.socket,
    *,
    watch_seconds: float | None,
    announce: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what runs."""
    limits = service.limits
    config = uvicorn.Config(
        create_app(service, watch_seconds=watch_seconds),
        http=cast(Any, partial(BoundedConnection, limits=limits)),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=math.ceil(limits.drain_seconds),
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    log_event("started", address=address_of(listener), model=service.models.current.version)
    _Server(config, service, announce).run(sockets=[listener])
    log_event("ended")
