"""The only training loop.

A `Run` owns everything that changes while a model is trained; iterating over its steps
advances it. Who watches, validates, saves or stops is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ratiorec.data.batches import Batch, Epochs, UserBatches
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.factorisation import Encoder
from ratiorec.errors import ConfigError, DivergenceError
from ratiorec.risk.density_ratio import half_squared_norms
from ratiorec.scores import Embeddings

Risk = Callable[[Embeddings, Batch], Tensor]


@dataclass(frozen=True)
class Training:
    """How to descend, for how long, and when to stop.

    `epochs` is the most that will be run; without validation data it is exactly what will
    be run. `penalty` is λ (theory: R6). Validation happens every `validate_every` epochs, but
    no sooner than `steps_between` steps after the last: few users make short epochs, and a
    plateau of a few steps must not look like the end. Training stops after `patience` of them
    in a row without a better nDCG@20; better means by a share of at least `min_gain`, since
    smaller differences are noise.
    """

    learning_rate: float = 0.01
    penalty: float = 0.045
    epochs: int = 1000
    validate_every: int = 5
    steps_between: int = 50
    patience: int = 4
    min_gain: float = 0.001

    def __post_init__(self) -> None:
        for name, least in (
            ("learning_rate", math.ulp(0.0)),
            ("penalty", 0),
            ("epochs", 1),
            ("validate_every", 1),
            ("steps_between", 1),
            ("patience", 1),
            ("min_gain", 0),
        ):
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise ConfigError(
                    "a training setting is out of range",
                    where=f"training.{name}",
                    found=str(value),
                    wanted="a finite number above 0" if 0 < least < 1 else f"{least} or more",
                )

    def validation_interval(self, steps_per_epoch: int) -> int:
        """Epochs from one validation to the next."""
        return max(self.validate_every, -(-self.steps_between // steps_per_epoch))


class Run:
    """One model in training: parameters, optimiser, random state and position.

    `epoch` counts finished epochs and `step_in_epoch` the steps since; the random state is
    the one at the start of the current epoch, so a run restored in mid-epoch deals the same
    batches again and skips those it has seen.
    """

    def __init__(
        self,
        encoder: Encoder,
        risk: Risk,
        epochs: Epochs,
        settings: Training,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self.encoder = encoder
        self.risk = risk
        self.epochs = epochs
        self.settings = settings
        self.device = device
        self.epoch = 0
        self.step_in_epoch = 0
        self._rng = rng
        self._epoch_start = rng.bit_generator.state
        self._optimiser = torch.optim.Adam(
            encoder.parameters(), lr=settings.learning_rate, fused=True
        )

    @classmethod
    def start(
        cls,
        data: Interactions,
        encoder: Callable[..., Encoder],
        risk: Risk,
        batches: UserBatches,
        settings: Training,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> Run:
        """A run at its beginning; everything random in it comes from `rng`."""
        built = encoder(data, rng=rng, device=device)
        return cls(built, risk, batches(data), settings, rng=rng, device=device)

    @property
    def step(self) -> int:
        """Steps taken since the beginning."""
        return self.epoch * self.epochs.n_steps + self.step_in_epoch

    def one_epoch(self) -> Iterator[float]:
        """Take the rest of the current epoch's steps, giving the risk of each."""
        self._rng.bit_generator.state = self._epoch_start
        taken_before = self.step_in_epoch
        for position, batch in enumerate(self.epochs(self._rng)):
            if position < taken_before:
                continue
            value = self._take_step(batch.to(self.device))
            self._move_on()
            yield value

    def _move_on(self) -> None:
        """Count a step; after an epoch's last one the run stands at the start of the next."""
        self.step_in_epoch += 1
        if self.step_in_epoch == self.epochs.n_steps:
            self.epoch += 1
            self.step_in_epoch = 0
            self._epoch_start = self._rng.bit_generator.state

    def _take_step(self, batch: Batch) -> float:
        self._optimiser.zero_grad()
        risk = self.risk(self.encoder(), batch)
        penalty = self.settings.penalty * half_squared_norms(self.encoder.base, batch)
        (risk + penalty).backward()  # type: ignore[no-untyped-call]
        value = float(risk.detach())
        if not math.isfinite(value):
            raise DivergenceError(
                "training diverged",
                where=f"step {self.step + 1} (epoch {self.epoch + 1})",
                found=f"a risk of {value}",
                wanted="a finite risk; a lower training.learning_rate usually helps",
            )
        self._optimiser.step()
        return value

    @torch.no_grad()
    def embeddings(self) -> Embeddings:
        """The model as it stands, checked to be finite."""
        # copies: the vectors of a factorisation are views of what training goes on to change
        users, items = (table.cpu().clone() for table in self.encoder())
        if not (users.isfinite().all() and items.isfinite().all()):
            raise DivergenceError(
                "training diverged",
                where=f"the embeddings after step {self.step}",
                found="numbers that are not finite",
                wanted="finite embeddings; a lower training.learning_rate usually helps",
            )
        return Embeddings(users, items)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """A copy of all that is needed to go on: tensors, and what fits into JSON."""
        tensors = {f"parameter.{k}": v.detach() for k, v in self.encoder.state_dict().items()}
        for index, slots in self._optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{k}": v for k, v in slots.items()}
        position = {
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "epoch_start": self._epoch_start,
        }
        return {k: v.cpu().clone() for k, v in tensors.items()}, position

    def restore(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        prefix = "parameter."
        self.encoder.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("optimiser."):
                _, index, name = key.split(".")
                slots.setdefault(int(index), {})[name] = value.clone()  # torch would keep it
        groups = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict({"state": slots, "param_groups": groups})
        self.epoch = position["epoch"]
        self.step_in_epoch = position["step_in_epoch"]
        self._epoch_start = position["epoch_start"]
