"""Asks an application without a network: one request, one answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> dict[str, str]:
        """The four parts, and nothing else."""
        parts = self.json
        assert list(parts) == ["what", "where", "found", "wanted"]
        assert all(isinstance(part, str) and part for part in parts.values())
        return parts


async def answer_to(
    app: Any,
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    chunks: Sequence[bytes] = (),
    chunk_seconds: float = 0,
) -> Answer:
    """Send a request whose body comes in chunks."""
    given = {name.lower(): value for name, value in (headers or {}).items()}
    if chunks and "content-length" not in given:
        given |= {"transfer-encoding": "chunked"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": urlencode(query or {}, doseq=True).encode(),
        "root_path": "",
        "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in given.items()],
        "client": ("192.0.2.7", 4711),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    waiting = list(chunks) or [b""]
    sent: list[Any] = []

    async def receive() -> Any:
        if not waiting:
            return {"type": "http.disconnect"}
        await asyncio.sleep(chunk_seconds)
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    answered = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in start["headers"]}
    return Answer(start["status"], answered, b"".join(part.get("body", b"") for part in rest))


@dataclass(frozen=True)
class Client:
    """Asks one application."""

    app: Any

    def get(self, path: str, headers: Mapping[str, str] | None = None, **query: Any) -> Answer:
        return asyncio.run(answer_to(self.app, "GET", path, query=query, headers=headers))

    def post(
        self, path: str, content: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        given = {"content-type": "application/json", "content-length": str(len(body))}
        given |= dict(headers or {})
        path, _, text = path.partition("?")
        query = dict(parse_qsl(text))
        return asyncio.run(
            answer_to(self.app, "POST", path, query=query, headers=given, chunks=[body])
        )
