"""Training in two stages: a second model weighted by what the first has learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import TableEncoder
from ratiorec.losses import Loss
from ratiorec.losses.density_ratio import DensityRatio, FrozenWeights
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.scorers import StoredScorer
from ratiorec.settings import TwoStageSettings
from ratiorec.shapes import Embeddings
from ratiorec.solvers.solver import State
from ratiorec.training.loop import GradientTraining


class TwoStageTraining:
    """A first descent to its end, then the one that `begin_second` makes of its embeddings.

    Steps and epochs are counted through; both stages have equally many steps in an epoch.
    """

    def __init__(
        self,
        first: GradientTraining,
        begin_second: Callable[[Embeddings], GradientTraining],
        *,
        second_epochs: int,
    ) -> None:
        self.n_steps = first.n_steps
        self.last_step = first.last_step + second_epochs * first.n_steps
        self._n_first = first.settings.epochs
        self._begin_second = begin_second
        self._descent = first
        self._frozen: Embeddings | None = None

    @classmethod
    def start(
        cls,
        data: Interactions,
        settings: TwoStageSettings,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> TwoStageTraining:
        """Both stages at their beginning."""
        rng_of_first, rng_of_second = rng.spawn(2)
        second = settings.second
        first = GradientTraining.start(data, settings.first, rng=rng_of_first, device=device)

        def begin_second(frozen: Embeddings) -> GradientTraining:
            weighted = replace(second, risk=_with_frozen_weights(second.risk, frozen))
            begun = GradientTraining.start(data, weighted, rng=rng_of_second, device=device)
            if settings.second_starts_from_first:
                begun.encoder.load_state_dict(first.encoder.state_dict())
            return begun

        return cls(
            first,
            begin_second,
            second_epochs=second.training.epochs,
        )

    @property
    def ready(self) -> bool:
        """Only the second model is ever chosen."""
        return self._frozen is not None

    @property
    def epoch(self) -> int:
        """Finished epochs of both stages."""
        return self._descent.epoch + (self._n_first if self.ready else 0)

    @property
    def step_in_epoch(self) -> int:
        """Steps since the last finished epoch."""
        return self._descent.step_in_epoch

    @property
    def step(self) -> int:
        """Steps taken in both stages."""
        return self.epoch * self.n_steps + self.step_in_epoch

    def one_epoch(self, until: int) -> Iterator[list[float]]:
        """Steps of whichever stage is due."""
        if not self.ready and self._descent.epoch == self._n_first:
            self._freeze(_embeddings(self._descent))
        n_before = self.step - self._descent.step
        yield from self._descent.one_epoch(until - n_before)

    def _freeze(self, embeddings: Embeddings) -> None:
        self._frozen = embeddings
        self._descent = self._begin_second(embeddings)

    def scorer(self) -> StoredScorer:
        """The model of the current stage."""
        return self._descent.scorer()

    def state(self) -> tuple[State, dict[str, Any]]:
        """The state of the current stage, and in the second one what the first has left."""
        arrays, position = self._descent.state()
        if self._frozen is not None:
            arrays["first.users"] = self._frozen.users.cpu().numpy().copy()
            arrays["first.items"] = self._frozen.items.cpu().numpy().copy()
        return arrays, position

    def restore(self, arrays: State, position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        if "first.users" in arrays:
            parts = (torch.from_numpy(arrays[name]) for name in ("first.users", "first.items"))
            self._freeze(Embeddings(*(part.to(self._descent.device) for part in parts)))
        self._descent.restore(arrays, position)


@torch.no_grad()
def _embeddings(descent: GradientTraining) -> Embeddings:
    descent.scorer()  # refuses a model that is not finite
    assert isinstance(descent.encoder, TableEncoder)
    users, items = descent.encoder.embeddings()
    return Embeddings(users.clone(), items.clone())


def _with_frozen_weights(loss: Loss, first: Embeddings) -> Loss:
    assert isinstance(loss, DensityRatio | WeightedDRE | WeightedPU)
    frozen: Any = FrozenWeights(first, loss.link)  # made by training, never by settings
    return replace(loss, weights=frozen)
