"""The application: routes inside, and around them what holds for every request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from ratiorec.serve.bodies import BoundedBodies
from ratiorec.serve.observed import Observed
from ratiorec.serve.pages import page_router, read_pages
from ratiorec.serve.refusals import answer_errors
from ratiorec.serve.routes import router
from ratiorec.serve.security import RequireKey
from ratiorec.serve.service import Service
from ratiorec.version import __version__

_ABOUT = """Recommendations from one model.

Every refusal is JSON in four parts: what is wrong, where, what was found there, and what would
have been right. Every answer says which version of the model it comes from."""


def create_app(service: Service, *, watch_seconds: float | None = None) -> FastAPI:
    """The application of one service; with `watch_seconds` it looks for new models that often."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        tasks = []
        if watch_seconds is not None:
            tasks.append(asyncio.create_task(service.watch(watch_seconds)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            service.ranker.close()

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
    app.include_router(page_router(read_pages()))
    answer_errors(app)
    # the last one added is the outermost
    app.add_middleware(BoundedBodies, limits=service.limits)
    app.add_middleware(RequireKey, keys=service.keys)
    app.add_middleware(Observed, service=service)
    return app
