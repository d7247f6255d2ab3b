"""What Prometheus may know: how many requests, how long they took, and with which model."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from ratiorec import __version__
from ratiorec.serve.models import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "HEAD", "POST"})


class Metrics:
    """The figures of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ratiorec_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "ratiorec_request_seconds",
            "Seconds from the head of a request to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._users_at_once = Histogram(
            "ratiorec_users_ranked_at_once",
            "Users ranked in one product.",
            buckets=(0, 1, 2, 4, 8, 16, 32),
            registry=self._registry,
        )
        self._reloads = Counter(
            "ratiorec_model_reloads",
            "Times that a model was taken, found unchanged or refused.",
            ("outcome",),
            registry=self._registry,
        )
        self._model = Gauge(
            "ratiorec_model_info",
            "1 for the model in use.",
            ("version", "kind", "ratiorec"),
            registry=self._registry,
        )
        self._loaded_at = Gauge(
            "ratiorec_model_loaded_timestamp_seconds",
            "When the model in use was loaded.",
            registry=self._registry,
        )
        self._waiting = Gauge(
            "ratiorec_waiting_requests", "Requests in the line.", registry=self._registry
        )
        ProcessCollector(registry=self._registry)

    def count(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """One request that was answered; labels are few, whatever clients send."""
        known = method if method in _METHODS else "other"
        self._requests.labels(route, known, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def ranked(self, n_users: int) -> None:
        """One product for so many users."""
        self._users_at_once.observe(n_users)

    def reloaded(self, outcome: str) -> None:
        """A model was `swapped`, `unchanged` or `refused`."""
        self._reloads.labels(outcome).inc()

    def model_is(self, model: Served) -> None:
        """From now on this model answers."""
        self._model.clear()
        self._model.labels(model.version, model.artifact.scorer.kind, __version__).set(1)
        self._loaded_at.set(model.loaded_at)

    def watch_line(self, n_waiting: Callable[[], float]) -> None:
        """Where to ask how many requests wait."""
        self._waiting.set_function(n_waiting)

    def exposed(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)
