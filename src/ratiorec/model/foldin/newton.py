"""Fold-in by the density-ratio loss: the best vector of a user by Newton steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.model.foldin.linear import LearnedStep, group_sums, row_blocks, solved, weighted_gram
from ratiorec.scorers import FloatMatrix
from ratiorec.scorers.scorer import FixedTiles, Pairs, pairs_of

_SMALLEST_RATIO = 1e-30  # as in training: 1/r̂ must stay finite
_LARGEST_EXPONENT = 40.0  # e⁴⁰ cubed is still a number of single precision


class Ratio(NamedTuple):
    """r̂ of each score, its slope and its curvature."""

    value: NDArray[Any]
    slope: NDArray[Any]
    bend: NDArray[Any]


def softplus(scores: NDArray[Any]) -> Ratio:
    """r̂ = log(1 + eˢ), r̂′ = σ, r̂″ = σ(1 − σ) (theory: S2)."""
    small = np.exp(-np.abs(scores))
    value = np.log1p(small)
    value += np.maximum(scores, 0)
    slope = np.where(scores >= 0, 1, small)
    slope /= 1 + small
    return Ratio(np.maximum(value, _SMALLEST_RATIO), slope, slope * (1 - slope))


def exponential(scores: NDArray[Any]) -> Ratio:
    """r̂ = r̂′ = r̂″ = eˢ (theory: S2)."""
    value = np.exp(np.clip(scores, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
    return Ratio(value, value, value)


LINKS: Mapping[str, Callable[[NDArray[Any]], Ratio]] = MappingProxyType(
    {"softplus": softplus, "exponential": exponential}
)


@dataclass(frozen=True)
class Curvature:
    """f″(t) = t^−k / (1 + t)^m: one form for all generators (theory: F3)."""

    falls: float  # k
    saturates: int  # m

    def times_power(self, ratio: NDArray[Any], power: float) -> NDArray[Any]:
        """r̂^p f″(r̂)."""
        value: NDArray[Any] = _power(ratio, power - self.falls)
        return value / (1 + ratio) if self.saturates else value

    def relative_slope(self, ratio: NDArray[Any], power: float) -> NDArray[Any]:
        """The derivative of log(r̂^p f″(r̂))."""
        slope: NDArray[Any] = (power - self.falls) / ratio
        return slope - 1 / (1 + ratio) if self.saturates else slope


CURVATURES: Mapping[str, Curvature] = MappingProxyType(
    {
        "least-squares": Curvature(0, 0),
        "kullback-leibler": Curvature(1, 0),
        "logistic": Curvature(1, 1),
    }
)


class ScoreGradient(NamedTuple):
    """∂/∂s of a weighted loss, the weight being a constant, and its derivative by s."""

    value: NDArray[Any]
    slope: NDArray[Any]

    def less(self, other: ScoreGradient, share: float) -> ScoreGradient:
        """This one without a share of another."""
        return ScoreGradient(self.value - share * other.value, self.slope - share * other.slope)


def score_gradient(ratio: Ratio, curvature: Curvature, power: float) -> ScoreGradient:
    """r̂^p f″(r̂) r̂′, and its derivative along the score (theory: F3)."""
    height = curvature.times_power(ratio.value, power)
    value = height * ratio.slope
    bent = height * ratio.bend
    slope = value * ratio.slope * curvature.relative_slope(ratio.value, power) + bent
    return ScoreGradient(value, slope)


def _power(values: NDArray[Any], exponent: float) -> NDArray[Any]:
    """values^exponent; small whole exponents, which are the usual ones, without logarithms."""
    if exponent == 0:
        return np.ones_like(values)
    if exponent < 0:
        return 1 / _power(values, -exponent)
    if exponent == 1:
        return values
    return values**exponent


@dataclass(frozen=True)
class LossFamily:
    """What decides the risk of a user: w⁻ = c_i r̂^γ, w⁺ = r̂^−δ, f″ and the link (theory: R2, W5).

    γ is the `weight_power` and δ the `positive_power`. Without `self_normalised` the means are
    plain (theory: R7, R8), and with `gain_by_prior` the prior multiplies the gain of a positive
    (theory: R10). `mixing` is α of a relative ratio (theory: B7).
    """

    link: Callable[[NDArray[Any]], Ratio]
    curvature: Curvature
    weight_power: float
    positive_power: float
    self_normalised: bool = True
    gain_by_prior: bool = False
    mixing: float = 0.0

    def unlabelled(
        self, scores: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> ScoreGradient:
        """Of Ê[w⁻ℓ±] on every score [n, m], where `weights` are all of w⁻ but r̂^γ (theory: R4)."""
        ratio = self.link(scores)
        gradient = score_gradient(ratio, self.curvature, self.weight_power + 1)
        if self.self_normalised and self.weight_power:
            power = _power(ratio.value, self.weight_power)
            scale = weights / (weights * power).sum(1, keepdims=True)
        else:
            scale = weights / weights.sum()
        if self.mixing:
            scale = scale * np.float32(1 - self.mixing)
        return ScoreGradient(gradient.value * scale, gradient.slope * scale)

    def positive(
        self,
        scores: NDArray[np.float64],
        weights: NDArray[np.float64],
        rows: NDArray[np.int64],
        prior: NDArray[np.float64],
    ) -> ScoreGradient:
        """Of Ê₊[π_u(w⁺ − w⁻)ℓ± + w⁺ℓ₊] on every positive's score; `weights` are c_i.

        The slope is that of the gain alone: what the prior multiplies hardly counts.
        """
        ratio, power, own_power = self.link(scores), self.weight_power, self.positive_power
        gain = score_gradient(ratio, self.curvature, -own_power)
        mixed_in = score_gradient(ratio, self.curvature, 1 - own_power)
        as_positive = mixed_in.value
        as_unlabelled = weights * score_gradient(ratio, self.curvature, 1 + power).value
        sums = [np.ones_like(ratio.value)] * 2
        if self.self_normalised:
            sums = [ratio.value ** float(-own_power), weights * ratio.value ** float(power)]
        of_positive, of_unlabelled = (
            np.maximum(group_sums(each, rows, len(prior)), np.finfo(np.float32).tiny)[rows]
            for each in sums
        )
        share = prior[rows]
        if self.mixing:
            share = share * (1 - self.mixing)
            gain = gain.less(mixed_in, self.mixing)
        factor = share if self.gain_by_prior else np.ones_like(share)
        strength = (share * as_positive - factor * gain.value) / of_positive
        strength -= share * as_unlabelled / of_unlabelled
        return ScoreGradient(strength, -factor * gain.slope / of_positive)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Items [m, d], each with the weight [m] of all those it stands for (theory: F4)."""

    vectors: FloatMatrix
    weights: NDArray[np.float32]

    @classmethod
    def drawn(
        cls,
        items: FloatMatrix,
        weights: NDArray[np.float64],
        sizes: NDArray[np.float64],
        *,
        n: int,
    ) -> Candidates:
        """About n items, those of a large size more likely, weighted by inverse probability.

        The draw is systematic, an item wherever the chances add up to another whole number and
        a half, so that nothing in it is random.
        """
        chances = inclusion(sizes, n=n)
        ends = np.cumsum(chances)
        drawn = np.flatnonzero(np.floor(ends + 0.5) > np.floor(ends - chances + 0.5))
        if n >= len(items):
            drawn = np.arange(len(items))
        return cls(items[drawn], (weights[drawn] / chances[drawn]).astype(np.float32))

    def and_all(self, items: FloatMatrix, weights: NDArray[np.float64]) -> Candidates:
        """These and others, each of which stands for itself."""
        return Candidates(
            np.concatenate([self.vectors, items]),
            np.concatenate([self.weights, weights.astype(np.float32)]),
        )

    @cached_property
    def rows(self) -> FixedTiles:
        """For products of users with candidates."""
        return FixedTiles.of(self.vectors)

    @cached_property
    def columns(self) -> FixedTiles:
        """For sums over candidates."""
        return FixedTiles.of(self.vectors.T)


