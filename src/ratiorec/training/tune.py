"""Search for the settings of presets that rank held-out pairs best, in a time budget.

Every preset has a study of Optuna's (the extra `tune`), all of them in one SQLite file. A trial is
the search of a `fit` with the same seed, and a winner has the figure that `fit` will print, but for
the users who judge, of whom here are fewer. The sampler is seeded anew for every trial: a search
that was stopped and goes on finds what it would have found in one go.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ratiorec.config import Table, model_preset, resolve, to_table
from ratiorec.data.describe import order_evidence
from ratiorec.data.interactions import Interactions, require_trainable
from ratiorec.data.split import split_for_validation
from ratiorec.errors import (
    CheckpointError,
    ConfigError,
    RatiorecError,
    StoppedError,
    StorageError,
    require_extra,
)
from ratiorec.machine import Device, release_memory
from ratiorec.settings import ModelSettings, SolverSettings
from ratiorec.training.fit import (
    SELECTED_BY,
    EpochFinished,
    FitOptions,
    FitResult,
    FitSession,
    Observer,
    StepTaken,
)
from ratiorec.training.portfolio import solver_seconds
from ratiorec.training.search_space import difference, flat, nested, search_space
from ratiorec.training.team import Metrics

if TYPE_CHECKING:
    import optuna

_N_RANDOM = 6  # trials of a preset before the sampler learns from them
_N_UNPRUNED = 5  # trials to the end before others are compared with them
_N_IN_TURN = 3  # presets that go on after all were tried as they are
_N_FAILURES = 3  # after which a preset that has not run once is given up
_FEWEST_TO_WEIGH = 4  # figures that differ, to say which settings matter
_MOST_JUDGED = 10_000  # users: enough to tell trials apart, and more trials are worth more
_N_DIGITS = 3  # of what is tried: more would not be read, and change nothing


@dataclass(frozen=True)
class Trial:
    """One try: its searched settings by path, and what came of it.

    It is "done", "pruned" where others were better after as many epochs, or "failed"; `why` says
    what it failed from, or that the time budget ended it.
    """

    preset: str
    state: str
    settings: dict[str, Any]
    validation: Metrics | None = None
    seconds: float = 0.0
    epochs: float = 0.0
    why: str | None = None

    @property
    def score(self) -> float:
        """What trials are ranked by."""
        return self.validation[SELECTED_BY] if self.validation else -math.inf


@dataclass(frozen=True)
class Tuning:
    """All trials of a search, those of earlier runs included, in the order they were made.

    `importance` has for every preset the share of each setting in the differences between trials;
    `left_out` says why a preset was not tried.
    """

    starts: Mapping[str, ModelSettings]
    trials: list[Trial]
    importance: dict[str, dict[str, float]]
    left_out: dict[str, str]
    validation_by: str
    n_validation_users: int
    seconds: float

    @property
    def ranked(self) -> list[Trial]:
        """The trials that came to their end, the best first."""
        done = [trial for trial in self.trials if trial.state == "done"]
        return sorted(done, key=lambda trial: -trial.score)

    def start(self, preset: str) -> Trial:
        """The trial of a preset as it is."""
        return next(trial for trial in self.trials if trial.preset == preset)

    def changes(self, trial: Trial) -> dict[str, Any]:
        """The settings of a trial that differ from where the search began."""
        own = flat(to_table(self.starts[trial.preset]))
        return {path: value for path, value in trial.settings.items() if value != own[path]}

    @property
    def config(self) -> Table:
        """What `fit --config` takes: the best preset, and what differs from it."""
        best = self.ranked[0]
        settings = resolve(self.starts[best.preset], nested(best.settings))
        changed = difference(to_table(model_preset(best.preset)), to_table(settings))
        return {"preset": best.preset, **changed}


@dataclass
class TuneSession:
    """One search in progress.

    It ends after `n_trials`, those of earlier runs included, or when the `options.max_seconds` of
    this run are spent; `options.validation` and `validation_by` say what trials are judged on.
    """

    data: Interactions
    starts: Mapping[str, ModelSettings]
    options: FitOptions
    study: Path
    seed: int
    device: Device
    fixed: Collection[str] = ()
    n_trials: int | None = None
    observe: Observer = lambda event: None
    told: Callable[[Trial], None] = lambda trial: None
    stop_requested: Callable[[], bool] = lambda: False
    trials: list[Trial] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_extra("optuna", "tune", where="ratiorec tune")
        require_trainable(self.data)
        if not self.options.validation:
            what, wanted = "there is nothing to choose settings by", "a share such as 0.1"
            raise ConfigError(what, where="--validation", found="0", wanted=wanted)
        self._started = time.monotonic()
        self._judging = 0.0  # the longest that a validation took
        on_gpu = self.device.type == "cuda"
        self._spaces = {
            name: search_space(start, fixed=self.fixed, on_gpu=on_gpu)
            for name, start in self.starts.items()
        }
        self.options = replace(self.options, validation_by=self.validation_by, refit=False)
        # the pairs that a fit with this seed would hold out
        rng = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(3)[0])
        self._split = split_for_validation(
            self.data, self.options.validation, rng, self.validation_by, most_users=_MOST_JUDGED
        )

    def __call__(self) -> Tuning:
        with _opened(self.study) as storage:
            studies = self._studies(storage)
            self._remember(studies)
            while not self.stop_requested() and (name := self._next()) is not None:
                self._try(name, studies[name])
                release_memory(str(self.device))
            weighed = {name: _importance(study) for name, study in studies.items()}
        return Tuning(
            self.starts,
            self.trials,
            {name: shares for name, shares in weighed.items() if shares},
            self.left_out,
            self.validation_by,
            int((self._split.held_out.user_degrees > 0).sum()),
            round(self.seconds, 3),
        )

    @cached_property
    def validation_by(self) -> str:
        """How the judges are drawn: as asked, else the last of each user if an order is known."""
        known = self.data.moments is not None and order_evidence(self.data).is_informative
        return self.options.validation_by or ("last" if known else "random")

    @property
    def seconds(self) -> float:
        """Time spent on this run."""
        return time.monotonic() - self._started

    @property
    def _left(self) -> float:
        return self.options.max_seconds - self.seconds

    def _of(self, name: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.preset == name]

    def _best(self, name: str) -> float:
        scores = [trial.score for trial in self._of(name) if trial.state == "done"]
        return max(scores, default=-math.inf)

    def _next(self) -> str | None:
        """The preset of the next trial: each as it is, then the best few in turn."""
        if self._left <= 0 or len(self.trials) >= (self.n_trials or math.inf):
            return None
        for name in self.starts:
            if not self._of(name) and name not in self.left_out:
                if (cost := self._cost(name)) <= self._left:
                    return name
                self.left_out[name] = f"about {cost:.0f} s needed, {self._left:.0f} s left"
        going = [name for name in self.starts if self._spaces[name] and self._is_going(name)]
        best = sorted(going, key=lambda name: -self._best(name))[:_N_IN_TURN]
        possible = [name for name in best if self._cost(name) <= self._left]
        return min(possible, key=lambda name: len(self._of(name)), default=None)

    def _is_going(self, name: str) -> bool:
        states = [trial.state for trial in self._of(name)]
        return bool(states) and (states != ["failed"] * len(states) or len(states) < _N_FAILURES)

    def _cost(self, name: str) -> float:
        """Seconds without which a trial is not worth starting: what is solved cannot be cut."""
        start, seconds = self.starts[name], [trial.seconds for trial in self._of(name)]
        if not isinstance(start, SolverSettings):
            return min(seconds, default=0.0)
        if seconds:
            return max(seconds) if start.solver.n_sweeps == 1 else min(seconds)
        return solver_seconds(start.solver, self.data, self.device)

    def _share(self, name: str) -> float:
        """Seconds to train; the first trials of several presets share half of the budget."""
        untried = [one for one in self.starts if not self._of(one) and one not in self.left_out]
        seconds = self._left
        if name in untried and len(self.starts) > 1 and not math.isinf(seconds):
            half = self.options.max_seconds / 2 - self.seconds
            seconds = max(half, seconds / 4) / len(untried)
        return max(seconds - self._judging, 1e-3)  # a model that has not been judged will be

    def _session(self, settings: ModelSettings, seconds: float, observe: Observer) -> FitSession:
        return FitSession(
            self.data,
            settings,
            replace(self.options, max_seconds=seconds),
            seed=self.seed,
            device=self.device,
            observe=observe,
            stop_requested=self.stop_requested,
            split=self._split,
        )

    def _try(self, name: str, study: optuna.Study) -> None:
        """One trial from its settings to its figures, or to what it failed from."""
        from optuna import TrialPruned
        from optuna.trial import TrialState

        began, trial = time.monotonic(), self._ask(name, study)
        settings, seen = self._rounded(name, trial.params), list[Metrics]()
        done = Trial(name, "pruned", settings)
        try:
            changed = resolve(self.starts[name], nested(settings))
            session = self._session(changed, self._share(name), self._pruner(trial, seen))
            done = self._judged(done, session.search()[1])
        except TrialPruned:
            done = replace(done, validation=max(seen, key=lambda one: one[SELECTED_BY]))
        except StoppedError:
            study.tell(trial, state=TrialState.FAIL)  # as if it had never been
            return
        # torch tells by a RuntimeError that memory has run out or that a device lacks an operation
        except (RatiorecError, MemoryError, RuntimeError) as error:
            done = replace(done, state="failed", why=" ".join(str(error).split()))
        self._keep(replace(done, seconds=round(time.monotonic() - began, 3)), study, trial)

    def _judged(self, trial: Trial, fitted: FitResult) -> Trial:
        """A trial that was not pruned; one cut by the clock is done only if ahead all the same."""
        assert fitted.validation is not None
        is_cut = fitted.stopped_by == "time budget"
        is_ahead = fitted.validation[SELECTED_BY] > self._best(trial.preset)
        return replace(
            trial,
            state="pruned" if is_cut and not is_ahead else "done",
            validation=fitted.validation,
            epochs=round(fitted.n_epochs, 3),
            why="time budget" if is_cut else None,
        )

    def _keep(self, done: Trial, study: optuna.Study, trial: optuna.Trial) -> None:
        from optuna.trial import TrialState

        outcome = {key: value for key, value in vars(done).items() if key != "preset"}
        trial.set_user_attr("outcome", outcome | {"place": len(self.trials)})
        if done.state == "done":
            study.tell(trial, done.score)
        else:  # one that failed has no value, which the sampler takes for the worst
            study.tell(trial, state=TrialState.PRUNED)
        self.trials.append(done)
        self.told(done)

    def _ask(self, name: str, study: optuna.Study) -> optuna.Trial:
        """The next settings; the first are the preset's own."""
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        n_before, space = len(self._of(name)), self._spaces[name]
        if n_before == 0 and not study.get_trials(states=[TrialState.WAITING]):
            own = flat(to_table(self.starts[name]))
            study.enqueue_trial({path: own[path] for path in space})
        seed = np.random.SeedSequence([self.seed, n_before]).generate_state(1)
        study.sampler = TPESampler(seed=int(seed[0]), n_startup_trials=_N_RANDOM)
        return study.ask(space)

    def _rounded(self, name: str, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """What was drawn, in few digits; the preset's own values as they are."""
        own, few = flat(to_table(self.starts[name])), f".{_N_DIGITS}g"
        short = {path: float(format(v, few)) for path, v in drawn.items() if isinstance(v, float)}
        return {path: v if v == own[path] else short.get(path, v) for path, v in drawn.items()}

    def _pruner(self, trial: optuna.Trial, seen: list[Metrics]) -> Observer:
        """Passes events on, and ends a trial that is behind most others after as many epochs."""
        from optuna import TrialPruned

        last_step, stepped = 0, 0.0

        def observe(event: StepTaken | EpochFinished) -> None:
            nonlocal last_step, stepped
            self.observe(event)
            if isinstance(event, StepTaken):
                last_step, stepped = event.last_step, time.monotonic()
            elif metrics := event.record.get("validation"):
                self._judging = max(self._judging, time.monotonic() - stepped)
                seen.append(metrics)
                trial.report(metrics[SELECTED_BY], event.record["epoch"])
                if event.record["step"] < last_step and trial.should_prune():
                    raise TrialPruned

        return observe

    def _studies(self, storage: optuna.storages.BaseStorage) -> dict[str, optuna.Study]:
        """A study for each preset; those of an earlier run must be of the same search."""
        import optuna

        wanted = self._identity
        for name in optuna.get_all_study_names(storage):
            found = optuna.load_study(study_name=name, storage=storage).user_attrs.get("identity")
            if found and (other := [key for key in wanted if wanted[key] != found.get(key)]):
                raise CheckpointError(
                    "the study belongs to another search",
                    where=str(self.study),
                    found="another " + ", another ".join(other),
                    wanted="the same command as before, another -o, or no such file",
                )
        studies = {}
        for name in self.starts:
            studies[name] = optuna.create_study(
                storage=storage,
                study_name=name,
                direction="maximize",
                pruner=optuna.pruners.MedianPruner(n_startup_trials=_N_UNPRUNED),
                load_if_exists=True,
            )
            studies[name].set_user_attr("identity", wanted)
        return studies

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What must be the same for a search to go on, as JSON gives it back."""
        identity = {
            "data set": self.data.sha256,
            "validation part": self._split.held_out.sha256,
            "seed": self.seed,
            "list of presets": list(self.starts),
            "setting": {name: to_table(start) for name, start in self.starts.items()},
            "search space": {
                name: {path: repr(drawn) for path, drawn in space.items()}
                for name, space in self._spaces.items()
            },
        }
        return dict(json.loads(json.dumps(identity)))

    def _remember(self, studies: Mapping[str, optuna.Study]) -> None:
        """Take up the trials of earlier runs; one that was running then is forgotten."""
        from optuna.trial import TrialState

        found: list[tuple[int, Trial]] = []
        for name, study in studies.items():
            for trial in study.get_trials(deepcopy=False):
                if trial.state == TrialState.RUNNING:
                    study.tell(trial.number, state=TrialState.FAIL)
                elif trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
                    outcome = dict(trial.user_attrs["outcome"])
                    found.append((outcome.pop("place"), Trial(name, **outcome)))
        self.trials = [trial for _, trial in sorted(found, key=lambda pair: pair[0])]


def _importance(study: optuna.Study) -> dict[str, float]:
    """The share of each setting in the differences between trials, the largest first."""
    import optuna

    done = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    if len({trial.value for trial in done}) < _FEWEST_TO_WEIGH or not done[0].params:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of figures that are nearly all alike
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {path: round(float(share), 4) for path, share in shares.items()}


@contextmanager
def _opened(path: Path) -> Iterator[optuna.storages.RDBStorage]:
    """The file of studies; what goes wrong with it is told as ours."""
    import optuna
    from sqlalchemy import URL, event
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = URL.create("sqlite", database=str(path)).render_as_string()
    storage = None
    try:
        storage = optuna.storages.RDBStorage(url)
        event.listen(storage.engine, "connect", _without_waiting)
        storage.engine.dispose()  # connections from now on
        yield storage
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise StorageError(
            "the study cannot be read or written",
            where=str(path),
            found=" ".join(str(error).split("\n")[0].split()),
            wanted="a study of this command, or no file, in a place that has room",
        ) from error
    finally:
        if storage is not None:
            storage.remove_session()
            storage.engine.dispose()


def _without_waiting(connection: Any, _: Any) -> None:
    """A log in which a crash loses nothing, without a wait for the disk after every word."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
