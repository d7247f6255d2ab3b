"""Ridge regression on content: what a model says of items (or users) that nobody has had yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.content import Content, Mask
from ratiorec.scorers.cold_items import Mix

if TYPE_CHECKING:
    import scipy.sparse

STRENGTHS = tuple(10 ** (power / 2) for power in range(-4, 11))
"""The ridges tried: from hardly any to one that leaves little but the mean."""
LOWER_WEIGHTS = (1 / 3, 0.0)
"""The weights tried of an attribute, beside 1."""
_ROWS_TRIED = 2**10
Targets = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Ridge:
    """How strongly to shrink to the mean, and what each attribute weighs; 1 where it is left."""

    strength: float
    weights: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def chosen(cls, content: Content, teaches: Mask, targets: Targets) -> Ridge:
        """That under which each row that teaches is told best by the others (theory: K3).

        `targets` are what is to be told of each row [n_rows, m]. One attribute after another may
        weigh less, or nothing.
        """
        rows = np.flatnonzero(teaches)
        rows = rows[:: -(-len(rows) // _ROWS_TRIED)] if len(rows) else rows
        if len(rows) < 3 or not content.features.shape[1]:
            return cls(STRENGTHS[-1])
        wanted = targets[rows].astype(np.float64)
        wanted = wanted - wanted.mean(axis=0)
        alike = [_kernel(content, rows, block) for block in range(len(content.names))]
        weights = np.ones(len(alike))
        strength, least = _best_strength(alike, weights, wanted)
        for block in range(len(alike)) if len(alike) > 1 else ():
            for weight in LOWER_WEIGHTS:
                tried = np.where(np.arange(len(alike)) == block, weight, weights)
                found, error = _best_strength(alike, tried, wanted)
                if error < least:
                    strength, least, weights = found, error, tried
        return cls(strength, dict(zip(content.names, weights.tolist(), strict=True)))

    def mix(self, content: Content, teaches: Mask, n_known: int) -> Mix:
        """The rows from `n_known` on as mixes of those before (theory: K2).

        v_c = v̄ + (f_c − f̄)ᵀ P Σ_j (f_j − f̄) v_j, over the rows j that teach. Where c lacks an
        attribute its features are those of f̄.
        """
        return self.taught(content.rows(0, n_known), teaches[:n_known]).mix(content.rows(n_known))

    def taught(self, content: Content, teaches: Mask) -> Taught:
        """The regression by these rows, of which some teach."""
        import scipy.linalg
        import scipy.sparse

        features = content.weighted(self.weights)
        n, p = int(teaches.sum()), features.shape[1]
        known = scipy.sparse.diags_array(teaches.astype(np.float64)) @ features
        mean = np.asarray(known.sum(axis=0)).reshape(p) / max(1, n)
        curvature = (known.T @ known).toarray() - n * np.outer(mean, mean)
        curvature[np.diag_indices(p)] += self.strength
        of_mean = scipy.sparse.csr_array(teaches[:, None] / max(1, n))
        mixed = scipy.sparse.hstack([of_mean, known], format="csr").astype(np.float32)
        factor = scipy.linalg.cho_factor(curvature, overwrite_a=True) if p else None
        return Taught(self.weights, mixed, mean, factor, n)


@dataclass(frozen=True, eq=False)
class Taught:
    """A ridge regression that has been solved, but for the rows that it is asked about."""

    weights: Mapping[str, float]
    features: scipy.sparse.csr_array  # of a mix
    mean: NDArray[np.float64]
    factor: Any  # of the curvature; None without features
    n: int

    def mix(self, content: Content) -> Mix:
        """These rows as mixes of those that teach (theory: K2)."""
        import scipy.linalg

        gains = content.weighted(self.weights).toarray() - self.mean
        gains[content.lacks[:, content.block_of]] = 0
        if self.factor is not None:
            gains = scipy.linalg.cho_solve(self.factor, gains.T, overwrite_b=True).T
        of_mean = 1 - self.n * (gains @ self.mean)
        return Mix(self.features, np.column_stack([of_mean, gains]).astype(np.float32))


def _kernel(content: Content, rows: NDArray[np.int64], block: int) -> NDArray[np.float64]:
    """Inner products of the rows in one attribute, each less the mean."""
    columns = np.flatnonzero(content.block_of == block)
    features = content.features[rows][:, columns].toarray()
    features -= features.mean(axis=0)
    products: NDArray[np.float64] = features @ features.T
    return products


def _best_strength(
    alike: list[NDArray[np.float64]], weights: NDArray[np.float64], wanted: Targets
) -> tuple[float, float]:
    """The best strength for these weights, and its error: of each row when it is left out.

    That is the error of the regression over 1 − h, for every strength from one decomposition.
    """
    kernel = np.einsum("b,bij->ij", np.square(weights), np.stack(alike))
    values, directions = np.linalg.eigh(kernel)
    values = values.clip(min=0)
    told = directions.T @ wanted
    errors = []
    for strength in STRENGTHS:
        shrunk = values / (values + strength)
        leverage = np.square(directions) @ shrunk + 1 / len(wanted)
        left = wanted - directions @ (shrunk[:, None] * told)
        left /= np.maximum(1 - leverage, 1e-9)[:, None]
        errors.append(float(np.square(left).sum()))
    least = min(errors)
    return max(s for s, error in zip(STRENGTHS, errors, strict=True) if error == least), least
