"""Alternating least squares as the library implicit does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ratiorec.data.interactions import Interactions
from ratiorec.errors import require_extra
from ratiorec.machine import one_blas_thread
from ratiorec.scorers import InnerProduct
from ratiorec.solvers.settings import ImplicitALS
from ratiorec.solvers.solver import State, require_memory

_TABLES_AT_ONCE = 3  # users and items, and the copies of a scorer
_BYTES_PER_PAIR = 48  # three matrices of pairs, each with an index and a confidence


class ImplicitFactors:
    """A model of implicit's that is fitted one iteration at a time."""

    def __init__(
        self, library: Any, settings: ImplicitALS, data: Interactions, *, rng: np.random.Generator
    ) -> None:
        import scipy.sparse

        with one_blas_thread():
            self._model = library.AlternatingLeastSquares(
                settings.dimension,
                regularization=settings.l2,
                alpha=settings.alpha,
                iterations=1,
            )
        shape = (data.n_users, data.n_items)
        weights = data.relative_weights
        values = np.ones(data.n_pairs, np.float32) if weights is None else weights
        self._pairs = scipy.sparse.csr_matrix((values, data.indices, data.indptr), shape=shape)
        # what implicit would draw itself, but before there is anything to restore
        self._model.user_factors, self._model.item_factors = (
            rng.random((n, settings.dimension), dtype=np.float32) * np.float32(0.01) for n in shape
        )

    @classmethod
    def of(
        cls,
        data: Interactions,
        settings: ImplicitALS,
        *,
        rng: np.random.Generator,
        memory_mb: float,
    ) -> ImplicitFactors:
        """A model before its first iteration."""
        library = implicit_library()
        tables = _TABLES_AT_ONCE * 4 * settings.dimension * (data.n_users + data.n_items)
        require_memory(
            tables + _BYTES_PER_PAIR * data.n_pairs,
            memory_mb=memory_mb,
            solver="implicit-als",
            n_items=data.n_items,
            instead="a smaller solver.dimension",
        )
        return cls(library, settings, data, rng=rng)

    def sweep(self) -> None:
        """One iteration, users and then items."""
        with one_blas_thread():
            self._model.fit(self._pairs, show_progress=False)

    def scorer(self) -> InnerProduct:
        """The factors as they are."""
        return InnerProduct(**self.state())

    def state(self) -> State:
        """Copies of both tables, into which the next iteration writes."""
        return {
            "users": self._model.user_factors.copy(),
            "items": self._model.item_factors.copy(),
        }

    def restore(self, state: State) -> None:
        """Continue from these tables."""
        self._model.user_factors = state["users"].copy()
        self._model.item_factors = state["items"].copy()


def implicit_library() -> Any:
    """The module with implicit's ALS.

    Raises:
        MissingExtraError: implicit is not installed.
    """
    return require_extra("implicit.cpu.als", "rivals", where="solver implicit-als")
