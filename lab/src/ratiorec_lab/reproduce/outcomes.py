"""What became of the cells that were asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ratiorec.errors import RatiorecError
from ratiorec_lab.reproduce.cells import Cell


@dataclass(frozen=True)
class Failure:
    """A cell, or a whole data set, that could not be run."""

    where: str
    reason: str
    is_bug: bool = False


@dataclass
class Outcome:
    """Cells that were run, cells that were finished before, and what failed."""

    run: list[Cell] = field(default_factory=list)
    kept: list[Cell] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)


def failure_of(where: str, error: Exception) -> Failure:
    """An error as the reason for a failure."""
    return Failure(where, _in_one_line(error), is_bug=not _is_foreseen(error))


def _is_foreseen(error: Exception) -> bool:
    """Whether data, settings or the machine are the reason, and no mistake in the program."""
    if isinstance(error, RatiorecError | MemoryError):
        return True
    # torch tells by a RuntimeError that memory has run out
    return isinstance(error, RuntimeError) and "memory" in str(error).lower()


def _in_one_line(error: Exception) -> str:
    text = str(error) if isinstance(error, RatiorecError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split()).removesuffix(":")
