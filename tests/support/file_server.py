"""A web server on this machine that serves files well or badly, for tests of downloads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """What to serve, how to misbehave, and what was asked."""

    files: dict[str, bytes]
    url: str = ""
    tells_length: bool = True
    hang_up_after: list[int] = field(default_factory=list)  # bytes, one entry a request
    statuses: list[int] = field(default_factory=list)  # one entry a request, then 200
    redirects: dict[str, str] = field(default_factory=dict)
    stall_seconds: float = 0.0
    requests: list[str] = field(default_factory=list)
    n_bytes_sent: int = 0


@contextlib.contextmanager
def serving(files: dict[str, bytes]) -> Iterator[FileServer]:
    """Serve `files`, by path with a leading slash, while the block runs."""
    state = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(ConnectionError):  # a client may stop listening
                _answer(self, state)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # so that server_close waits for every answer
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(request: BaseHTTPRequestHandler, state: FileServer) -> None:
    state.requests.append(request.path)
    time.sleep(state.stall_seconds)
    if request.path in state.redirects:
        request.send_response(302)
        request.send_header("Location", state.redirects[request.path])
        request.end_headers()
        return
    if state.statuses or request.path not in state.files:
        request.send_error(state.statuses.pop(0) if state.statuses else 404)
        return
    content = state.files[request.path]
    request.send_response(200)
    if state.tells_length:
        request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    end = state.hang_up_after.pop(0) if state.hang_up_after else len(content)
    for place in range(0, end, 4096):
        piece = content[place : min(place + 4096, end)]
        request.wfile.write(piece)
        state.n_bytes_sent += len(piece)
