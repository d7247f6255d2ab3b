"""Named configurations: the paper's method and what it is compared with."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from ratiorec.config import Settings
from ratiorec.encoders.factorisation import Factorisation
from ratiorec.errors import ConfigError

PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        # the paper's full method: row (h) of its ablation
        "dregn-cf": Settings(),
        # the same risk on free vectors: no graph, cheaper steps
        "dre-mf": Settings(encoder=Factorisation()),
    }
)


def preset(name: str) -> Settings:
    """The settings under this name."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            "unknown preset",
            where="--preset",
            found=repr(name),
            wanted="one of " + ", ".join(PRESETS) + hint,
        )
    return PRESETS[name]
