"""Weighted matrix factorisation by alternating least squares."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ratiorec.data.interactions import Interactions
from ratiorec.scorers import InnerProduct
from ratiorec.solvers.budget import require_memory
from ratiorec.solvers.least_squares import LeastSquares, entries_at_once, gram
from ratiorec.solvers.ranges import require_above_zero, require_at_least

_TABLES_AT_ONCE = 4  # both sides, one of them whitened, and a copy of the one that is replaced
_BYTES_PER_PAIR = 32  # both directions of every pair, and the room to put them into order
_BUFFERS_PER_CORE = 6  # gathered vectors, products, their factors


@dataclass(frozen=True)
class WMF:
    """s(u,i) = p_uᵀq_i from min Σ_u Σ_i c_ui (x_ui − p_uᵀq_i)² + λ(Σ‖p_u‖² + Σ‖q_i‖²).

    x_ui is 1 for a pair and 0 elsewhere, c_ui is 1 + `confidence` for a pair and 1 elsewhere,
    λ is the `penalty`. A sweep solves for all users and then for all items, exactly (theory: N4).
    """

    dimension: int = 64
    confidence: float = 20.0
    penalty: float = 80.0
    n_sweeps: int = 15

    def __post_init__(self) -> None:
        require_at_least(1, dimension=self.dimension, n_sweeps=self.n_sweeps)
        require_above_zero(confidence=self.confidence, penalty=self.penalty)

    def start(
        self,
        data: Interactions,
        *,
        rng: np.random.Generator,
        device: torch.device,
        memory_mb: float,
    ) -> Factors:
        """The items are random at first; the users need no start."""
        row_bytes = 4 * self.dimension
        n_cores = os.cpu_count() or 1 if device.type == "cpu" else 1
        n_buffered = n_cores * _BUFFERS_PER_CORE * entries_at_once(self.dimension, device)
        n_rows = _TABLES_AT_ONCE * (data.n_users + data.n_items) + n_buffered
        require_memory(
            row_bytes * n_rows + _BYTES_PER_PAIR * data.n_pairs,
            memory_mb=memory_mb,
            solver="wmf",
            n_items=data.n_items,
            instead="a smaller solver.dimension",
        )
        return Factors(self, data, rng=rng, device=device)


class Factors:
    """p_u and q_i on their way to a minimum."""

    def __init__(
        self, settings: WMF, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> None:
        self._settings = settings
        self._n_pairs = data.n_pairs
        dimension = settings.dimension
        self._solve_users = LeastSquares(
            data.indptr, data.indices, n_others=data.n_items, dimension=dimension, device=device
        )
        self._solve_items = LeastSquares(
            *_by_item(data), n_others=data.n_users, dimension=dimension, device=device
        )
        # drawn by numpy, so that every device starts from the same numbers
        drawn = rng.standard_normal((data.n_items, dimension), dtype=np.float32)
        self.users = torch.zeros((data.n_users, dimension), device=device)
        self.items = torch.from_numpy(drawn / np.float32(dimension**0.5)).to(device)

    @torch.no_grad()
    def sweep(self) -> float:
        """Users for the items as they are, then items for these users; the objective after it."""
        a, penalty = self._settings.confidence, self._settings.penalty
        self.users, _ = self._solve_users.solve(self.items, confidence=a, penalty=penalty)
        self.items, pairs = self._solve_items.solve(self.users, confidence=a, penalty=penalty)
        # Σ over all pairs of (p_uᵀq_i)² is the inner product of PᵀP and QᵀQ
        users, items = gram(self.users), gram(self.items)
        unlabelled = float((users * items).sum())
        labelled = (1 + a) * (self._n_pairs - 2 * pairs.scores) + a * pairs.squares
        return unlabelled + labelled + penalty * float(users.trace() + items.trace())

    def scorer(self) -> InnerProduct:
        """The factors as they are; a sweep replaces them and never writes into them."""
        return InnerProduct(self.users.cpu().numpy(), self.items.cpu().numpy())

    def state(self) -> dict[str, Tensor]:
        """Both tables."""
        return {"users": self.users.cpu(), "items": self.items.cpu()}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Continue from these tables."""
        self.users = tensors["users"].to(self.users.device)
        self.items = tensors["items"].to(self.items.device)


def _by_item(data: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The pairs as a compressed sparse row matrix of items by users."""
    import scipy.sparse

    pairs = scipy.sparse.csr_array(
        (np.empty(data.n_pairs, bool), data.indices, data.indptr),
        shape=(data.n_users, data.n_items),
    )
    by_item = pairs.tocsc()
    return by_item.indptr.astype(np.int64), by_item.indices.astype(np.int32)
