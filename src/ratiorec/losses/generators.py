"""Generators of Bregman divergences that have settings; all others are names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ratiorec.errors import require_range

if TYPE_CHECKING:
    from ratiorec.kernels.pointwise import Generator


@dataclass(frozen=True)
class PowerDivergence:
    """f″(t) = t^(b−1): Kullback–Leibler for b = 0, least squares for b = 1 (theory: B6)."""

    name: ClassVar[str] = "power"

    exponent: float = 0.5

    def __post_init__(self) -> None:
        require_range("risk.generator.exponent", self.exponent, at_least=0)

    def __call__(self) -> Generator:
        from ratiorec.kernels.pointwise import power_divergence

        return power_divergence(self.exponent)


@dataclass(frozen=True)
class RelativeRatio(PowerDivergence):
    """p₊/(αp₊ + (1 − α)p) ≤ 1/α in place of p₊/p; RuLSIF for b = 1 (theory: B7)."""

    name: ClassVar[str] = "relative"

    exponent: float = 1.0
    mixing: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("risk.generator.mixing", self.mixing, at_least=0, below=1)
