"""Blends: weighted sums of the scores of several models, standardised user by user."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, ModelError
from ratiorec.scorers.scorer import (
    Factored,
    FixedTiles,
    FloatMatrix,
    Indices,
    ItemProducts,
    Pairs,
    StoredScorer,
    largest_values,
    require_fit,
)

_CACHED_SCORES = 2**18
_LEAST_SPREAD = 1e-12  # of the largest score: less is rounding, and all items are alike


class Narrowing(NamedTuple):
    """What maps joined vectors to fewer dimensions: the products hardly change (theory: G3)."""

    users: FloatMatrix  # [joined dimension, narrow dimension]
    items: FloatMatrix


@dataclass(frozen=True, eq=False)
class Blend:
    """The score is s(u,i) = Σ_m w_m (s_m(u,i) − μ_mu) / σ_mu (theory: G1).

    μ_mu and σ_mu are the mean and the standard deviation of member m's scores of user u over all
    items; a member that scores all items alike says nothing. Members that are inner products are
    joined into one: their vectors stand side by side, each user's divided by σ_mu, and are mapped
    to fewer dimensions where there is a `narrowing` (theory: G3).
    """

    members: tuple[StoredScorer, ...]
    weights: NDArray[np.float32]
    narrowing: Narrowing | None = None

    kind: ClassVar[str] = "blend"

    def __post_init__(self) -> None:
        largest_values({"weights": self.weights}, {"weights": ("members",)}, members=self.n_members)
        if not self.members or not (self.weights > 0).all():
            raise ModelError(
                "a blend is of members with positive weights",
                where="weights",
                found=str(self.weights.tolist()),
                wanted="one weight above 0 for each of one or more members",
            )
        if self.narrowing is not None:
            axes = {f"narrow_{side}": ("dimension", "narrow") for side in Narrowing._fields}
            largest_values(self._narrow_arrays(), axes, dimension=self.joined_dimension)
        for member in self.members[1:]:
            require_fit("users of a member", member.n_users, self.n_users, "those of the first")
            require_fit("items of a member", member.n_items, self.n_items, "those of the first")

    @property
    def n_members(self) -> int:
        return len(self.members)

    @property
    def n_users(self) -> int:
        return self.members[0].n_users

    @property
    def n_items(self) -> int:
        return self.members[0].n_items

    def arrays(self) -> dict[str, NDArray[Any]]:
        kinds = ",".join(member.kind for member in self.members)
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights}
        arrays["kinds"] = np.frombuffer(kinds.encode(), np.uint8)
        for place, member in enumerate(self.members):
            arrays |= {f"{place}.{name}": array for name, array in member.arrays().items()}
        return arrays | self._narrow_arrays()

    def _narrow_arrays(self) -> dict[str, NDArray[Any]]:
        maps = {} if self.narrowing is None else self.narrowing._asdict()
        return {f"narrow_{side}": array for side, array in maps.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], histories: Pairs) -> Self:
        from ratiorec.scorers import SCORERS

        members: list[StoredScorer] = []
        for place, kind in enumerate(names_in(arrays["kinds"], SCORERS)):
            prefix = f"{place}."
            names = [name for name in arrays if name.startswith(prefix)]
            parts = {name.removeprefix(prefix): arrays[name] for name in names}
            try:
                members.append(SCORERS[kind].from_arrays(parts, histories))
            except KeyError as missing:
                raise KeyError(f"{prefix}{missing.args[0]}") from None
        maps = [f"narrow_{side}" for side in Narrowing._fields]
        is_narrow = any(name in arrays for name in maps)
        narrowing = Narrowing(*(arrays[name] for name in maps)) if is_narrow else None
        return cls(tuple(members), arrays["weights"], narrowing)

    def with_members(self, members: Sequence[StoredScorer]) -> Self:
        """The same blend for other users of the same models; what was made of items is shared."""
        other = copy(self)
        object.__setattr__(other, "members", tuple(members))
        other.__post_init__()
        return other

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        """The weighted sum of all members' standardised scores."""
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        step = max(8, _CACHED_SCORES // max(1, self.n_items) // 8 * 8)  # what scratch may hold
        for start in range(0, len(users), step):
            rows = slice(start, start + step)
            self._add_up(users[rows], out[rows])
        return out

    def _add_up(self, users: Indices, out: FloatMatrix) -> None:
        joined = self._joined
        if joined is None:
            out[...] = 0
        else:
            joined.tiles.products(self.joined_users(users), out=out)
        scratch = np.empty_like(out)
        for place, member in enumerate(self.members):
            if joined is None or place not in joined.places:
                member.scores(users, out=scratch)
                out += standardise(scratch, float(self.weights[place]))

    def for_items(self, items: Indices) -> ItemProducts | None:
        """The scores of these items alone, where all members are joined.

        The others' scores are standardised over all items, so that all must be known.
        """
        joined = self._joined
        if joined is None or len(joined.places) < self.n_members:
            return None
        return ItemProducts(self.n_users, self.joined_users, joined.tiles.take(items))

    def similarity(self) -> Blend:
        """The blend of the members' own similarities; what compares no items is left out."""
        similar: list[tuple[StoredScorer, np.float32]] = []
        for member, weight in zip(self.members, self.weights, strict=True):
            try:
                scorer: Any = member.similarity()
            except ConfigError:
                continue
            similar.append((scorer, weight))
        if not similar:
            self.members[0].similarity()  # raises, and says why
        scorers, weights = zip(*similar, strict=True)
        return Blend(scorers, np.array(weights, np.float32))

    @property
    def item_vectors(self) -> FloatMatrix | None:
        """The vectors of items of the joined members, weighted; None where no member has any."""
        if (joined := self._joined) is None:
            return None
        spreads = zip(joined.places, joined.spreads, strict=True)
        scaled = [
            self.weights[place] / np.sqrt(spread.trace) * self._factored(place).item_vectors
            for place, spread in spreads
        ]
        return np.hstack(scaled, dtype=np.float32)

    def _factored(self, place: int) -> Factored:
        member = self.members[place]
        assert isinstance(member, Factored)
        return member

    def joined_users(self, users: Indices) -> FloatMatrix:
        """Each joined member's vectors of the users, times w_m/σ_mu, side by side or narrowed."""
        joined = self._joined
        assert joined is not None
        parts = []
        for place, spread in zip(joined.places, joined.spreads, strict=True):
            vectors = self._factored(place).user_vectors(users)
            parts.append(vectors * (self.weights[place] * spread.inverse_of(vectors))[:, None])
        wide = np.hstack(parts).astype(np.float32)
        return wide if joined.narrow is None else joined.narrow.products(wide)

    @property
    def joined_items(self) -> FloatMatrix:
        """Each joined member's vectors of the items less their mean, side by side or narrowed."""
        wide = np.hstack([self._centred(place) for place in self._joined_places])
        return wide if self.narrowing is None else wide @ self.narrowing.items

    @property
    def _joined_places(self) -> tuple[int, ...]:
        return tuple(m for m, scorer in enumerate(self.members) if isinstance(scorer, Factored))

    @property
    def joined_dimension(self) -> int:
        """Of the joined vectors, before they are narrowed."""
        return sum(self._factored(place).item_vectors.shape[1] for place in self._joined_places)

    def _centred(self, place: int) -> FloatMatrix:
        vectors = self._factored(place).item_vectors
        centred: FloatMatrix = vectors - vectors.mean(0, dtype=np.float64).astype(np.float32)
        return centred

    @cached_property
    def _joined(self) -> _Joined | None:
        if not (places := self._joined_places):
            return None
        spreads = tuple(_Spread.of(self._centred(place)) for place in places)
        maps = self.narrowing
        # products of fixed tiles: the last digit of a user does not depend on the others
        narrow = None if maps is None else FixedTiles.of(maps.users.T)
        return _Joined(places, spreads, FixedTiles.of(self.joined_items), narrow)


def names_in(letters: NDArray[Any], known: Container[str]) -> list[str]:
    """The kinds of scorer that are written into an array.

    Raises:
        ModelError: They are none.
    """
    names = letters.tobytes().decode(errors="replace").split(",")
    fits = letters.ndim == 1 and letters.dtype == np.uint8
    if not fits or not all(name in known for name in names):
        raise ModelError(
            "the kinds of a model's parts cannot be read",
            where="kinds",
            found=f"{letters.dtype} {list(letters.shape)}",
            wanted="uint8 [letters], names of scorers with commas between them",
        )
    return names


class _Joined(NamedTuple):
    """The members that are inner products, as one."""

    places: tuple[int, ...]
    spreads: tuple[_Spread, ...]
    tiles: FixedTiles  # of the items
    narrow: FixedTiles | None  # what maps users to fewer dimensions


class _Spread(NamedTuple):
    """What tells the standard deviation of a user's scores: Σ_i v_i v_iᵀ / |I|, v_i centred."""

    tiles: FixedTiles  # over its trace
    trace: float

    @classmethod
    def of(cls, vectors: FloatMatrix) -> _Spread:
        gram = _gram(vectors) / max(1, len(vectors))
        trace = float(np.trace(gram))
        return cls(FixedTiles.of((gram / (trace or 1)).astype(np.float32)), trace)

    def inverse_of(self, users: FloatMatrix) -> NDArray[np.float64]:
        """1/σ of each user's scores; 0 where all items score alike."""
        # by the largest first, as in `standardise`
        largest = np.abs(users).max(1, initial=0)
        users = (users / np.where(largest > 0, largest, 1)[:, None]).astype(np.float32)
        variance = np.einsum("ud,ud->u", self.tiles.products(users), users, dtype=np.float64)
        sigma = np.sqrt(np.maximum(variance, 0))
        scale = largest * np.sqrt(self.trace) * np.where(sigma > _LEAST_SPREAD, sigma, 0)
        return 1 / np.where(scale > 0, scale, np.inf)


def standardise(scores: FloatMatrix, weight: float = 1.0) -> FloatMatrix:
    """Each row less its mean, over its standard deviation, times the weight; in place.

    >>> standardise(np.array([[1, 3], [5, 5]], np.float32))
    array([[-1.,  1.],
           [ 0.,  0.]], dtype=float32)
    """
    scores -= scores.mean(1, dtype=np.float64, keepdims=True).astype(np.float32)
    largest = np.maximum(scores.max(1, initial=0), -scores.min(1, initial=0))
    # by the largest first: squares of small or large scores leave float32
    scores /= np.where(largest > 0, largest, 1)[:, None]
    sigma = np.sqrt(np.einsum("ui,ui->u", scores, scores, dtype=np.float64) / scores.shape[1])
    scores *= (weight / np.where(sigma > _LEAST_SPREAD, sigma, np.inf)).astype(np.float32)[:, None]
    return scores


def _gram(vectors: FloatMatrix) -> NDArray[np.float64]:
    """Σ v vᵀ, added up in float64 some rows at a time."""
    gram = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(vectors), 1024):
        block = vectors[start : start + 1024]
        gram += block.T @ block
    return gram
