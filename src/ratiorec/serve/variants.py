"""Variants: several models behind one server, and which of them answers whom."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import UUID_TEXT, WHOLE_NUMBER
from ratiorec.errors import ConfigError, unknown_choice
from ratiorec.serve.models import ModelInUse, RequestNames

N_PLACES = 10_000
"""Places on the circle of a split: a share is a multiple of a hundredth of a percent."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_EXAMPLE = "--split a:90,b:10"


@dataclass(frozen=True)
class TrafficSplit:
    """Shares of variants in percent, and for each id the variant that it always gets.

    An id has a place on a circle by a hash whose key is the salt. Every variant but the first has
    a point where it begins and grows over the places that those before it leave; the first has
    the rest. So a larger share of one variant takes from the first alone while there is room
    between the points, and another variant at the end takes from nobody else.

    >>> [TrafficSplit({"a": 100 - b, "b": b}).name_of("ada") for b in (10, 20, 50)]
    ['a', 'a', 'b']
    """

    shares: Mapping[str, float]
    salt: str = ""

    def __post_init__(self) -> None:
        parts = [share * N_PLACES / 100 for share in self.shares.values()]
        is_whole = all(0 <= part <= N_PLACES and abs(part - round(part)) < 1e-6 for part in parts)
        if not is_whole or sum(map(round, parts)) != N_PLACES:
            raise ConfigError(
                "these shares are no split",
                where="--split",
                found=",".join(f"{name}:{share:g}" for name, share in self.shares.items()),
                wanted="shares of 0 or more, in steps of 0.01, that add up to 100",
            )

    @classmethod
    def read(cls, text: str | None, names: Sequence[str], *, salt: str = "") -> TrafficSplit:
        """The split of `--split`, in which each variant has a share; one alone has all.

        Raises:
            ConfigError: It is not one share for each of these variants, or not 100 in sum.
        """
        if text is None and len(names) == 1:
            return cls({names[0]: 100}, salt)
        pairs = [part.strip().rpartition(":") for part in (text or "").split(",")]
        try:
            shares = {name: float(share) for name, _, share in pairs}
        except ValueError:
            shares = {}
        if len(shares) < len(pairs) or shares.keys() != set(names):
            raise ConfigError(
                "a split has one share for each variant",
                where="--split",
                found="none" if text is None else repr(text),
                wanted=f"a part of 100 for each of {', '.join(names)}, as in {_EXAMPLE}"
                if all(names)
                else "none, or several models with names, as in a=DIR b=DIR",
            )
        return cls({name: shares[name] for name in names}, salt)

    def name_of(self, identifier: int | str) -> str:
        """The variant of an id; 7, "7" and "7.0" are the same, and so are a UUID's two cases."""
        text = _usual(str(identifier)).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(text, digest_size=8, key=self._key).digest()
        return self._names[int(self._places[int.from_bytes(digest) % N_PLACES])]

    @cached_property
    def _names(self) -> Sequence[str]:
        return tuple(self.shares)

    @cached_property
    def _key(self) -> bytes:
        return hashlib.sha256(self.salt.encode("utf-8", "surrogatepass")).digest()

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """The variant of each place."""
        owners = np.zeros(N_PLACES, np.int64)
        for variant, share in list(enumerate(self.shares.values()))[1:]:
            order = np.roll(np.arange(N_PLACES), -round(_apart(variant - 1) * N_PLACES))
            free = order[owners[order] == 0]
            owners[free[: round(share * N_PLACES / 100)]] = variant
        return owners


def _usual(text: str) -> str:
    """The usual form of an id that models know in another one too."""
    whole = WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text.lower() if UUID_TEXT.fullmatch(text) else text


def _apart(n: int) -> float:
    """Points on a circle of length 1, far from one another: 0, 1/2, 1/4, 3/4, 1/8, …"""
    found, step = 0.0, 0.5
    while n:
        found += step * (n % 2)
        n, step = n // 2, step / 2
    return found


@dataclass(frozen=True, eq=False)
class Variants:
    """The models of one server by the names of their variants; one alone may have no name."""

    models: Mapping[str, ModelInUse]
    split: TrafficSplit

    @classmethod
    def read(
        cls, folders: Mapping[str, Path], split: TrafficSplit, names: RequestNames
    ) -> Variants:
        """The model of each folder, which must fit what requests may ask for by name."""
        models = {name: ModelInUse(folder, name, names) for name, folder in folders.items()}
        return cls(models, split)

    @classmethod
    def of(cls, models: ModelInUse | Variants) -> Variants:
        """Variants as they are, or one model alone."""
        if isinstance(models, Variants):
            return models
        return cls({models.variant: models}, TrafficSplit({models.variant: 100}))

    def __iter__(self) -> Iterator[ModelInUse]:
        return iter(self.models.values())

    def __len__(self) -> int:
        return len(self.models)

    @property
    def first(self) -> ModelInUse:
        """The one for whoever has no id."""
        return next(iter(self))

    def named(self, variant: str) -> ModelInUse:
        """The model of a variant.

        Raises:
            UnknownChoiceError: There is none of this name.
        """
        if variant not in self.models:
            names = list(filter(None, self.models)) or ["none: this server has one model"]
            raise unknown_choice("no such variant", variant, names, where="variant")
        return self.models[variant]

    def chosen(self, variant: str | None, identifier: int | str | None) -> ModelInUse:
        """The model of this variant, or else of the one that an id gets, or else the first."""
        if variant is not None:
            return self.named(variant)
        return self.first if identifier is None else self.models[self.split.name_of(identifier)]

    def versions(self) -> dict[str, Any]:
        """The versions, for a line of a log: the first one, and each where there are several."""
        each = {name: one.current.version for name, one in self.models.items()}
        first = {"model": self.first.current.version}
        return first if len(self) == 1 else first | {"variants": each}

    def describe(self) -> list[dict[str, str | float]]:
        """Name, share and version of each."""
        return [
            {"name": name, "share": self.split.shares[name], "model": one.current.version}
            for name, one in self.models.items()
        ]


def named_folders(texts: Sequence[str]) -> dict[str, Path]:
    """Folders by the names of their variants: `a=DIR` several times, or one DIR without a name.

    Raises:
        ConfigError: One of several has no name, or a name is given twice.
    """
    found: dict[str, Path] = {}
    for text in texts:
        name, sign, folder = text.partition("=")
        is_named = bool(sign and folder and _NAME.fullmatch(name))
        if not is_named and len(texts) > 1:
            raise _no_variants(f"{text} without a name", texts)
        if is_named and name in found:
            raise _no_variants(f"{name} twice", texts)
        found[name if is_named else ""] = Path(folder if is_named else text)
    return found


def _no_variants(found: str, texts: Sequence[str]) -> ConfigError:
    return ConfigError(
        "each of several models has a name of its own",
        where="MODEL " + " ".join(texts),
        found=found,
        wanted="NAME=DIR for each, as in a=models/old b=models/new; a folder that is called like "
        "that is ./a=b",
    )
