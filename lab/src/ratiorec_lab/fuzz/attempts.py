"""Attempts: what is done with the files of a case, for each reader.

An attempt ends well, or with a `RatiorecError`; anything else is a finding.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ratiorec.errors import DataError
from ratiorec_lab.fuzz.cases import MODEL_ARRAYS, MODEL_HEADER

Attempt = Callable[[Path, Mapping[str, bytes]], None]


class WrongResultError(AssertionError):
    """A reader or the server that gave what it must never give."""


def attempts(reader: str) -> Attempt:
    """The attempt of a reader, with all that it imports loaded."""
    if reader == "http":
        return _Server()
    own = {"lightgcn": _lightgcn, "toml": _toml, "model": _model, "fault": _fault}
    return own.get(reader, _file)


def _file(folder: Path, files: Mapping[str, bytes]) -> None:
    from ratiorec.data.formats import Columns, read

    ((name, content),) = files.items()
    ways: tuple[dict[str, Any], ...] = (
        {},
        *[{"on_bad_rows": "skip"}] * 3,
        {"columns": Columns(user=0, item=1), "on_bad_rows": "skip"},
        {"half_life": "30d", "on_bad_rows": "skip"},
        {"columns": Columns(event="event"), "event_weights": {"ann": 1, "x": -1}},
        {"repeats": "max", "on_bad_rows": "skip"},
    )
    way = ways[zlib.crc32(content) % len(ways)]
    data = read(folder / name, **way)
    if data.n_pairs and not (data.indices.min() >= 0 and data.indices.max() < data.n_items):
        raise WrongResultError("an item index is out of range")
    if data.indptr[-1] != data.n_pairs or len(data.indptr) != data.n_users + 1:
        raise WrongResultError("the rows do not fit the pairs")


def _lightgcn(folder: Path, files: Mapping[str, bytes]) -> None:
    from ratiorec.data.formats import read_lightgcn

    read_lightgcn(folder)


def _toml(folder: Path, files: Mapping[str, bytes]) -> None:
    from ratiorec.config import named_settings

    (name,) = files
    named_settings(None, file=folder / name)


def _model(folder: Path, files: Mapping[str, bytes]) -> None:
    from ratiorec.model.artifact import Artifact

    _mend(folder)
    model = Artifact.load(folder)
    model.recommend(model.users.ids[:2].tolist(), k=3)


def _mend(folder: Path) -> None:
    """Checksums that fit and a file of arrays under its name, where the header is still JSON.

    Else the checks of the whole file would refuse every case before anything is parsed.
    """
    from ratiorec.model.store import _checksum

    blob = (folder / MODEL_ARRAYS).read_bytes()
    sha256 = hashlib.sha256(blob).hexdigest()
    file = f"arrays-{sha256[:16]}.safetensors"
    (folder / MODEL_ARRAYS).rename(folder / file)
    try:
        header = json.loads((folder / MODEL_HEADER).read_bytes())
    except (ValueError, RecursionError):
        return
    if isinstance(header, dict) and isinstance(header.get("arrays"), dict):
        header["arrays"] = {"file": file, "size": len(blob), "sha256": sha256}
        header.pop("checksum", None)
        header["checksum"] = _checksum(header)
        (folder / MODEL_HEADER).write_text(json.dumps(header))


def _fault(folder: Path, files: Mapping[str, bytes]) -> None:
    """A reader with the faults that are looked for, to see that they are found."""
    if "raise" in files:
        raise WrongResultError("raised")
    if "exit" in files:
        os._exit(3)
    if "hang" in files:
        time.sleep(3600)
    if "memory" in files:
        bytearray(2**30)


class _Server:
    """A server of a small model; every case is one request to it."""

    def __init__(self) -> None:
        from ratiorec.serve.models import ModelInUse, RequestNames
        from ratiorec.serve.server import create_app
        from ratiorec.serve.service import Limits, Service
        from ratiorec_lab.fuzz.small_models import small_models, with_attributes

        self._folder = tempfile.TemporaryDirectory()
        folder, names = Path(self._folder.name, "model"), RequestNames({"cheap": "price < 4"})
        with_attributes(small_models()[0]).save(folder)
        service = Service.of(ModelInUse(folder, names=names), Limits(), names=names)
        self._app = create_app(service)

    def __call__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        (content,) = files.values()
        address, _, body = content.partition(b"\n")
        method, _, path = address.decode("latin-1").partition(" ")
        status = asyncio.run(self._status(method, path, body))
        if asyncio.run(self._status("GET", "/health/ready", b"")) != 200:
            raise WrongResultError("the server is not ready after this request")
        if status >= 500:
            raise WrongResultError(f"status {status}")
        if status >= 400:
            where = address.decode("latin-1")
            raise DataError(f"status {status}", where=where, found="", wanted="")

    async def _status(self, method: str, path: str, body: bytes) -> int:
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("192.0.2.7", 4711),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return int(sent[0]["status"])
