"""Settings of solvers: models in closed form or by alternating least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypedDict, Unpack

import numpy as np

from ratiorec.errors import require_range

if TYPE_CHECKING:
    import torch

    from ratiorec.data.interactions import Interactions
    from ratiorec.solvers.solver import Solution


class RunContext(TypedDict):
    """What a solver may draw on: randomness, a device, and so much memory."""

    rng: np.random.Generator
    device: torch.device
    memory_mb: float


@dataclass(frozen=True)
class PopularitySolver:
    """s(u,i) = |U_i⁺|, the same list for everyone but for what each has (theory: N1)."""

    name: ClassVar[str] = "popularity"
    n_sweeps: ClassVar[int] = 1

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep."""
        from ratiorec.solvers.neighbours import count_users

        return count_users(data)


@dataclass(frozen=True)
class ItemKNN:
    """s(u,i) = Σ sim(i,j) over what user u has among the `n_neighbours` nearest of item i.

    sim(i,j) = Σ_{u ∈ U_i⁺ ∩ U_j⁺} |I_u⁺|^−β / (√(|U_i⁺||U_j⁺|) + shrinkage), with β the
    `user_exponent`: who has many items says less about any two of them (theory: N2). β = 0 is
    the shrunk cosine. Of equally near items the one with the smaller index counts as nearer.
    """

    name: ClassVar[str] = "item-knn"
    n_sweeps: ClassVar[int] = 1

    n_neighbours: int = 200
    shrinkage: float = 20.0
    user_exponent: float = 0.5

    def __post_init__(self) -> None:
        require_range("solver.n_neighbours", self.n_neighbours, at_least=1)
        require_range("solver.shrinkage", self.shrinkage, at_least=0)
        require_range("solver.user_exponent", self.user_exponent, at_least=0)

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep; solved on the CPU, for the work is sparse."""
        from ratiorec.solvers.neighbours import find_neighbours

        return find_neighbours(data, self, memory_mb=context["memory_mb"])


@dataclass(frozen=True)
class EASE:
    """s(u,i) = Σ_{j ∈ I_u⁺} B_ji with B_ji = −P_ji / P_ii, B_ii = 0, P = (XᵀX + λI)⁻¹.

    X is the matrix of pairs and λ is `l2`. Column i of B is the ridge regression of item i on all
    the others (theory: N3). In single precision: λ bounds the condition of what is inverted. The
    last digit depends on how many threads LAPACK takes, and on nothing else.
    """

    name: ClassVar[str] = "ease"
    n_sweeps: ClassVar[int] = 1

    l2: float = 200.0

    def __post_init__(self) -> None:
        require_range("solver.l2", self.l2, above=0)

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep."""
        from ratiorec.solvers.ease import start_ease

        return start_ease(data, self.l2, device=context["device"], memory_mb=context["memory_mb"])


@dataclass(frozen=True)
class WMF:
    """s(u,i) = p_uᵀq_i from min Σ_u Σ_i c_ui (x_ui − p_uᵀq_i)² + λ(Σ‖p_u‖² + Σ‖q_i‖²).

    x_ui is 1 for a pair and 0 elsewhere, c_ui is 1 + `confidence` for a pair and 1 elsewhere,
    λ is `l2`. A sweep solves for all users and then for all items, exactly (theory: N4).
    """

    name: ClassVar[str] = "wmf"

    dimension: int = 64
    confidence: float = 20.0
    l2: float = 80.0
    n_sweeps: int = 15

    def __post_init__(self) -> None:
        require_range("solver.dimension", self.dimension, at_least=1)
        require_range("solver.n_sweeps", self.n_sweeps, at_least=1)
        require_range("solver.confidence", self.confidence, above=0)
        require_range("solver.l2", self.l2, above=0)

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep."""
        from ratiorec.solvers.wmf import AlternatingLeastSquares

        return AlternatingLeastSquares.of(data, self, **context)


@dataclass(frozen=True)
class ImplicitALS:
    """The objective of `WMF` with c_ui = `alpha` for a pair, by three steps of conjugate gradients.

    It is the library implicit's, and solved on the CPU, whatever the device.
    """

    name: ClassVar[str] = "implicit-als"

    dimension: int = 64
    l2: float = 80.0
    alpha: float = 20.0
    n_sweeps: int = 15

    def __post_init__(self) -> None:
        require_range("solver.dimension", self.dimension, at_least=1)
        require_range("solver.n_sweeps", self.n_sweeps, at_least=1)
        require_range("solver.l2", self.l2, at_least=0)
        require_range("solver.alpha", self.alpha, above=0)

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A model of implicit's before its first iteration.

        Raises:
            MissingExtraError: implicit is not installed.
        """
        from ratiorec.solvers.implicit_als import ImplicitFactors

        return ImplicitFactors.of(data, self, rng=context["rng"], memory_mb=context["memory_mb"])


AnySolver = PopularitySolver | ItemKNN | EASE | WMF | ImplicitALS
