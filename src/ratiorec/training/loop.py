"""The training loop: everything that changes while a model is trained, step by step.

Who watches, validates, saves or stops is the caller's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

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
    same batches again and skips those it has seen. `total` makes a step's loss of the part of it
    that this process has computed.
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
        total: Callable[[Tensor], Tensor] = lambda part: part,
    ) -> None:
        self.encoder = encoder
        self.loss = loss
        self.epochs = epochs
        self.n_steps = epochs.n_steps  # in an epoch
        self.settings = settings
        self.device = device
        self.epoch = self.step = self.step_in_epoch = 0
        self._histories = histories
        self._total = total
        self._rng = rng
        self._epoch_start = rng.bit_generator.state
        # a child's draws leave the batches of the parent as they are
        self._noise_seed = int(rng.spawn(1)[0].integers(2**62))
        on_gpu = device.type == "cuda"
        self.encoder.noise = torch.Generator(device).manual_seed(self._noise_seed)
        self._optimizer = Adam(encoder.parameters(), device)
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
        epochs: Epochs = settings.batches(data, device=device)
        if device.type == "cuda" and settings.risk.supports_cuda_graph:
            epochs = StaticEpochs(epochs, device) if isinstance(epochs, UserEpochs) else epochs
        return cls(
            settings.encoder(data, rng=rng, device=device),
            settings.risk,
            epochs,
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
            rate = self.settings.learning_rate * self.settings.lr_schedule(self.step)
            self._optimizer.rate.fill_(rate)
            risks.append(self._take_step(dealt.to(self.device)))
            self._move_on()
            if len(risks) == self._burst or self.step_in_epoch == 0 or self.step >= until:
                yield self._finite(risks)
                risks = []
            if self.step >= until:
                return

    def _move_on(self) -> None:
        """Count a step; after an epoch's last one the run stands at the start of the next."""
        self.step += 1
        self.step_in_epoch += 1
        if self.step_in_epoch == self.n_steps:
            self.epoch += 1
            self.step_in_epoch = 0
            self._epoch_start = self._rng.bit_generator.state

    def _eager_step(self, dealt: Any) -> Tensor:
        batch = self.epochs.complete(dealt)
        risk = self.loss(self.encoder(batch), batch)
        if risk.ndim:
            raise ConfigError(
                "a loss is not a number",
                where=f"risk {self.loss.name}",
                found=f"a tensor of shape {tuple(risk.shape)}",
                wanted="a scalar, for example the mean over the batch",
            )
        self._optimizer.step(risk + self.settings.l2 * self.encoder.penalty(batch))
        return self._total(risk.detach())

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
        position: dict[str, Any] = {"epoch": self.epoch, "step_in_epoch": self.step_in_epoch}
        position["epoch_start"] = self._epoch_start
        return {k: v.cpu().numpy().copy() for k, v in self._tensors().items()}, position

    def _tensors(self) -> dict[str, Tensor]:
        learnt = {f"parameter.{k}": v.detach() for k, v in self.encoder.state_dict().items()}
        return learnt | dict(self._optimizer.state())

    def restore(self, arrays: State, position: dict[str, Any]) -> None:
        """Continue where `state` was taken."""
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.from_numpy(arrays[name]))
        self.epoch = position["epoch"]
        self.step_in_epoch = position["step_in_epoch"]
        self.step = self.epoch * self.n_steps + self.step_in_epoch
        self._epoch_start = position["epoch_start"]


_ADAM: Any = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False, "maximize": False}


class Adam:
    """Adam as torch computes it, with a rate that a recorded step can be told anew.

    Building one of `torch.optim` imports torch's compiler: seconds of every fit, for nothing.
    """

    def __init__(self, parameters: Iterable[Tensor], device: torch.device) -> None:
        self.parameters = list(parameters)
        exact = (
            torch.float32 if device.type == "cuda" else torch.float64
        )  # all that its kernel takes
        self.rate = torch.zeros((), dtype=exact, device=device)
        self.steps = [torch.zeros((), device=device) for _ in self.parameters]
        self.means = [torch.zeros_like(one) for one in self.parameters]
        self.squares = [torch.zeros_like(one) for one in self.parameters]

    def state(self) -> Iterator[tuple[str, Tensor]]:
        """All that it remembers, by the names of a checkpoint."""
        for place, slots in enumerate(zip(self.steps, self.means, self.squares, strict=True)):
            for name, slot in zip(("step", "exp_avg", "exp_avg_sq"), slots, strict=True):
                yield f"optimizer.{place}.{name}", slot

    def step(self, risk: Tensor) -> None:
        """One step down from `risk`."""
        gradients = list(torch.autograd.grad(risk, self.parameters, materialize_grads=True))
        options = _ADAM | {"fused": True, "capturable": self.rate.is_cuda, "weight_decay": 0.0}
        slots: Any = (self.means, self.squares, [], self.steps)
        with torch.no_grad():
            adam(self.parameters, gradients, *slots, lr=self.rate, **options)
