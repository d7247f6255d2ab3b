"""Presets with what is laid over them, written in one word: `lightgcn:batches.n_pairs=2048`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ratiorec.config import resolve
from ratiorec.errors import ConfigError
from ratiorec.presets import preset
from ratiorec.settings import AnySettings


def settings_of(contender: str) -> AnySettings:
    """The settings of `PRESET[+FILE.toml][:SETTING=VALUE]…`.

    >>> settings_of("implicit-als:solver.factors=128").solver.factors
    128
    """
    named, *assignments = contender.split(":")
    name, _, file = named.partition("+")
    try:
        settings = preset(name)
    except ConfigError as error:
        raise ConfigError(
            error.what, where="--presets", found=error.found, wanted=error.wanted
        ) from None
    if not file and not assignments:
        return settings
    return resolve(settings, file=Path(file) if file else None, assignments=assignments)


def require_contenders(contenders: Sequence[str]) -> None:
    """Refuse a contender that cannot be read, or that comes twice."""
    for contender in contenders:
        settings_of(contender)
    if twice := sorted({name for name in contenders if contenders.count(name) > 1}):
        raise ConfigError(
            "a preset is listed twice",
            where="--presets",
            found=", ".join(twice),
            wanted="every preset once",
        )
