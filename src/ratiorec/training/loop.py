"""The training loop: everything that changes while a model is trained, step by step.

Who watches, validates, saves or stops is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ratiorec.batches.static import StaticEpochs
from ratiorec.batches.users import Epochs, UserEpochs
from ratiorec.data.interactions import Interactions
from ratiorec.encoders.encoder import Encoder
from ratiorec.errors import ConfigError, DivergenceError, ModelError
from ratiorec.kernels.cuda_graph import CudaGraphStep
from ratiorec.losses import Loss
from ratiorec.scorers import StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import Settings, Training
from ratiorec.solvers.solver import State

# a GPU is asked for its losses now and then only: each question waits for its answer
STEPS_PER_BURST = 50


class GradientTraining:
    """One model in training: parameters, optimiser, random state and position.

    `epoch` counts finished epochs, `step` all steps and `step_in_epoch` those since; the random
    state is the one at the start of the current epoch, so a run restored in mid-epoch deals the
    same batches again and skips those it has seen.
    """

    def __init__(
        self,
        encoder: Encoder,
        loss: Loss,
        epochs: Epochs,
        settings: Training,
        *,
        histories: UserItems,
        rng: np.random.Generator,
        device: torch.device,
    ) -> None:
        self.encoder = encoder
        self.loss = loss
        self.epochs = epochs
        self.n_steps = epochs.n_steps  # in an epoch
        self.settings = settings
        self.device = device
        self.epoch = self.step = self.step_in_epoch = 0
        self._histories = histories
        self._rng = rng
        self._epoch_start = rng.bit_generator.state
        # a child's draws leave the batches of the parent as they are
        self._noise_seed = int(rng.spawn(1)[0].integers(2**62))
        on_gpu = device.type == "cuda"
        self.encoder.noise = torch.Generator(device).manual_seed(self._noise_seed)
        # on a GPU a number that a recorded step can be told anew
        self._rate = settings.learning_rate
        rate_of_steps = torch.tensor(self._rate, device=device) if on_gpu else self._rate
        self._optimizer = torch.optim.Adam(
            encoder.parameters(), lr=rate_of_steps, fused=True, capturable=on_gpu
        )
        self._burst = STEPS_PER_BURST if on_gpu else 1
        self._take_step: Callable[[Any], Tensor] = self._eager_step
        if on_gpu and epochs.same_shape and loss.supports_cuda_graph:
            self._take_step = CudaGraphStep(self._eager_step, noise=self.encoder.noise)

    @classmethod
    def start(
        cls,
        data: Interactions,
        settings: Settings,
        *,
        rng: np.random.Generator,
        device: torch.device,
    ) -> GradientTraining:
        """A run at its beginning; everything random in it comes from `rng`."""
        return cls(
            settings.encoder(data, rng=rng, device=device),
            settings.risk,
            _of_one_size(settings.batches(data, device=device), settings.risk, device),
            settings.training,
            histories=UserItems.of(data),
            rng=rng,
            device=device,
        )

    ready = True
    """A descent may be judged at any time."""

    @property
    def last_step(self) -> int:
        """Where it ends if nothing stops it earlier."""
        return self.settings.epochs * self.n_steps

    def one_epoch(self, until: int) -> Iterator[list[float]]:
        """Take the rest of the current epoch's steps, but none after step `until`.

        Gives the risks of one step or, on a GPU, of a burst of them.
        """
        self._rng.bit_generator.state = self._epoch_start
        taken_before = self.step_in_epoch
        risks: list[Tensor] = []
        for position, dealt in enumerate(self.epochs(self._rng)):
            if position < taken_before:
                continue
            if self.device.type == "cpu":  # a GPU's noise goes on from step to step by itself
                assert self.encoder.noise is not None
                self.encoder.noise.manual_seed(self._noise_seed + self.step)
            self._set_rate(self.settings.learning_rate * self.settings.lr_schedule(self.step))
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
        for group in self._optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _move_on(self) -> None:
        """Count a step; after an epoch's last one the run stands at the start of the next."""
        self.step += 1
        self.step_in_epoch += 1
        if self.step_in_epoch == self.n_steps:
            self.epoch += 1
            self.step_in_epoch = 0
            self._epoch_start = self._rng.bit_generator.state

    def _eager_step(self, dealt: Any) -> Tensor:
        self._optimizer.zero_grad()
        batch = self.epochs.complete(dealt)
        risk = self.loss(self.encoder(batch), batch)
        if risk.ndim:
            raise ConfigError(
                "a loss is not a number",
                where=f"risk {self.loss.name}",
                found=f"a tensor of shape {tuple(risk.shape)}",
                wanted="a scalar, for example the mean over the batch",
            )
        (risk + self.settings.l2 * self.encoder.penalty(batch)).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
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

    def state(self) -> tuple[State, dict[str, Any]]:
        """A copy of all that is needed to go on: arrays, and what fits into JSON."""
        tensors = {f"parameter.{k}": v.detach() for k, v in self.encoder.state_dict().items()}
        for index, slots in self._optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{k}": v for k, v in slots.items()}
        position = {
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "epoch_start": self._epoch_start,
        }
        return {k: v.cpu().numpy().copy() for k, v in tensors.items()}, position

    def restore(self, arrays: State, position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        prefix = "parameter."
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self.encoder.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("optimizer."):
                _, index, name = key.split(".")
                slots.setdefault(int(index), {})[name] = value.clone()  # torch would keep it
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": slots, "param_groups": groups})
        self.epoch = position["epoch"]
        self.step_in_epoch = position["step_in_epoch"]
        self.step = self.epoch * self.n_steps + self.step_in_epoch
        self._epoch_start = position["epoch_start"]


def _of_one_size(epochs: Epochs, loss: Loss, device: torch.device) -> Epochs:
    """On a GPU, batches of one size wherever the loss can be replayed."""
    if device.type != "cuda" or not loss.supports_cuda_graph:
        return epochs
    return StaticEpochs(epochs, device) if isinstance(epochs, UserEpochs) else epochs
