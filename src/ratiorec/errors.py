"""Every error this package raises on purpose.

RatiorecError
├── DataError (ValueError)              the pairs, or the file they came from
│   ├── NoPairsError                    data without any pair
│   └── DataNotFoundError (FileNotFoundError)
├── ConfigError (ValueError)            a setting, an option, a preset
│   └── UnknownChoiceError              a name that is none of the names there are
├── UnknownIdError (KeyError)           a user or item the model has never seen
├── ModelError (ValueError)             a model folder that is cut short, altered or foreign
├── CheckpointError (ValueError)        a checkpoint that belongs to another run
├── DeviceError (RuntimeError)          a device that is not there
├── MemoryBudgetError (MemoryError)     a model or data that need more memory than there is
├── DivergenceError (ArithmeticError)   training went non-finite
├── StoppedError (InterruptedError)     training was stopped and saved on request
├── LostRankError (ConnectionError)     another process of a training is gone
├── StorageError (OSError)              a file could not be written
├── DownloadError (OSError)             a file could not be fetched, or is not the one expected
├── EngineError (RuntimeError)          a part of the work that failed on every worker it was given
└── MissingExtraError (ImportError)     an optional dependency is not installed

Each is also the built-in a caller would expect, and each message has four parts:
what went wrong, where, what was found there, what would have been right.
"""

from __future__ import annotations

import difflib
import importlib
import math
import numbers
import re
import signal
from collections.abc import Callable, Iterable
from typing import Any


class RatiorecError(Exception):
    """A mistake with a message in four parts.

    The parts name options as flags, `--max-seconds`; whoever reads the message in Python sees
    `max_seconds`. What all processes of a training have met is told by the first of them alone.
    """

    is_told_here = True

    def __init__(self, what: str, *, where: str, found: str, wanted: str) -> None:
        self.what = what
        self.where = where
        self.found = found
        self.wanted = wanted
        super().__init__(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """The way from one process to another: exceptions know of positional arguments alone."""
        return _again, (type(self), self.what, self.where, self.found, self.wanted)

    @property
    def message(self) -> str:
        """The four parts as they are."""
        return self._told(str)

    def __str__(self) -> str:
        return self._told(_without_flags)

    def _told(self, spelt: Callable[[str], str]) -> str:
        where, wanted = spelt(self.where), spelt(self.wanted)
        return f"{self.what} (where: {where}; found: {self.found}; wanted: {wanted})"


def _again(kind: type[RatiorecError], *parts: str) -> RatiorecError:
    what, where, found, wanted = parts
    return kind(what, where=where, found=found, wanted=wanted)


def _without_flags(text: str) -> str:
    """Flags as arguments of Python, but for those of a whole command.

    >>> _without_flags("a larger --validation, or --validation-by random")
    'a larger validation, or validation_by="random"'
    >>> _without_flags("ratiorec recommend MODEL --all")
    'ratiorec recommend MODEL --all'
    """
    if _COMMAND.search(text):
        return text
    text = _CHOICE.sub(lambda found: f'{found[1].replace("-", "_")}="{found[2]}"', text)
    return _FLAG.sub(lambda found: found[1].replace("-", "_"), text)


_FLAG = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")
_CHOICE = re.compile(r"(?<![\w-])--(preset|validation-by|to|track) ([a-z][\w-]*)")
_COMMAND = re.compile(r"\b(?:ratiorec|pip|git) [a-z]")


class DataError(RatiorecError, ValueError):
    """The pairs, or the file they came from, cannot be used."""


class NoPairsError(DataError):
    """The data hold no pair at all."""


class DataNotFoundError(DataError, FileNotFoundError):
    """No data under that name or path."""


class ConfigError(RatiorecError, ValueError):
    """A setting, an option or a preset is not known or not possible."""


class UnknownChoiceError(ConfigError):
    """A name that is none of the names there are."""


class UnknownIdError(RatiorecError, KeyError):
    """A user or an item that the model has never seen."""


class ModelError(RatiorecError, ValueError):
    """A model folder that is cut short, altered or not ours."""


class CheckpointError(RatiorecError, ValueError):
    """A checkpoint that cannot continue this run."""


class DeviceError(RatiorecError, RuntimeError):
    """A device that is not on this machine."""


class MemoryBudgetError(RatiorecError, MemoryError):
    """A model or data would need more memory than may be taken."""


class DivergenceError(RatiorecError, ArithmeticError):
    """Training produced a number that is not finite."""


class StoppedError(RatiorecError, InterruptedError):
    """Training was stopped on request, by a signal; its checkpoint is on disk."""

    signal: int = signal.SIGINT


class LostRankError(RatiorecError, ConnectionError):
    """Another process that trains the same model is gone; the last checkpoint is on disk."""


class StorageError(RatiorecError, OSError):
    """A file could not be written; what stood there before still stands."""


class DownloadError(RatiorecError, OSError):
    """A file could not be fetched, or is not the one that was expected."""


class EngineError(RatiorecError, RuntimeError):
    """A part of the work failed on every worker of an engine that it was given to."""


class MissingExtraError(RatiorecError, ImportError):
    """An optional dependency is not installed."""


_LONGEST_NAME = 200


def unknown_choice(
    what: str, found: Any, choices: Iterable[str], *, where: str
) -> UnknownChoiceError:
    """The error for a name that is not among the choices, with the nearest one as a hint."""
    names = list(choices)
    is_short = len(str(found)) <= _LONGEST_NAME  # for others it would take its time
    near = difflib.get_close_matches(str(found), names, n=1) if is_short else []
    hint = f"; did you mean {near[0]}?" if near else ""
    wanted = f"one of {', '.join(names)}{hint}" if names else "none, as there is none"
    return UnknownChoiceError(what, where=where, found=repr(found), wanted=wanted)


def require_range(
    where: str,
    value: float,
    *,
    at_least: float | None = None,
    above: float | None = None,
    below: float = math.inf,
    finite: bool = True,
    what: str = "a setting is out of range",
) -> None:
    """Refuse a number outside `at_least` … `below` or `above` … `below`, and NaN."""
    lowest = above if at_least is None else at_least
    assert lowest is not None
    if not isinstance(value, numbers.Real):
        raise ConfigError(what, where=where, found=repr(value), wanted="a number")
    inside = value > lowest if at_least is None else value >= lowest
    if inside and (value < below or (not finite and below == math.inf)):
        return
    wanted = f"{lowest:g} or more" if at_least is not None else f"a number above {lowest:g}"
    if below < math.inf:
        wanted += f" and below {below:g}"
    elif at_least is None:
        wanted = f"a finite number above {lowest:g}" if finite else f"{wanted}, or inf"
    raise ConfigError(what, where=where, found=str(value), wanted=wanted)


def require_whole(where: str, value: int, *, at_least: int, what: str) -> None:
    """Refuse what is no whole number, and what is below the least."""
    if not isinstance(value, numbers.Integral):
        raise ConfigError(what, where=where, found=repr(value), wanted="a whole number")
    require_range(where, int(value), at_least=at_least, what=what)


def require_extra(module: str, extra: str, *, where: str) -> Any:
    """An optional dependency, imported now; without it, one line says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module.partition('.')[0]} is not installed",
            where=where,
            found=str(error),
            wanted=f"pip install 'ratiorec[{extra}]'",
        ) from error
