"""The user-wise risk of a whole family of models, as pulls on single scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.fold_in.pointwise import Curvature, Pull, Ratio, pull
from ratiorec.fold_in.sums import group_sums


@dataclass(frozen=True)
class Family:
    """What decides the risk of a user: w⁻ = c_i r̂^γ, w⁺ = r̂^−γ, f″ and the link (theory: R2, W5).

    γ is the `weight_power`. Without `self_normalised` the means are plain (theory: R7, R8), and
    with `gain_by_prior` the prior multiplies the gain of a positive (theory: R10).
    """

    link: Callable[[NDArray[Any]], Ratio]
    curvature: Curvature
    weight_power: int
    self_normalised: bool = True
    gain_by_prior: bool = False

    def unlabelled(self, scores: NDArray[np.float32], weights: NDArray[np.float32]) -> Pull:
        """Of Ê[w⁻ℓ±] on every score [n, m], where `weights` are all of w⁻ but r̂^γ (theory: R4)."""
        ratio = self.link(scores)
        pulled = pull(ratio, self.curvature, self.weight_power + 1)
        if self.self_normalised and self.weight_power:
            scale = weights / (weights * ratio.value).sum(1, keepdims=True)
        else:
            scale = weights / weights.sum()
        return Pull(pulled.strength * scale, pulled.change * scale)

    def positive(
        self,
        scores: NDArray[np.float64],
        weights: NDArray[np.float64],
        rows: NDArray[np.int64],
        prior: NDArray[np.float64],
    ) -> Pull:
        """Of Ê₊[π_u(w⁺ − w⁻)ℓ± + w⁺ℓ₊] on every positive's score; `weights` are c_i.

        The change is that of the gain alone: what the prior multiplies hardly counts.
        """
        ratio, power = self.link(scores), self.weight_power
        gain = pull(ratio, self.curvature, -power)
        as_positive = pull(ratio, self.curvature, 1 - power).strength
        as_unlabelled = weights * pull(ratio, self.curvature, 1 + power).strength
        sums = [np.ones_like(ratio.value)] * 2
        if self.self_normalised:
            sums = [ratio.value ** float(-power), weights * ratio.value ** float(power)]
        of_positive, of_unlabelled = (
            np.maximum(group_sums(each, rows, len(prior)), np.finfo(np.float32).tiny)[rows]
            for each in sums
        )
        share = prior[rows]
        factor = share if self.gain_by_prior else np.ones_like(share)
        strength = (share * as_positive - factor * gain.strength) / of_positive
        strength -= share * as_unlabelled / of_unlabelled
        return Pull(strength, -factor * gain.change / of_positive)
