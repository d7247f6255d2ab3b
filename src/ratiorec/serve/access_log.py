"""One line of JSON for each request and each event; who asked for what is in none by default."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

ACCESS = logging.getLogger("ratiorec.serve.access")
EVENTS = logging.getLogger("ratiorec.serve.events")


class JsonLines(logging.Formatter):
    """A record as one JSON object; line ends inside of it are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "parts", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def start_logging(level: str, stream: TextIO | None = None) -> None:
    """Write lines to a stream, by default standard error, from this level on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, lowest in (("ratiorec.serve", level.upper()), ("uvicorn.error", "ERROR")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(lowest)


def log_request(status: int, parts: dict[str, Any], content: dict[str, Any]) -> None:
    """One request; its content only where the level is `debug`."""
    level = logging.INFO if status < 400 else logging.WARNING if status < 500 else logging.ERROR
    if ACCESS.isEnabledFor(level):
        if ACCESS.isEnabledFor(logging.DEBUG):
            parts = parts | content
        ACCESS.log(level, "request", extra={"parts": parts})


def log_event(event: str, /, *, level: int = logging.INFO, **parts: Any) -> None:
    """Something that happened to the server."""
    EVENTS.log(level, event, extra={"parts": parts})
