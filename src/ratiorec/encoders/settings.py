"""Settings of encoders and of their initial embeddings; a call builds the torch module."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, require_range

if TYPE_CHECKING:
    import torch

    from ratiorec.data.interactions import Interactions
    from ratiorec.encoders.encoder import Encoder


@dataclass(frozen=True)
class Xavier:
    """Uniform in ±gain·√(6/(rows + columns)) (theory: E2)."""

    name: ClassVar[str] = "xavier"

    gain: float = 0.1

    def __post_init__(self) -> None:
        require_range("encoder.init.gain", self.gain, above=0)

    def __call__(
        self, n_rows: int, n_columns: int, *, rng: np.random.Generator, n_next: int | None = None
    ) -> NDArray[np.float32]:
        """A matrix of these sizes, or the `n_next` rows of it that come next."""
        bound = self.gain * np.sqrt(6 / (n_rows + n_columns))
        return rng.uniform(-bound, bound, (n_next or n_rows, n_columns)).astype(np.float32)


@dataclass(frozen=True)
class Normal:
    """Normal with mean 0 and standard deviation `std` (theory: E2)."""

    name: ClassVar[str] = "normal"

    std: float = 0.1

    def __post_init__(self) -> None:
        require_range("encoder.init.std", self.std, above=0)

    def __call__(
        self, n_rows: int, n_columns: int, *, rng: np.random.Generator, n_next: int | None = None
    ) -> NDArray[np.float32]:
        """A matrix of these sizes, or the `n_next` rows of it that come next."""
        return rng.normal(0, self.std, (n_next or n_rows, n_columns)).astype(np.float32)


@dataclass(frozen=True)
class Spectral:
    """e_u⁰ ∝ the user's place in the leading singular vectors, e_i⁰ ∝ |U_i⁺|^q times the item's.

    Found by `n_iterations` of subspace iteration over `n_oversamples` vectors more than are kept;
    `rms_length` is the root mean square length of a first vector, q the `popularity_exponent`
    (theory: E8).
    """

    name: ClassVar[str] = "spectral"

    rms_length: float = 2.0
    popularity_exponent: float = 0.25
    n_iterations: int = 3
    n_oversamples: int = 32

    def __post_init__(self) -> None:
        require_range("encoder.init.rms_length", self.rms_length, above=0)
        require_range("encoder.init.popularity_exponent", self.popularity_exponent, at_least=0)
        require_range("encoder.init.n_iterations", self.n_iterations, at_least=1)
        require_range("encoder.init.n_oversamples", self.n_oversamples, at_least=0)


DrawnInit = Xavier | Normal
"""How to draw a matrix of any kind."""
TableInit = Xavier | Normal | Spectral
"""Where the vectors of users and items may start."""


@dataclass(frozen=True)
class LightGCN:
    """Propagation without weights or non-linearities over the user-item graph.

    With `normalize` scores are cosines: every vector has length 1 (theory: S4). For ranking, and
    not in training, an item's score has `popularity_term` times log(1 + |U_i⁺|) added (theory: S5).
    """

    name: ClassVar[str] = "lightgcn"

    dimension: int = 64
    n_layers: int = 3
    self_loops: bool = True
    init: TableInit = field(default_factory=Xavier)
    normalize: bool = field(default=False, metadata={"added_later": True})
    popularity_term: float = field(default=0.0, metadata={"added_later": True})

    def __post_init__(self) -> None:
        require_range("encoder.dimension", self.dimension, at_least=1)
        require_range("encoder.n_layers", self.n_layers, at_least=0)
        require_range("encoder.popularity_term", self.popularity_term, above=-math.inf)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        from ratiorec.encoders.encoder import LightGCNEncoder

        return LightGCNEncoder.of(data, self, rng=rng, device=device)


@dataclass(frozen=True)
class Factorisation:
    """Matrix factorisation (MF): e_u and e_i are the parameters themselves.

    `normalize` and `popularity_term` are those of `LightGCN`.
    """

    name: ClassVar[str] = "factorisation"

    dimension: int = 64
    init: TableInit = field(default_factory=Xavier)
    normalize: bool = field(default=False, metadata={"added_later": True})
    popularity_term: float = field(default=0.0, metadata={"added_later": True})

    def __post_init__(self) -> None:
        require_range("encoder.dimension", self.dimension, at_least=1)
        require_range("encoder.popularity_term", self.popularity_term, above=-math.inf)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        from ratiorec.encoders.encoder import TableEncoder, initial_table

        table = initial_table(data, self.dimension, self.init, rng=rng, device=device)
        encoder = TableEncoder(table, data.n_users)
        encoder.score_as(self)
        return encoder


@dataclass(frozen=True)
class ItemsOnly:
    """LightGCN without free vectors of users: a user is what the history's items make of it.

    Scores are cosines. New users are exact, since nothing but a history is known of anyone.
    """

    name: ClassVar[str] = "items-only"

    dimension: int = 64
    n_layers: int = 1
    init: DrawnInit = field(default_factory=Normal)

    def __post_init__(self) -> None:
        require_range("encoder.dimension", self.dimension, at_least=1)
        require_range("encoder.n_layers", self.n_layers, at_least=1)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        from ratiorec.encoders.items_only import ItemsOnlyEncoder

        return ItemsOnlyEncoder.of(data, self, rng=rng, device=device)


@dataclass(frozen=True)
class ENMF:
    """Factorisation with a learned weight for each dimension; p_u loses `dropout` in training."""

    name: ClassVar[str] = "enmf"

    dimension: int = 64
    dropout: float = 0.3
    init: TableInit = field(default_factory=lambda: Xavier(1.0))

    def __post_init__(self) -> None:
        require_range("encoder.dimension", self.dimension, at_least=1)
        require_range("encoder.dropout", self.dropout, at_least=0, below=1)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        from ratiorec.encoders.encoder import initial_table
        from ratiorec.encoders.enmf import ENMFEncoder

        table = initial_table(data, self.dimension, self.init, rng=rng, device=device)
        return ENMFEncoder(table, data.n_users, dropout=self.dropout)


@dataclass(frozen=True)
class NGCF:
    """Propagation with learned matrices; `dropout` is the share of a layer dropped in training.

    `init` draws the first vectors; the matrices are Xavier's with a gain of 1. `slope` is that
    of the leaky ReLU below 0.
    """

    name: ClassVar[str] = "ngcf"

    dimension: int = 64
    n_layers: int = 3
    dropout: float = 0.3
    init: TableInit = field(default_factory=lambda: Xavier(1.0))
    slope: float = 0.2

    def __post_init__(self) -> None:
        require_range("encoder.dimension", self.dimension, at_least=1)
        require_range("encoder.n_layers", self.n_layers, at_least=0)
        require_range("encoder.dropout", self.dropout, at_least=0, below=1)
        if not 0 <= self.slope <= 1:
            raise ConfigError(
                "a setting is out of range",
                where="encoder.slope",
                found=str(self.slope),
                wanted="0 to 1",
            )

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        from ratiorec.encoders.ngcf import NGCFEncoder

        return NGCFEncoder.of(data, self, rng=rng, device=device)


@dataclass(frozen=True)
class MultVAE:
    """Mult-VAE; `dropout` is the share of positives hidden from the encoder in training.

    The weight of the divergence grows over the first `anneal_steps` steps to training.l2,
    which is β.
    """

    name: ClassVar[str] = "mult-vae"

    hidden: int = 600
    latent: int = 200
    dropout: float = 0.5
    anneal_steps: int = 5000
    init: DrawnInit = field(default_factory=lambda: Xavier(1.0))

    def __post_init__(self) -> None:
        for name in ("hidden", "latent", "anneal_steps"):
            require_range(f"encoder.{name}", getattr(self, name), at_least=1)
        require_range("encoder.dropout", self.dropout, at_least=0, below=1)

    def __call__(
        self, data: Interactions, *, rng: np.random.Generator, device: torch.device
    ) -> Encoder:
        from ratiorec.encoders.mult_vae import MultVAEEncoder

        return MultVAEEncoder.of(data, self, rng=rng, device=device)


AnyEncoder = LightGCN | Factorisation | ItemsOnly | NGCF | ENMF | MultVAE
