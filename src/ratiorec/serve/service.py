"""The state that all requests of one server share: limits, log, Prometheus metrics, models."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from ratiorec import __version__
from ratiorec.catalogue.conditions import Contains, leaves
from ratiorec.catalogue.expressions import MOST_CONDITIONS, MOST_CONTAINS, Expression
from ratiorec.errors import RatiorecError, require_range
from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules
from ratiorec.serve.errors import RefusedError, four_parts
from ratiorec.serve.models import ModelInUse, RequestNames, Served
from ratiorec.serve.ranking import RankingQueue
from ratiorec.serve.security import Keys
from ratiorec.serve.variants import Variants

ANSWERED_BY = "ratiorec.models"
"""Where in the scope of a request its models stand, by variant."""
HEAD_BYTES = 2**16  # lists of allowed and denied items may stand in an address


@dataclass(frozen=True)
class Limits:
    """Bounds of one server; whoever asks beyond one of them is refused by its name."""

    max_k: int = 1000
    max_users: int = 256
    max_histories: int = 64
    max_rows: int = 20_000
    max_history: int = 1000
    max_why: int = 200
    max_listed: int = 10_000
    max_rules: int = 50
    max_conditions: int = 50
    max_body_bytes: int = 2**20
    max_waiting: int = 256
    max_long: int = 4
    max_connections: int = 1000
    rank_seconds: float = 5.0
    read_seconds: float = 10.0
    idle_seconds: float = 30.0
    drain_seconds: float = 20.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require_range(name, value, above=0, finite=False, what="a limit must be positive")

    def told(self) -> dict[str, float | None]:
        """The limits for JSON, which has no number for infinity."""
        return {name: None if value == math.inf else value for name, value in vars(self).items()}

    def check_length(self, k: int, n_lists: int = 1) -> None:
        """Refuse lists that are too long, too many, or too much together."""
        _refuse_more(k, self.max_k, where="k", unit="items in a list")
        _refuse_more(n_lists, self.max_users, where="users or histories", unit="in one request")
        _refuse_more(
            k * n_lists, self.max_rows, where="k times users or histories", unit="rows in an answer"
        )

    def check_query(self, query: Query, n_lists: int = 1) -> None:
        """Refuse a query of so many lists that is beyond a limit."""
        self.check_length(query.k, n_lists)
        for name in ("allow", "deny"):
            self.check_listed(getattr(query, name), name)
        if isinstance(query.filter, Expression):
            self._check_conditions([query.filter], where="filter")

    def check_rules(self, rules: Rules) -> None:
        """Refuse rules that a request brings along and that are too many, or ask too much."""
        _refuse_more(rules.n_rules, self.max_rules, where="rules", unit="rules in a request")
        self._check_conditions(rules.conditions, where="rules.boosts")

    def check_together(self, query: Query, named: Mapping[str, Expression]) -> None:
        """Refuse a filter and boosts that are too much together, what has a name written out."""
        asked = [query.filter] if isinstance(query.filter, Expression) else []
        asked += [] if query.rules is None else query.rules.conditions
        found = [leaf for one in asked for leaf in leaves(one.with_named(named).root)]
        where = "filter and rules.boosts"
        _refuse_more(len(found), MOST_CONDITIONS, where=where, unit="conditions in all")
        n_contains = sum(isinstance(leaf, Contains) for leaf in found)
        _refuse_more(n_contains, MOST_CONTAINS, where=where, unit="conditions with contains")

    def _check_conditions(self, expressions: Sequence[Expression], *, where: str) -> None:
        n = sum(expression.n_conditions for expression in expressions)
        _refuse_more(n, self.max_conditions, where=where, unit="conditions")

    def check_histories(self, histories: Sequence[Sized], *, where: str = "histories") -> None:
        """Refuse too many histories, or profiles, and one that is too long."""
        _refuse_more(len(histories), self.max_histories, where=where, unit="in one request")
        for place, history in enumerate(histories):
            unit = "items in a history" if where == "histories" else "attributes in a profile"
            _refuse_more(len(history), self.max_history, where=f"{where}[{place}]", unit=unit)

    def check_why(self, history: Sized) -> None:
        """Refuse a history that is too long to be explained."""
        _refuse_more(len(history), self.max_why, where="history", unit="items to be explained")

    def check_listed(self, items: Sized | None, name: str) -> None:
        """Refuse a list of allowed or denied items that is too long."""
        if items is not None:
            _refuse_more(len(items), self.max_listed, where=name, unit="items")


def _refuse_more(value: int, most: int, *, where: str, unit: str) -> None:
    if value > most:
        raise RefusedError(
            "the request asks for more than this server gives",
            status=422,
            where=where,
            found=f"{value:,}",
            wanted=f"at most {most:,} {unit}",
        )


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


_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # options of glibc's malloc, as in malloc.h
_LARGE_BYTES = 2**20
_LONGEST_WAIT = 30.0


def keep_little_memory() -> None:
    """Let glibc keep little of what is freed: else a server grows with each model it replaces."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another system's C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)  # larger arrays go back as soon as they are freed
        mallopt(_M_ARENA_MAX, 1)  # or each thread would keep some


