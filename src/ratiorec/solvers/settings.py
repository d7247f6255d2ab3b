"""Settings of solvers: models in closed form or by alternating least squares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, TypedDict, Unpack

import numpy as np

from ratiorec.errors import require_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ratiorec.data.interactions import Interactions
    from ratiorec.machine import Device
    from ratiorec.solvers.neighbours import CountedUsers
    from ratiorec.solvers.solver import Solution


class RunContext(TypedDict):
    """What a solver may draw on: randomness, a device, so much memory, and what others left.

    `shared` holds what solvers of the same pairs may have in common, such as eigenvectors.
    `common_users` counts the common users of items, where not this process alone does.
    """

    rng: np.random.Generator
    device: Device
    memory_mb: float
    shared: NotRequired[dict[str, Any]]
    common_users: NotRequired[CountedUsers]


def _counting(context: RunContext) -> CountedUsers:
    from ratiorec.solvers.neighbours import CommonUsers

    return context.get("common_users", CommonUsers)


@dataclass(frozen=True)
class PopularitySolver:
    """s(u,i) = |U_i⁺|, the same list for everyone but for what each has (theory: N1)."""

    name: ClassVar[str] = "popularity"
    uses_weights: ClassVar[bool] = True
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
    uses_weights: ClassVar[bool] = True
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
        from ratiorec.solvers.neighbours import start_item_knn

        counting = _counting(context)
        return start_item_knn(data, self, memory_mb=context["memory_mb"], common_users=counting)


@dataclass(frozen=True)
class Regression:
    """What a ridge regression of items on items may be corrected for (theory: N7).

    λ is `l2`. With `dropout` p the ridge of item i grows by p/(1 − p)·|U_i⁺|, as if entries of X
    were dropped at random. A user counts by |I_u⁺|^−`activity_exponent`, and the weights of popular
    items grow by |U_j⁺|^a and fall by |U_i⁺|^−a, a the `popularity_exponent`.
    """

    l2: float = 200.0
    popularity_exponent: float = field(default=0.0, metadata={"added_later": True})
    activity_exponent: float = field(default=0.0, metadata={"added_later": True})
    dropout: float = field(default=0.0, metadata={"added_later": True})

    def __post_init__(self) -> None:
        require_range("solver.l2", self.l2, above=0)
        require_range("solver.popularity_exponent", self.popularity_exponent, at_least=0)
        require_range("solver.activity_exponent", self.activity_exponent, at_least=0)
        require_range("solver.dropout", self.dropout, at_least=0, below=1)

    def ridges(self, degrees: NDArray[np.int64]) -> NDArray[np.float32]:
        """γ_i = λ + p/(1 − p)·|U_i⁺|."""
        ridges = self.l2 + self.dropout / (1 - self.dropout) * degrees.astype(np.float64)
        return ridges.astype(np.float32)

    def popularity(self, degrees: NDArray[np.int64]) -> NDArray[np.float32]:
        """|U_i⁺|^a."""
        powers: NDArray[np.float64] = np.maximum(degrees, 1) ** float(self.popularity_exponent)
        return powers.astype(np.float32)


@dataclass(frozen=True)
class EASE(Regression):
    """s(u,i) = Σ_{j ∈ I_u⁺} B_ji with B_ji = −P_ji / P_ii, B_ii = 0, P = (XᵀX + λI)⁻¹.

    X is the matrix of pairs and λ is `l2`. Column i of B is the ridge regression of item i on all
    the others (theory: N3); other settings correct it for popularity and activity. In single
    precision: λ bounds the condition of what is inverted. The bits do not depend on the number of
    threads.
    """

    name: ClassVar[str] = "ease"
    uses_weights: ClassVar[bool] = True
    n_sweeps: ClassVar[int] = 1

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep."""
        from ratiorec.solvers.ease import start_ease

        counting, memory_mb = _counting(context), context["memory_mb"]
        return start_ease(
            data, self, device=context["device"], memory_mb=memory_mb, common_users=counting
        )


