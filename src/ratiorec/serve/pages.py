"""Pages for people: plain files of this package, read once, without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

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