def inclusion(sizes: NDArray[np.float64], *, n: int) -> NDArray[np.float64]:
    """min(1, τ·size) with τ such that n are expected (theory: F4)."""
    if n >= len(sizes):
        return np.ones(len(sizes))
    chances = np.zeros(len(sizes))
    certain = np.zeros(len(sizes), bool)
    while True:  # those that would be above 1 are certain, and the others share what is left
        rest = ~certain
        chances[rest] = sizes[rest] * (n - certain.sum()) / sizes[rest].sum()
        if not (chances > 1).any():
            return chances
        certain |= chances > 1
        chances[certain] = 1


_ROWS_AT_ONCE = 64
_MOST_STEPS = 30
_USERS_ASKED = 512  # trained users who tell the ridge
_SHARE_OF_RIDGE = 0.75  # κ: chosen on other splits of Gowalla than those judged

Vectors = NDArray[np.float64]


class _Own(NamedTuple):
    """The positives of some users, one after another."""

    rows: NDArray[np.int64]
    vectors: FloatMatrix
    weights: NDArray[np.float64]  # c_i
    n_positives: NDArray[np.int64]  # of each user
    ridges: Vectors  # ρ_u [n, 1]


@dataclass(frozen=True, eq=False)
class UserProblem:
    """min over e of R_u(e) + ρ_u/2 ‖e − b_u‖², from the vector of a learned step on (theory: F3).

    b_u is that vector, or 0 where training had a `free` vector for each user. The gradient sums
    over `candidates`, the matrix of a Newton step over the fewer of `preconditioner_sample`, which
    decides how fast the minimum is found and not where it is. `item_weights` are c_i. `ridge` is ρ
    and `usual_length` n̄: ρ_u = ρ max(1, n̄/|I_u⁺|), or ρ for all where there is none (theory: F5).
    A user is done when a step is shorter than `tolerance` of the vector. The last `n_cold` items
    are no part of the problem.
    """

    family: LossFamily
    start: LearnedStep
    item_weights: NDArray[np.float64]
    candidates: Candidates
    preconditioner_sample: Candidates
    ridge: float = 0.0
    usual_length: float | None = None
    free: bool = False
    tolerance: float = 0.1
    n_cold: int = 0

    def as_trained(self, users: FloatMatrix, pairs: Pairs, *, least: float) -> UserProblem:
        """The same with a ridge that trained users tell, and never less than `least` (theory: F5).

        Of free vectors it is the one they are at rest with, for everybody; else it is a share of
        that, and more for histories shorter than is usual.
        """
        implied = self.implied_ridge(users, pairs)
        if self.free:
            return replace(self, ridge=max(least, implied))
        ridge = max(least, _SHARE_OF_RIDGE * implied)
        return replace(self, ridge=ridge, usual_length=usual_length(pairs))

    def kept_ridge(self) -> dict[str, float | None]:
        """The ridge in plain types, for models that take pairs in after training."""
        return {"ridge": self.ridge, "usual_length": self.usual_length}

    def with_ridge(self, kept: Mapping[str, Any]) -> UserProblem:
        """The same with the ridge of another, as `kept_ridge` gives it.

        Raises:
            ValueError: It holds what no ridge is.
        """
        ridge, length = float(kept["ridge"]), kept["usual_length"]
        usual = None if length is None else float(length)
        if not (0 <= ridge < np.inf and (usual is None or 0 < usual < np.inf)):
            raise ValueError(f"a ridge of {ridge} for a usual length of {usual}")
        return replace(self, ridge=ridge, usual_length=usual)

    def implied_ridge(self, users: FloatMatrix, pairs: Pairs) -> float:
        """−Σ_u ∇R_uᵀ(e_u − b_u) / Σ_u ‖e_u − b_u‖² over some trained users (theory: F5)."""
        have_pairs = np.flatnonzero(np.diff(pairs.indptr))
        some = have_pairs[:: max(1, len(have_pairs) // _USERS_ASKED)]
        work = squares = 0.0
        for places in row_blocks(len(some), _ROWS_AT_ONCE):
            rows = some[places]
            vectors = users[rows].astype(np.float64)
            away = vectors - self._centres(self.start.at(pairs, rows))
            work -= float((self.gradient(vectors, pairs, rows) * away).sum())
            squares += float(np.square(away).sum())
        return work / squares if squares else 0.0

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]; that of an empty one is 0."""
        vectors = self.start(histories)
        have_pairs = np.flatnonzero(np.diff(histories.indptr))
        for places in row_blocks(len(have_pairs), _ROWS_AT_ONCE):
            rows = have_pairs[places]
            vectors[rows] = self._minimise(vectors[rows], histories, rows)
        return vectors

    def with_items(
        self, items: FloatMatrix, degrees: NDArray[np.int64], *, n_cold: int = 0
    ) -> UserProblem:
        """The same problem where there are more items, all but the cold ones candidates."""
        new = items[len(self.item_weights) : len(items) - n_cold]
        weights = np.full(len(new), self.item_weights.mean())
        return replace(
            self,
            start=self.start.with_items(items, degrees),
            # without an unlabelled share, since none of theirs is summed
            item_weights=np.concatenate([self.item_weights, weights, np.zeros(n_cold)]),
            candidates=self.candidates.and_all(new, weights),
            preconditioner_sample=self.preconditioner_sample.and_all(new, weights),
            n_cold=n_cold,
        )

    def gradient(self, vectors: Vectors, histories: Pairs, rows: NDArray[np.int64]) -> Vectors:
        """∇R_u at these vectors of some histories, weights being constants (theory: F3)."""
        return self._slope(vectors, self._own(histories, rows))

    def _centres(self, steps: FloatMatrix) -> Vectors:
        """b_u, given what the learned step makes of each history."""
        return np.zeros(steps.shape) if self.free else steps.astype(np.float64)

    def _minimise(self, steps: FloatMatrix, histories: Pairs, rows: NDArray[np.int64]) -> Vectors:
        """Newton steps for every user until that user's are small, whatever the others need.

        A user whose steps lead nowhere keeps the vector that they began with.
        """
        vectors, centres = steps.astype(np.float64), self._centres(steps)
        active, own = np.arange(len(rows)), self._own(histories, rows)
        slope = self._slope(vectors, own) + own.ridges * (vectors - centres)
        for _ in range(_MOST_STEPS):
            here = vectors[active]
            moves = -solved(self._curvature(here, own), slope)
            far = _lengths(moves) > self.tolerance * _lengths(here + moves)
            vectors[active[~far]] += moves[~far]
            active = active[far]
            if not len(active):
                break
            own = self._own(histories, rows[active])
            vectors[active], slope = self._moved(
                here[far], centres[active], slope[far], moves[far], own
            )
        return np.where(np.isfinite(vectors).all(1, keepdims=True), vectors, steps)

    def _moved(
        self, vectors: Vectors, centres: Vectors, slope: Vectors, moves: Vectors, own: _Own
    ) -> tuple[Vectors, Vectors]:
        """The vectors after their moves, and the slope there.

        A move on whose way the slope turns round is made as far as where it would be level, if it
        changed along a straight line.
        """
        ahead = vectors + moves
        slope_ahead = self._slope(ahead, own) + own.ridges * (ahead - centres)
        before = np.einsum("nd,nd->n", slope, moves)  # never positive
        after = np.einsum("nd,nd->n", slope_ahead, moves)
        steep = after > -before / 2
        if steep.any():
            shares = np.where(steep, before / np.where(steep, before - after, 1), 1)
            ahead = vectors + shares[:, None] * moves
            slope_ahead = self._slope(ahead, own) + own.ridges * (ahead - centres)
        return ahead, slope_ahead

    def _slope(self, vectors: Vectors, own: _Own) -> Vectors:
        """∇R_u = Σ_i of the gradient by each score · e_i."""
        scores = self.candidates.rows.products(vectors.astype(np.float32))
        gradients = self.family.unlabelled(scores, self.candidates.weights)
        unlabelled = self.candidates.columns.products(gradients.value)
        positive = self._of_positives(vectors, own).value[:, None] * own.vectors
        slope: Vectors = unlabelled + group_sums(positive, own.rows, len(vectors))
        return slope

    def _of_positives(self, vectors: Vectors, own: _Own) -> ScoreGradient:
        scores = np.einsum("pd,pd->p", vectors[own.rows], own.vectors)
        prior = own.n_positives / (len(self.start.items) - self.n_cold)
        return self.family.positive(scores, own.weights, own.rows, prior)

    def _curvature(self, vectors: Vectors, own: _Own) -> Vectors:
        """Σ_i of the second derivative by score · e_i e_iᵀ + ρ_u I, without what is not convex."""
        scores = self.preconditioner_sample.rows.products(vectors.astype(np.float32))
        unlabelled = self.family.unlabelled(scores, self.preconditioner_sample.weights).slope
        positive = self._of_positives(vectors, own).slope
        ends = np.searchsorted(own.rows, np.arange(len(vectors) + 1))
        matrices = np.empty((*vectors.shape, vectors.shape[1]))
        for row, (start, end) in enumerate(itertools.pairwise(ends)):
            matrices[row] = weighted_gram(
                self.preconditioner_sample.vectors, np.maximum(unlabelled[row], 0)
            )
            matrices[row] += weighted_gram(
                own.vectors[start:end], np.maximum(positive[start:end], 0)
            )
        diagonal = np.einsum("nii->ni", matrices)
        diagonal += own.ridges + np.finfo(np.float32).eps * diagonal.mean(1, keepdims=True)
        return matrices

    def _own(self, histories: Pairs, rows: NDArray[np.int64]) -> _Own:
        places, items = pairs_of(histories, rows)
        n_positives = histories.indptr[rows + 1] - histories.indptr[rows]
        ridges = np.full((len(rows), 1), self.ridge)
        if self.usual_length is not None:
            ridges *= np.maximum(1, self.usual_length / n_positives[:, None])
        return _Own(places, self.start.items[items], self.item_weights[items], n_positives, ridges)


def usual_length(pairs: Pairs) -> float:
    """The geometric mean of how many pairs a user has, of those who have any (theory: F5)."""
    lengths = np.diff(pairs.indptr)
    return float(np.exp(np.log(lengths[lengths > 0]).mean())) if len(pairs.indices) else 1.0


def _lengths(vectors: Vectors) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    return lengths