@dataclass(frozen=True)
class LocalEASE(Regression):
    """EASE for large catalogues: each item is regressed on its nearest items alone (theory: N8).

    These are the `n_neighbours` with the largest Σ_{u ∈ U_i⁺ ∩ U_j⁺} |I_u⁺|^−β / √(|U_i⁺||U_j⁺|),
    β the `activity_exponent`. With all other items as neighbours it is `EASE`.
    """

    name: ClassVar[str] = "local-ease"
    uses_weights: ClassVar[bool] = True
    n_sweeps: ClassVar[int] = 1

    l2: float = 20.0
    popularity_exponent: float = 0.2
    activity_exponent: float = 0.3
    dropout: float = 0.6
    n_neighbours: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("solver.n_neighbours", self.n_neighbours, at_least=1)

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep."""
        from ratiorec.solvers.local_ease import start_local_ease

        counting, memory_mb = _counting(context), context["memory_mb"]
        return start_local_ease(
            data, self, device=context["device"], memory_mb=memory_mb, common_users=counting
        )


@dataclass(frozen=True)
class WMF:
    """s(u,i) = p_uᵀq_i from min Σ_u Σ_i c_ui (x_ui − p_uᵀq_i)² + λ(Σ‖p_u‖² + Σ‖q_i‖²).

    x_ui is 1 for a pair and 0 elsewhere, c_ui is 1 + `confidence` (times the weight of the pair)
    for a pair and 1 elsewhere, λ is `l2`. A sweep solves for all users and then for all items,
    exactly (theory: N4).
    """

    name: ClassVar[str] = "wmf"
    uses_weights: ClassVar[bool] = True

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
    uses_weights: ClassVar[bool] = True

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


@dataclass(frozen=True)
class Walk:
    """s(u,i) = Σ_{j ∈ I_u⁺, j ≠ i} |U_j⁺|^−a Σ_{v ∈ U_i⁺ ∩ U_j⁺} |I_v⁺|^−b |U_i⁺|^−c.

    A step from the items of a user to all who have them, and one to what those have (theory: N5).
    The exponents a, b and c are the `source_exponent`, the `user_exponent` and the
    `target_exponent`. With `n_neighbours` an item is reached from its nearest only; 0 is all.
    """

    name: ClassVar[str] = "walk"
    uses_weights: ClassVar[bool] = True
    n_sweeps: ClassVar[int] = 1

    source_exponent: float = 0.7
    user_exponent: float = 1.0
    target_exponent: float = 0.3
    n_neighbours: int = 0

    def __post_init__(self) -> None:
        for setting in ("source_exponent", "user_exponent", "target_exponent", "n_neighbours"):
            require_range(f"solver.{setting}", getattr(self, setting), at_least=0)

    @property
    def exponents(self) -> tuple[float, float, float]:
        """a, b and c."""
        return self.source_exponent, self.user_exponent, self.target_exponent

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep; solved on the CPU, for the work is sparse."""
        from ratiorec.solvers.neighbours import start_walk

        counting = _counting(context)
        return start_walk(data, self, memory_mb=context["memory_mb"], common_users=counting)


@dataclass(frozen=True)
class GraphFilter:
    """s(u,·) = x_u D_I^−β (h(P) + α V Vᵀ) D_I^β, P = D_I^−½ Xᵀ D_U^−1 X D_I^−½ (theory: N6).

    V are the `n_eigenvectors` leading eigenvectors of P, α is `low_pass` and β the
    `popularity_exponent`. h(λ) = ½ − ½·sign(1 − 2λ)·|1 − 2λ|^φ with φ the `plateau`: 1 is h(λ) = λ,
    with more the response is flatter in the middle. Below the eigenvalues of V it is a line.
    """

    name: ClassVar[str] = "graph-filter"
    uses_weights: ClassVar[bool] = False
    n_sweeps: ClassVar[int] = 1

    n_eigenvectors: int = 256
    plateau: float = 1.5
    low_pass: float = 0.3
    popularity_exponent: float = 0.3

    def __post_init__(self) -> None:
        require_range("solver.n_eigenvectors", self.n_eigenvectors, at_least=1)
        require_range("solver.plateau", self.plateau, at_least=1)
        require_range("solver.low_pass", self.low_pass, at_least=0)
        require_range("solver.popularity_exponent", self.popularity_exponent, at_least=0)

    def start(self, data: Interactions, **context: Unpack[RunContext]) -> Solution:
        """A solution before its first sweep."""
        from ratiorec.solvers.graph_filter import start_filter

        return start_filter(data, self, **context)


AnySolver = PopularitySolver | ItemKNN | Walk | GraphFilter | EASE | LocalEASE | WMF | ImplicitALS
