"""How much a client may ask for, and how long anything may take."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, fields

from ratiorec.errors import ConfigError
from ratiorec.serve.errors import RefusedError


@dataclass(frozen=True)
class Limits:
    """Bounds of one server; whoever asks beyond one of them is refused by its name."""

    max_k: int = 1000
    max_users: int = 256
    max_rows: int = 20_000
    max_history: int = 1000
    max_listed: int = 10_000
    max_body_bytes: int = 2**20
    max_waiting: int = 256
    max_connections: int = 1000
    rank_seconds: float = 5.0
    read_seconds: float = 10.0
    idle_seconds: float = 30.0
    drain_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ConfigError(
                    "a limit must be positive",
                    where=field.name,
                    found=str(value),
                    wanted="more than 0",
                )

    def check_length(self, k: int, n_lists: int = 1) -> None:
        """Refuse lists that are too long, too many, or too much together."""
        _refuse_more(k, self.max_k, where="k", unit="items in a list")
        _refuse_more(n_lists, self.max_users, where="users or histories", unit="in one request")
        _refuse_more(
            k * n_lists, self.max_rows, where="k times users or histories", unit="rows in an answer"
        )

    def check_history(self, history: Sized, place: int) -> None:
        """Refuse a history that is too long."""
        where = f"histories[{place}]"
        _refuse_more(len(history), self.max_history, where=where, unit="items in a history")

    def check_explained(self, history: Sized) -> None:
        """Refuse a history that is too long to be ranked once without each of its items."""
        _refuse_more(len(history), self.max_history, where="history", unit="items in a history")

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
