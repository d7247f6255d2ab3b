"""Graph filters: a walk, and what its leading eigenvectors gain on it."""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.spectral import gram, normalised_pairs, orthonormal, signs, times
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.scorers import FloatMatrix, GraphFilterScorer, WalkScorer
from ratiorec.solvers.settings import GraphFilter, RunContext
from ratiorec.solvers.solver import OneSweep, require_memory

_BYTES_PER_PAIR = 96  # the pairs by user and by item, for the products and for the walk
_TABLES_AT_ONCE = 4
_N_OVERSAMPLES = 32
_N_ITERATIONS = 4  # more changed no figure that was measured
_LEAST_EIGENVALUE = 1e-6  # what is smaller is rounding


def start_filter(
    data: Interactions, settings: GraphFilter, **context: Unpack[RunContext]
) -> OneSweep:
    """A graph filter before its eigenvectors are found."""
    width = min(settings.n_eigenvectors + _N_OVERSAMPLES, data.n_users, data.n_items)
    tables = 4 * width * (_TABLES_AT_ONCE * data.n_items + data.n_users)
    require_memory(
        tables + _BYTES_PER_PAIR * data.n_pairs,
        memory_mb=context["memory_mb"],
        solver="graph-filter",
        n_items=data.n_items,
        instead="fewer solver.n_eigenvectors, or walk",
    )

    def solve() -> GraphFilterScorer:
        n, shared = settings.n_eigenvectors, context.get("shared", {})
        name = f"{n} eigenvectors"
        if name not in shared:
            shared[name] = leading_eigenvectors(data, n)
        found: Eigenvectors = shared[name]
        return filter_by(settings, data, found)

    return OneSweep(solve)


def filter_by(settings: GraphFilter, data: Interactions, found: Eigenvectors) -> GraphFilterScorer:
    """The filter, given the eigenvectors, which do not depend on the other settings."""
    linear, gains = gains_of(settings, found.values)
    beta = settings.popularity_exponent
    exponents = np.array([0.5 + beta, 1, 0.5 - beta], np.float32)
    return GraphFilterScorer(
        WalkScorer.over(data, exponents, data.n_items),
        found.vectors,
        found.values.astype(np.float32),
        gains.astype(np.float32),
        np.array([linear], np.float32),
    )


def response(settings: GraphFilter, eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    """h(λ) = ½ − ½·sign(1 − 2λ)·|1 − 2λ|^φ (theory: N6)."""
    places = 1 - 2 * eigenvalues
    return 0.5 - 0.5 * np.sign(places) * np.abs(places) ** settings.plateau


def gains_of(
    settings: GraphFilter, eigenvalues: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The slope c of the filter below the eigenvalues known, and what each of these gains on it."""
    known = eigenvalues[eigenvalues > 0]
    linear = float((response(settings, known[-1:]) / known[-1:]).sum()) if len(known) else 0.0
    gains = response(settings, eigenvalues) - linear * eigenvalues + settings.low_pass
    return linear, np.where(eigenvalues > 0, gains, 0)


class Eigenvectors(NamedTuple):
    """Eigenvectors [n_items, n] and their eigenvalues, largest first."""

    vectors: FloatMatrix
    values: NDArray[np.float64]


def leading_eigenvectors(
    data: Interactions, n: int, *, n_iterations: int = _N_ITERATIONS
) -> Eigenvectors:
    """The leading eigenvectors of P = D_I^−½ Xᵀ D_U^−1 X D_I^−½, by subspace iteration."""
    width = min(n + _N_OVERSAMPLES, data.n_users, data.n_items)
    with deterministic_threads():
        forth, back = normalised_pairs(data)
        # the start is the same for every seed: what is looked for does not depend on it
        basis = signs(data.n_items, width, np.random.default_rng(0))
        for _ in range(n_iterations):
            basis = orthonormal(back.multiply(forth.multiply(basis)))
        values, rotation = np.linalg.eigh(gram(forth.multiply(basis)))
        vectors = times(basis, rotation[:, : -n - 1 : -1])
    found = np.minimum(values[: -n - 1 : -1], 1)
    return Eigenvectors(vectors, np.where(found > _LEAST_EIGENVALUE, found, 0))
