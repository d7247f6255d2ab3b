"""What all requests of one server share."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field

from ratiorec.errors import RatiorecError
from ratiorec.serve.access_log import EVENTS, log_event
from ratiorec.serve.errors import four_parts
from ratiorec.serve.limits import Limits
from ratiorec.serve.metrics import Metrics
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.ranking import Ranker
from ratiorec.serve.security import Keys


@dataclass(frozen=True, eq=False)
class Service:
    """The model in use, the line of requests, the limits and the figures.

    With `user_search` users are found by a part of their id, and so can all be listed.
    `draining` is set when the server is told to end and is ready no longer, `closing` once it
    has stopped to listen and sends away the clients that are still connected.
    """

    models: ModelInUse
    limits: Limits
    ranker: Ranker
    metrics: Metrics
    keys: Keys | None = None
    admin: Keys | None = None
    user_search: bool = False
    draining: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(
        cls,
        models: ModelInUse,
        limits: Limits,
        *,
        keys: Keys | None = None,
        admin: Keys | None = None,
        user_search: bool = False,
    ) -> Service:
        """A service with a line and figures of its own."""
        metrics = Metrics()
        ranker = Ranker(
            max_waiting=limits.max_waiting, seconds=limits.rank_seconds, observe=metrics.ranked
        )
        metrics.model_is(models.current)
        metrics.watch_line(lambda: ranker.n_waiting)
        return cls(models, limits, ranker, metrics, keys, admin, user_search)

    async def reload(self) -> bool:
        """Take the model that the folder holds now; False where it is the one in use.

        Raises:
            RatiorecError: It cannot be used; the one in use stays.
        """
        try:
            is_new = await asyncio.to_thread(self.models.reload)
        except RatiorecError as error:
            self.metrics.reloaded("refused")
            kept = self.models.current.version
            log_event("model refused", level=logging.ERROR, kept=kept, **four_parts(error))
            raise
        self.metrics.reloaded("swapped" if is_new else "unchanged")
        if is_new:
            self.metrics.model_is(self.models.current)
            log_event("model swapped", model=self.models.current.version)
        return is_new

    async def watch(self, seconds: float) -> None:
        """Look at the folder again and again, and take the model whenever it is another."""
        while True:
            await asyncio.sleep(seconds)
            try:
                if await asyncio.to_thread(self.models.has_changed):
                    await self.reload()
            except RatiorecError:
                continue  # it is in the log and in the figures
            except Exception:  # whatever it is, the model in use goes on
                EVENTS.exception("model refused")