def _return_memory() -> None:
    """Give what is free back to the system."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "HEAD", "POST"})


class Metrics:
    """The figures of one server, in a registry of its own; a model alone is the variant ""."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        answered, reloads = "Requests answered.", "Models taken, found unchanged or refused."
        of_requests = ("route", "method", "status", "variant")
        self._requests = counter("ratiorec_requests", answered, of_requests)
        self._reloads = counter("ratiorec_model_reloads", reloads, ("outcome", "variant"))
        self._seconds = histogram(
            "ratiorec_request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ("route", "variant"),
            buckets=_SECONDS,
        )
        self._users_at_once = histogram(
            "ratiorec_users_ranked_at_once",
            "Users ranked in one product.",
            buckets=(0, 1, 2, 4, 8, 16, 32),
        )
        self._model = gauge(
            "ratiorec_model_info",
            "1 for each model in use.",
            ("variant", "version", "kind", "ratiorec"),
        )
        self._loaded_at = gauge(
            "ratiorec_model_loaded_timestamp_seconds",
            "When the model in use was loaded.",
            ("variant",),
        )
        self._in_use: dict[str, tuple[str, ...]] = {}
        self._waiting = gauge("ratiorec_waiting_requests", "Requests in the queue.")
        ProcessCollector(registry=self._registry)

    def count(
        self, *, route: str, method: str, status: int, seconds: float, variant: str = ""
    ) -> None:
        """One request that was answered; labels are few, whatever clients send."""
        known = method if method in _METHODS else "other"
        self._requests.labels(route, known, str(status), variant).inc()
        self._seconds.labels(route, variant).observe(seconds)

    def ranked(self, n_users: int) -> None:
        """One product for so many users."""
        self._users_at_once.observe(n_users)

    def reloaded(self, outcome: str, variant: str) -> None:
        """A model was `swapped`, `unchanged` or `refused`."""
        self._reloads.labels(outcome, variant).inc()

    def model_is(self, model: Served) -> None:
        """From now on this model answers for its variant."""
        labels = (model.variant, model.version, model.artifact.scorer.kind, __version__)
        if (before := self._in_use.get(model.variant)) is not None:
            self._model.remove(*before)
        self._in_use[model.variant] = labels
        self._model.labels(*labels).set(1)
        self._loaded_at.labels(model.variant).set(model.loaded_at)

    def watch_queue(self, n_waiting: Callable[[], float]) -> None:
        """Where to ask how many requests wait."""
        self._waiting.set_function(n_waiting)

    def exposed(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)


@dataclass(frozen=True, eq=False)
class Service:
    """The models in use, the queue of requests, the limits and the figures.

    With `user_search` users are found by a part of their id, and so can all be listed.
    `draining` is set when the server is told to end and is ready no longer, `closing` once it
    has stopped to listen and sends away the clients that are still connected.
    """

    models: Variants
    limits: Limits
    queue: RankingQueue
    metrics: Metrics
    names: RequestNames = field(default_factory=RequestNames)
    keys: Keys | None = None
    admin: Keys | None = None
    user_search: bool = False
    draining: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls,
        models: ModelInUse | Variants,
        limits: Limits,
        *,
        names: RequestNames | None = None,
        keys: Keys | None = None,
        admin: Keys | None = None,
        user_search: bool = False,
    ) -> Service:
        """A service with a queue and figures of its own; the models were read with the names."""
        metrics = Metrics()
        queue = RankingQueue(
            max_waiting=limits.max_waiting, max_long=limits.max_long, observe=metrics.ranked
        )
        variants = Variants.of(models)
        for one in variants:
            metrics.model_is(one.current)
        metrics.watch_queue(lambda: queue.n_waiting)
        names = names or RequestNames()
        return cls(variants, limits, queue, metrics, names, keys, admin, user_search)

    async def reload(self, model: ModelInUse) -> bool:
        """Take the model that the folder holds now; False where it is the one in use."""
        try:
            is_new = await asyncio.to_thread(model.reload)
        except RatiorecError as error:
            self.metrics.reloaded("refused", model.variant)
            parts: dict[str, Any] = {"variant": model.variant, "kept": model.current.version}
            log_event("model refused", level=logging.ERROR, **parts, **four_parts(error))
            raise
        self.metrics.reloaded("swapped" if is_new else "unchanged", model.variant)
        if is_new:
            self.metrics.model_is(model.current)
            self._return_memory_later()
            log_event("model swapped", **model.current.name)
        return is_new

    async def reload_all(self, models: Sequence[ModelInUse]) -> list[bool]:
        """Reload each of these; one that is refused keeps no other from it, and is told last."""
        outcomes = []
        refusal: RatiorecError | None = None
        for model in models:
            try:
                outcomes.append(await self.reload(model))
            except RatiorecError as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        return outcomes

    def _return_memory_later(self) -> None:
        """Once no request can have the old model any more, as each has its deadline."""
        loop, wait = asyncio.get_running_loop(), min(self.limits.rank_seconds, _LONGEST_WAIT) + 1
        loop.call_later(wait, loop.run_in_executor, None, _return_memory)

    async def watch(self, model: ModelInUse, seconds: float) -> None:
        """Look at a folder again and again, and take its model whenever it is another."""
        while True:
            await asyncio.sleep(seconds)
            try:
                if await asyncio.to_thread(model.has_changed):
                    await self.reload(model)
            except RatiorecError:
                continue  # it is in the log and in the figures
            except Exception:  # whatever it is, the model in use goes on
                EVENTS.exception("model refused")
