"""From pairs to a trained model: early stopping on held-out pairs, then a refit on all pairs.

The search trains on nine tenths of every user's pairs and asks the rest when to stop; the
refit trains a fresh model on all pairs for as many epochs. Every step is a point at which the
fit can be saved and later continued to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ratiorec.config import to_table
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import VALIDATION_BY, Split, split_for_validation
from ratiorec.errors import (
    ConfigError,
    StoppedError,
    require_range,
    require_whole,
    unknown_choice,
)
from ratiorec.kernels.blocks import deterministic_threads
from ratiorec.machine import Device, available_memory_mb
from ratiorec.model.store import Arrays
from ratiorec.scorers import SCORERS, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import AnySettings, ModelSettings
from ratiorec.solvers.solver import State
from ratiorec.training.checkpoint import AnyCheckpoints, FitState
from ratiorec.training.runs import TrainingRun, require_parts
from ratiorec.training.team import ALONE, Metrics, Team

SELECTED_BY = "ndcg@20"


@dataclass(frozen=True)
class StepTaken:
    """Told after every step, or on a GPU after a burst of steps.

    `risk` is the last step's, where it is known.
    """

    phase: str
    epoch: int
    step: int
    last_step: int
    risk: float | None


@dataclass(frozen=True)
class EpochFinished:
    """Told after every epoch; `record` is the line of the training log."""

    record: dict[str, Any]
    resumed: bool = False


Observer = Callable[[StepTaken | EpochFinished], None]


@dataclass(frozen=True)
class FitOptions:
    """What a run may vary without changing what is learnt from the same pairs.

    `validation` is the share of the pairs that chooses the stopping step; 0 trains for the
    configured epochs. `validation_by` is how they are drawn: "random" (the default) or "last" of
    each user, or all after a moment in "time". A checkpoint is written every `checkpoint_seconds`
    into `checkpoints`, and every epoch as a line of JSON to `log`, where given. A model that would
    need more than `memory_mb` is refused; without it the limit is what the machine has left.
    """

    validation: float = 0.1
    validation_by: str | None = None
    refit: bool = True
    max_seconds: float = math.inf
    checkpoints: AnyCheckpoints | None = None
    checkpoint_seconds: float = 30.0
    resume: bool = False
    log: Path | None = None
    memory_mb: float | None = None

    def __post_init__(self) -> None:
        what = "the validation share is out of range"
        require_range("--validation", self.validation, at_least=0, below=1, what=what)
        if self.validation_by not in (None, *VALIDATION_BY):
            what, where = "unknown way to draw validation pairs", "--validation-by"
            raise unknown_choice(what, self.validation_by, VALIDATION_BY, where=where)
        what = "the time budget is out of range"
        require_range("--max-seconds", self.max_seconds, above=0, finite=False, what=what)
        what = "the time between checkpoints is out of range"
        seconds = self.checkpoint_seconds
        require_range("--checkpoint-seconds", seconds, at_least=0, finite=False, what=what)
        what = "the memory budget is out of range"
        memory_mb = math.inf if self.memory_mb is None else self.memory_mb
        require_range("--memory-mb", memory_mb, above=0, finite=False, what=what)


@dataclass(frozen=True)
class FitResult:
    """A trained model and how it came about; of an automatic choice also what it chose from.

    The model is over the users that the process has worked on, in a team a portion of them.
    `stopped_by` says what ended the search: "no gain" on the validation pairs, the "last step"
    that the settings allow, or the "time budget".
    """

    scorer: StoredScorer
    n_steps: int
    n_epochs: float
    history: list[dict[str, Any]]
    validation: Metrics | None
    n_validation_users: int
    stopped_by: str | None
    seconds: float
    validation_by: str | None = None
    settings: AnySettings | None = None
    members: list[dict[str, Any]] | None = None


class FitSession:
    """One fit in progress."""

    def __init__(
        self,
        data: Interactions,
        settings: ModelSettings,
        options: FitOptions,
        *,
        seed: int,
        device: Device,
        observe: Observer = lambda event: None,
        stop_requested: Callable[[], bool] = lambda: False,
        split: Split | None = None,
        shared: dict[str, Any] | None = None,
        team: Team = ALONE,
    ) -> None:
        require_parts(settings)
        self.team = team
        self.settings = settings
        self.options = options
        self.device = device
        self.observe = observe
        self.stop_requested = stop_requested
        self._shared = {} if shared is None else shared
        require_whole("--seed", seed, at_least=0, what="this is no seed")
        split_seed, *self._run_seeds = np.random.SeedSequence(seed).spawn(3)
        if split is None and options.validation:
            rng, by = np.random.default_rng(split_seed), options.validation_by or "random"
            split = split_for_validation(data, options.validation, rng, by)
        self.identity = {"data": data.sha256, "settings": to_table(settings), "seed": seed}
        self.identity |= {"validation": options.validation, "refit": options.refit}
        if split is not None and options.validation_by not in (None, "random"):
            self.identity["validation_by"] = options.validation_by
            # chosen by times, which `data` lacks; who is judged of the rest is the budget's choice
            self.identity["pairs of the search"] = split.train.sha256
        self._n_judged = 0 if split is None else int((split.held_out.user_degrees > 0).sum())
        self.data = team.portion(data)
        if split is not None:
            train, held_out = team.portion(split.train), team.portion(split.held_out)
            split = Split(train, held_out, split.n_users_kept_whole)
        self.split = split
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] | None = None
        self.best_scorer: StoredScorer | None = None
        self._keeps_best = not options.refit  # what a refit replaces need not be kept
        self._stale = 0  # validations since the best
        self._epoch_risk: float | None = 0.0
        self._seconds_before = 0.0
        self._started = self._saved = time.monotonic()

    def search(self) -> tuple[StoredScorer, FitResult]:
        """The best model of the search, its users with the histories of the search alone."""
        self._keeps_best = True
        with self._threads():
            phase, run = self._begin()
            assert phase == "search"
            self._train(run, phase)
        assert self.best_scorer is not None
        assert self.best is not None
        return self.best_scorer, self._fitted(self.best_scorer, int(self.best["step"]), run)

    def refit(self, n_steps: int) -> FitResult:
        """A fresh model of all pairs, after so many steps."""
        self.best = {"step": n_steps, "metrics": None, "stopped_by": None}
        with self._threads():
            phase, run = self._begin("refit")
            self._train(run, phase)
            return self._fitted(run.scorer(), run.step, run)

    def _threads(self) -> AbstractContextManager[None]:
        # on a GPU the order of additions is not ours to fix
        return deterministic_threads() if self.device.type == "cpu" else nullcontext()

    def __call__(self) -> FitResult:
        with self._threads():
            phase, run = self._begin()
            self._train(run, phase)
            if phase == "search" and self.options.refit:
                del run  # its memory is the refit's to use
                phase, run = "refit", self._start("refit")
                self._train(run, phase)
            if phase == "search":
                assert self.best is not None
                assert self.best_scorer is not None
                best = _stored(self.best_scorer.kind, self.best_scorer.arrays(), self.data)
                return self._fitted(best, int(self.best["step"]), run)
            return self._fitted(run.scorer(), run.step, run)

    def _begin(self, first: str | None = None) -> tuple[str, TrainingRun]:
        """The first phase from its start, or the phase a checkpoint was taken in."""
        checkpoints = self.options.checkpoints
        found = checkpoints.read(self.identity) if checkpoints and self.options.resume else None
        if found is None or (first and found[0].phase != first):
            phase = first or ("train" if self.split is None else "search")
            return phase, self._start(phase)
        progress, state = found
        run = self._start(progress.phase)
        self.best_scorer = self._stored_best(progress, state)
        run.restore(state, progress.position)
        self.history, self.best = progress.history, progress.best
        self._stale, self._epoch_risk = progress.stale, progress.epoch_risk
        self._seconds_before = progress.seconds
        for record in self.history:
            self.observe(EpochFinished(record, resumed=True))
        return progress.phase, run

    def _start(self, phase: str) -> TrainingRun:
        self._epoch_risk = 0.0
        searching = phase == "search"
        data = self.split.train if searching and self.split else self.data
        rng = np.random.default_rng(self._run_seeds[0 if searching else 1])
        memory_mb = self.options.memory_mb or available_memory_mb(str(self.device))
        return self.team.start(
            self.settings,
            data,
            rng=rng,
            device=self.device,
            memory_mb=memory_mb,
            shared=self._shared,
        )

    def _last_step(self, run: TrainingRun, phase: str) -> int:
        if phase == "refit" and self.best is not None:
            return int(run.n_steps * self.best["step"] / self.best.get("epoch", run.n_steps) + 0.5)
        return run.last_step

    def _train(self, run: TrainingRun, phase: str) -> None:
        """Take steps until the last one, until patience is lost or until the time is spent."""
        last_step = self._last_step(run, phase)
        while not self._done(run, phase, last_step):
            for risks in run.one_epoch(last_step):
                self._add(risks)
                self.observe(StepTaken(phase, run.epoch, run.step, last_step, risks[-1]))
                if run.step_in_epoch == 0:
                    self._finish_epoch(run, phase, last_step)
                self._pause(run, phase)
                if self._done(run, phase, last_step):
                    break
        if phase == "search":
            if self.best is None:
                self._require_ready(run)
                self._validate(run)  # the time was spent before the first validation was due
            assert self.best is not None
            self.best["stopped_by"] = self._why_done(run, phase, last_step)

    def _add(self, risks: Sequence[float | None]) -> None:
        """Add to the epoch's risk, which is unknown where one step's is."""
        for risk in risks:
            known = risk is not None and self._epoch_risk is not None
            self._epoch_risk = self._epoch_risk + risk if known else None  # type: ignore[operator]

    def _done(self, run: TrainingRun, phase: str, last_step: int) -> bool:
        return self._why_done(run, phase, last_step) is not None

    def _why_done(self, run: TrainingRun, phase: str, last_step: int) -> str | None:
        """Why no step follows, or None where one does."""
        if phase == "search" and self._out_of_patience(run):
            return "no gain"
        if run.step >= last_step:
            return "last step"
        return "time budget" if self._out_of_time(run, phase) else None

    def _out_of_patience(self, run: TrainingRun) -> bool:
        stopping = self.settings.stopping
        if self.best is None or self._stale < stopping.patience:
            return False
        return run.step >= int(self.best["step"]) * (1 + stopping.extra_patience_fraction)

    def _finish_epoch(self, run: TrainingRun, phase: str, last_step: int) -> None:
        record = {
            "phase": phase,
            "epoch": run.epoch,
            "step": run.step,
            "risk": None if self._epoch_risk is None else self._epoch_risk / run.n_steps,
            "seconds": round(self.seconds, 3),
        }
        self._epoch_risk = 0.0
        interval = self.settings.stopping.validation_interval(run.n_steps)
        due = run.epoch % interval == 0 or run.step >= last_step
        if phase == "search" and due and run.ready:
            record["validation"] = self._validate(run)
        self.history.append(record)
        self.observe(EpochFinished(record))

    def _validate(self, run: TrainingRun) -> Metrics:
        assert self.split is not None
        scorer = run.scorer()
        split, device = self.split, self.device
        metrics = self.team.judge(scorer, split.train, split.held_out, device=device)
        if self.best is None or self._is_better(metrics, self.best["metrics"]):
            self.best = {"step": run.step, "metrics": metrics, "kind": scorer.kind}
            self.best |= {"epoch": run.n_steps}  # of which a refit on all pairs may have more
            self.best_scorer = scorer if self._keeps_best else None
            self._stale = 0
        else:
            self._stale += 1
        return metrics

    def _require_ready(self, run: TrainingRun) -> None:
        if not run.ready:
            raise ConfigError(
                "the time was spent before there was a model to choose",
                where="--max-seconds",
                found=f"{self.options.max_seconds:g}, spent after step {run.step} of a first stage",
                wanted="more time, or a shorter first.training.epochs",
            )

    def _is_better(self, metrics: Metrics, best: Metrics) -> bool:
        least = best[SELECTED_BY] * (1 + self.settings.stopping.min_relative_gain)
        return metrics[SELECTED_BY] > least

    def _out_of_time(self, run: TrainingRun, phase: str) -> bool:
        """Whether the budget is spent; a search leaves as much as its refit will take."""
        if math.isinf(self.options.max_seconds):
            return False
        reserve = 0.0
        if phase == "search" and self.options.refit:
            n_steps = run.step if self.best is None else self.best["step"]
            reserve = self.seconds / max(run.step, 1) * n_steps
        (spent,) = self.team.agreed(self.seconds + reserve >= self.options.max_seconds)
        return run.step > 0 and spent

    @property
    def seconds(self) -> float:
        """Time spent on this fit, earlier runs included."""
        return self._seconds_before + time.monotonic() - self._started

    def _pause(self, run: TrainingRun, phase: str) -> None:
        """The point after a step at which a fit may be saved or stopped."""
        checkpoints = self.options.checkpoints
        due = time.monotonic() - self._saved >= self.options.checkpoint_seconds
        stopping, due = self.team.agreed(self.stop_requested(), due)
        if checkpoints and (due or stopping):
            self._save(checkpoints, run, phase)
        if stopping:
            raise StoppedError(
                "training was stopped",
                where=f"{phase}, step {run.step}",
                found="a request to stop",
                wanted="the same command with --resume goes on from here"
                if checkpoints
                else "a checkpoint folder, to be able to go on",
            )

    def _save(self, checkpoints: AnyCheckpoints, run: TrainingRun, phase: str) -> None:
        arrays, position = run.state()
        if self.best_scorer is not None:
            best = self.best_scorer.arrays()
            arrays |= {f"best.{name}": np.ascontiguousarray(a) for name, a in best.items()}
        progress = FitState(
            self.identity,
            phase,
            position,
            self.history,
            self.best,
            self._epoch_risk,
            self._stale,
            self.seconds,
        )
        checkpoints.write(progress, arrays)
        self._saved = time.monotonic()

    def _stored_best(self, progress: FitState, state: State) -> StoredScorer | None:
        """The best model so far, where the checkpoint holds one; its arrays are taken out."""
        names = [name for name in state if name.startswith("best.")]
        arrays = {name.removeprefix("best."): state.pop(name) for name in names}
        if progress.best is None or not arrays or self.split is None:
            return None
        return _stored(progress.best["kind"], arrays, self.split.train)

    def _fitted(self, scorer: StoredScorer, n_steps: int, run: TrainingRun) -> FitResult:
        return FitResult(
            scorer,
            n_steps=n_steps,
            n_epochs=n_steps / run.n_steps,
            history=self.history,
            validation=None if self.best is None else self.best["metrics"],
            n_validation_users=self._n_judged,
            stopped_by=None if self.best is None else self.best["stopped_by"],
            seconds=self.seconds,
            validation_by=(self.options.validation_by or "random") if self.split else None,
        )


def _stored(kind: str, arrays: Arrays, histories: Interactions) -> StoredScorer:
    """A model again, for users who have these pairs for a history."""
    return SCORERS[kind].from_arrays(arrays, UserItems.of(histories))
