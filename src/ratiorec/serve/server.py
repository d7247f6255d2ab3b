"""The server as a process: application, pages, socket, and an end that loses no request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from importlib import resources
from types import FrameType
from typing import Any, NamedTuple

import uvicorn
from fastapi import APIRouter, FastAPI, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from ratiorec import __version__
from ratiorec.errors import ConfigError
from ratiorec.serve.errors import answer_errors
from ratiorec.serve.middleware import BoundedBodies, Observed, WholePaths
from ratiorec.serve.routes import operations, router
from ratiorec.serve.security import RequireKey
from ratiorec.serve.service import HEAD_BYTES, Limits, Service, keep_little_memory, log_event

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class Page(NamedTuple):
    """A file and what it is."""

    content: bytes
    media_type: str

    def answer(self) -> Response:
        return Response(self.content, media_type=self.media_type)


def read_pages() -> dict[str, Page]:
    """Every file of the folder `static` by its name; a request can name no other."""
    folder = resources.files("ratiorec.serve").joinpath("static")
    return {
        file.name: Page(file.read_bytes(), _TYPES[suffix])
        for file in folder.iterdir()
        for suffix in [file.name[file.name.rfind(".") :]]
        if suffix in _TYPES
    }


def page_router(pages: Mapping[str, Page]) -> APIRouter:
    """The front page, a page about the API, and the files that they need."""
    router = APIRouter(include_in_schema=False)

    @router.head("/")
    @router.get("/")
    async def front() -> Response:
        return pages["index.html"].answer()

    @router.get("/docs")
    async def docs() -> Response:
        return pages["docs.html"].answer()

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in pages:
            raise HTTPException(404, "no such file")
        return pages[name].answer()

    return router


_ABOUT = """Recommendations from one model, or from several variants that share the users.

Every refusal is JSON in four parts: what is wrong, where, what was found there, and what would
have been right. Every answer says which version of the model it comes from."""


def create_app(service: Service, *, watch_seconds: float | None = None) -> FastAPI:
    """The application of one service; with `watch_seconds` it looks for new models that often."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watched = () if watch_seconds is None else service.models
        tasks = [asyncio.create_task(service.watch(one, watch_seconds or 0)) for one in watched]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            service.queue.close()

    app = FastAPI(
        title="ratiorec",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        # paths hold users' ids, and no variable of the environment may send them elsewhere
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        lifespan=lifespan,
    )
    app.state.service = service
    app.include_router(router)
    app.include_router(operations)
    app.include_router(page_router(read_pages()))
    answer_errors(app)
    # the last one added is the outermost
    app.add_middleware(WholePaths)
    app.add_middleware(BoundedBodies, limits=service.limits)
    app.add_middleware(RequireKey, keys=service.keys)
    known = [one for one in (*router.routes, *operations.routes) if isinstance(one, APIRoute)]
    app.add_middleware(Observed, service=service, routes=known)
    return app


_YEAR = 31_536_000
_SWITCH_SECONDS = 2e-4  # ranking and answering take turns; Python's 5 ms would be all the latency


class _DrainingServer(uvicorn.Server):
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
        """Stop accepting before closing keep-alive connections: their clients would come back."""
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


def connections(limits: Limits) -> Any:
    """The class of connections with limits; uvicorn's own where that one is not as we know it."""
    try:
        from ratiorec.serve.connection import BoundedConnection
    except ImportError as error:
        log_event(
            "slow and too many connections are not refused",
            level=logging.WARNING,
            found=f"uvicorn {uvicorn.__version__}: {error}",
            wanted="a version of uvicorn that ratiorec knows, or a proxy with limits of its own",
        )
        return "h11"
    return partial(BoundedConnection, limits=limits)


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0 is any that is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # there it would let two servers share a port
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


def _whole(seconds: float) -> int:
    """Seconds as uvicorn has them: whole, and a year where they have no end."""
    return math.ceil(min(seconds, _YEAR))


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
        http=connections(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=_whole(limits.idle_seconds),
        timeout_graceful_shutdown=_whole(limits.drain_seconds),
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    keep_little_memory()
    log_event("started", address=address_of(listener), **service.models.versions())
    _DrainingServer(config, service, announce).run(sockets=[listener])
    log_event("ended")
