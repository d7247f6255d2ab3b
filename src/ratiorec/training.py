"""Descent by gradients: everything that changes while a model is trained, step by step.

Who watches, validates, saves or stops is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ratiorec.capture import Captured
from ratiorec.data.batches import AnyEpochs, Epochs
from ratiorec.data.interactions import Interactions
from ratiorec.data.static_batches import StaticEpochs
from ratiorec.encoders.encoder import Encoder
from ratiorec.errors import ConfigError, DivergenceError, ModelError
from ratiorec.schedules import Constant, Schedule
from ratiorec.scorers import StoredScorer
from ratiorec.scores import Embeddings
from ratiorec.seen import SeenItems

Risk = Callable[[Embeddings, Any], Tensor]
# a graphics card is asked for its risks now and then only: each question waits for its answer
STEPS_PER_BURST = 50


@dataclass(frozen=True)
class Training:
    """How to descend, for how long, and when to stop.

    The rate of a step is `learning_rate` times what the `schedule` says, and `penalty` is λ
    (theory: R6). `epochs` is the most that will be run; without validation data it is exactly what
    will be run. Validation happens every `validate_every` epochs, but no sooner than
    `steps_between` steps after the last: few users make short epochs, and a plateau of a few steps
    must not look like the end. Training stops after `patience` of them in a row without a better
    nDCG@20, and no sooner than `tail` times the best one's steps after it: a slow curve rests
    longer. Better means by a share of at least `min_gain`, since smaller differences are noise.
    """

    learning_rate: float = 0.01
    penalty: float = 0.045
    epochs: int = 1000
    validate_every: int = 5
    steps_between: int = 50
    patience: int = 4
    min_gain: float = 0.001
    tail: float = 0.0
    schedule: Schedule = field(default_factory=Constant)

    def __post_init__(self) -> None:
        for name, least in (
            ("learning_rate", math.ulp(0.0)),
            ("penalty", 0),
            ("epochs", 1),
            ("validate_every", 1),
            ("steps_between", 1),
            ("patience", 1),
            ("min_gain", 0),
            ("tail", 0),
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


class Descent:
    """One model in training: parameters, optimiser, random state and position.

    `epoch` counts finished epochs and `step_in_epoch` the steps since; the random state is
    the one at the start of the current epoch, so a run restored in mid-epoch deals the same
    batches again and skips those it has seen.
    """

    def __init__(
        self,
        encoder: Encoder,
        risk: Risk,
        epochs: AnyEpochs,
        settings: Training,
        *,
        histories: SeenItems,
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
        self._histories = histories
        self._rng = rng
        self._epoch_start = rng.bit_generator.state
        # a child's draws leave the batches of the parent as they are
        self._noise_seed = int(rng.spawn(1)[0].integers(2**62))
        on_card = device.type == "cuda"
        self.encoder.noise = torch.Generator(device).manual_seed(self._noise_seed)
        # on a card a number that a recorded step can be told anew
        self._rate = settings.learning_rate
        rate_of_steps = torch.tensor(self._rate, device=device) if on_card else self._rate
        self._optimiser = torch.optim.Adam(
            encoder.parameters(), lr=rate_of_steps, fused=True, capturable=on_card
        )
        self._burst = STEPS_PER_BURST if on_card else 1
        self._take_step: Callable[[Any], Tensor] = self._eager_step
        if on_card and epochs.same_shape:
            self._take_step = Captured(self._eager_step, noise=self.encoder.noise)

    @classmethod
    def start(
        cls,
        data: Interactions,
        encoder: Callable[..., Encoder],
        risk: Risk,
        batches: Callable[..., AnyEpochs],
        settings: Training,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> Descent:
        """A run at its beginning; everything random in it comes from `rng`."""
        return cls(
            encoder(data, rng=rng, device=device),
            risk,
            _dealt(batches(data, device=device), risk, device),
            settings,
            histories=SeenItems.of(data),
            rng=rng,
            device=device,
        )

    ready = True
    """A descent may be judged at any time."""

    @property
    def n_steps(self) -> int:
        """Steps in an epoch."""
        return self.epochs.n_steps

    @property
    def last_step(self) -> int:
        """Where it ends if nothing stops it earlier."""
        return self.settings.epochs * self.n_steps

    @property
    def step(self) -> int:
        """Steps taken since the beginning."""
        return self.epoch * self.n_steps + self.step_in_epoch

    def one_epoch(self, until: int) -> Iterator[list[float]]:
        """Take the rest of the current epoch's steps, but none after step `until`.

        Gives the risks of one step or, on a graphics card, of a burst of them.
        """
        self._rng.bit_generator.state = self._epoch_start
        taken_before = self.step_in_epoch
        risks: list[Tensor] = []
        for position, dealt in enumerate(self.epochs(self._rng)):
            if position < taken_before:
                continue
            if self.device.type == "cpu":  # a card's noise goes on from step to step by itself
                assert self.encoder.noise is not None
                self.encoder.noise.manual_seed(self._noise_seed + self.step)
            self._set_rate(self.settings.learning_rate * self.settings.schedule(self.step))
            risks.append(self._take_step(dealt.to(self.device)))
            self._move_on()
            if len(risks) == self._burst or self.step_in_epoch == 0 or self.step >= until:
                yield self._finite(risks)
                risks = []
            if self.step >= until:
                return

    def _set_rate(self, rate: float) -> None:
        if rate == self._rate:
            return
        self._rate = rate
        for group in self._optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _move_on(self) -> None:
        """Count a step; after an epoch's last one the run stands at the start of the next."""
        self.step_in_epoch += 1
        if self.step_in_epoch == self.n_steps:
            self.epoch += 1
            self.step_in_epoch = 0
            self._epoch_start = self._rng.bit_generator.state

    def _eager_step(self, dealt: Any) -> Tensor:
        self._optimiser.zero_grad()
        batch = self.epochs.complete(dealt)
        risk = self.risk(self.encoder(batch), batch)
        (risk + self.settings.penalty * self.encoder.penalty(batch)).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        return risk.detach()

    def _finite(self, risks: Sequence[Tensor]) -> list[float]:
        values: list[float] = torch.stack(list(risks)).tolist()
        for place, value in enumerate(values):
            if not math.isfinite(value):
                step = self.step - len(values) + 1 + place
                raise DivergenceError(
                    "training diverged",
                    where=f"step {step} (epoch {(step - 1) // self.n_steps + 1})",
                    found=f"a risk of {value}",
                    wanted="a finite risk; a lower training.learning_rate usually helps",
                )
        return values

    def scorer(self) -> StoredScorer:
        """The model as it stands, refused where it is not finite."""
        try:
            return self.encoder.scorer(self._histories)
        except ModelError as error:
            raise DivergenceError(
                "training diverged",
                where=f"the model after step {self.step}",
                found=f"numbers that are not finite ({error.found})",
                wanted="a finite model; a lower training.learning_rate usually helps",
            ) from error

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


def _dealt(epochs: AnyEpochs, risk: Risk, device: torch.device) -> AnyEpochs:
    """On a graphics card, batches of one size wherever the risk leaves spare places out."""
    if device.type != "cuda" or not getattr(risk, "leaves_spare_places_out", False):
        return epochs
    return StaticEpochs(epochs, device) if isinstance(epochs, Epochs) else epochs
