"""Automatic choice of a model: a portfolio of growing cost, judged on the same held-out pairs.

Each candidate is fitted to the pairs of the search; those that help a blend on the held-out pairs
are refitted on all pairs. A budget of seconds bounds all of it: no candidate starts that would
leave too little time for the refits.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ratiorec.config import settings_in, to_table
from ratiorec.data.describe import order_evidence
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import Split, split_for_validation
from ratiorec.errors import (
    CheckpointError,
    ConfigError,
    MissingExtraError,
    RatiorecError,
    StoppedError,
    require_whole,
)
from ratiorec.machine import Device, gpu_out_of_memory, release_memory
from ratiorec.scorers import Blend, Scorer, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.scorers.topk import n_cores
from ratiorec.settings import (
    AnySettings,
    AutoSettings,
    BlendMember,
    BlendSettings,
    ModelSettings,
    SolverSettings,
)
from ratiorec.solvers.settings import PopularitySolver, Walk
from ratiorec.training.blending import CandidateScores, difference, narrowed, search_weights
from ratiorec.training.checkpoint import Checkpoints, KeptMembers
from ratiorec.training.fit import (
    SELECTED_BY,
    EpochFinished,
    FitOptions,
    FitResult,
    FitSession,
    Observer,
    StepTaken,
)
from ratiorec.training.portfolio import Candidate, portfolio

DEFAULT_SECONDS = 600.0
_SPARE = 0.03  # of the budget, for what happens between the members
_USERS_PER_SECOND = 100  # judged on, for each second of the budget; a GPU takes all at once
_FEWEST_USERS, _MOST_USERS = 500, 40_000
_MOST_TO_STOP = 10_000  # users, for early stopping
_WEIGHING = 2e-8  # seconds for each judged user, member and item, on one core
_WEIGHING_ON_GPU = 2e-10


@dataclass
class Member:
    """A candidate and what came of it; `why` says why it was chosen or left out."""

    name: str
    why: str
    settings: dict[str, Any] | None = None
    seed: int = 0
    steps: int = 0
    validation: dict[str, float] | None = None
    lead: tuple[float, float] | None = None  # 95 % interval of nDCG@20 less the chosen model's
    seconds: float = 0.0  # of the search with its validations
    refit_seconds: float = 0.0  # of the refit, as estimated and then as measured
    weight: float = 0.0


class AutoSession:
    """One automatic fit in progress, or a blend whose members were chosen before."""

    def __init__(
        self,
        data: Interactions,
        settings: AutoSettings | BlendSettings,
        options: FitOptions,
        *,
        seed: int,
        device: Device,
        observe: Observer = lambda event: None,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        if isinstance(settings, AutoSettings) and not options.refit:
            raise ConfigError(
                "an automatic choice is fitted again on all pairs",
                where="--preset auto",
                found="no refit",
                wanted="a refit; or --preset NAME, which keeps the validated model",
            )
        require_whole("--seed", seed, at_least=0, what="this is no seed")
        self.data = data
        self.seed = seed
        self.device = device
        self.settings = settings
        self.observe = observe
        self.stop_requested = stop_requested
        budget = options.max_seconds
        self.budget = (DEFAULT_SECONDS if math.isinf(budget) else budget) * (1 - _SPARE)
        self.options = replace(options, max_seconds=math.inf)
        self.tried: list[Member] = []
        self._shared: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self._started = time.monotonic()
        self._seconds_before = 0.0
        self._kept: KeptMembers | None = None

    @property
    def _n_judged(self) -> int:
        """The users to judge on, at most."""
        if self.device.type != "cpu":
            return _MOST_USERS
        return int(np.clip(self.budget * _USERS_PER_SECOND, _FEWEST_USERS, _MOST_USERS))

    @property
    def _n_quick(self) -> int:
        """The users to tell variants of a solver apart by, at most."""
        return max(_FEWEST_USERS // 2, self._n_judged // 5)

    @property
    def seconds(self) -> float:
        """Time spent on this fit, earlier runs included."""
        return self._seconds_before + time.monotonic() - self._started

    def __call__(self) -> FitResult:
        if self.options.checkpoints is not None and not self.options.resume:
            self.options.checkpoints.remove()  # those of a fit that was given up
        if isinstance(self.settings, BlendSettings):
            self.tried = [_planned(member) for member in self.settings.members]
            return self._refitted(validation=None, n_judged=0)
        split = self._split()
        if split is None:
            return self._unjudged()
        self._kept = self._members_on_disk(split)
        found = self._resumed(split)
        for candidate in portfolio(self.data, self.device):
            if all(member.name != candidate.name for member in self.tried):
                self._try(candidate, split, found)
        self._drop_what_cannot_be_refitted(found)
        validation = self._weigh(found, split)
        found.clear()
        self._shared.clear()
        release_memory(str(self.device))
        n_judged = int((split.held_out.user_degrees > 0).sum())
        return self._refitted(validation=validation, n_judged=n_judged)

    @cached_property
    def validation_by(self) -> str:
        """How validation pairs are drawn: the last of each user where the data know an order."""
        if self.options.validation_by is not None:
            return self.options.validation_by
        known = self.data.moments is not None and order_evidence(self.data).is_informative
        return "last" if known else "random"

    def _split(self) -> Split | None:
        """The pairs of the search, and held-out ones of as many users as there is time to judge."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(3)[0])
        if not self.options.validation or min(self.data.n_users, self.data.n_items) < 2:
            return None
        how, n_users = self.validation_by, self._n_judged
        share = self.options.validation
        try:
            return split_for_validation(self.data, share, rng, how, most_users=n_users)
        except ConfigError:  # nobody has two pairs
            return None

    def _unjudged(self) -> FitResult:
        """A walk, or popularity where nobody has two items: with nothing held out, not compared."""
        solver = Walk() if self.data.user_degrees.max() > 1 else PopularitySolver()
        only = BlendMember(solver.name, 1.0, 1, self.seed, SolverSettings(solver))
        self.tried = [_planned(only, "chosen: no pair was held out, so nothing was compared")]
        return self._refitted(validation=None, n_judged=0)

    def _members_on_disk(self, split: Split) -> KeptMembers | None:
        if self.options.checkpoints is None:
            return None
        identity = {
            "data": self.data.sha256,
            "seed": self.seed,
            "validation": self.options.validation,
            "validation_by": self.validation_by,
            "pairs of the search": split.train.sha256,  # chosen by times, which `data` lacks
        }
        return KeptMembers(self.options.checkpoints.folder, identity)

    def _resumed(self, split: Split) -> dict[str, StoredScorer]:
        """The members that an earlier run has finished."""
        found: dict[str, StoredScorer] = {}
        if self._kept is None or not self.options.resume:
            return found
        records, self._seconds_before = self._kept.read()
        for record in records:
            member = Member(**record)
            self.tried.append(member)
            if member.settings is not None:
                found[member.name] = self._kept.scorer(member.name, UserItems.of(split.train))
        return found

    def _try(self, candidate: Candidate, split: Split, found: dict[str, StoredScorer]) -> None:
        """Fit a candidate's variants to the pairs of the search, and note what came of it."""
        began = self.seconds
        member, scorer = Member(candidate.name, ""), None
        seed, cost = self.seed + candidate.seed, candidate.seconds(self.data, self.device)
        for variant, settings in enumerate(self._variants(candidate)):
            if why := None if candidate.is_floor else self._unaffordable(cost, member):
                member.why = member.why or why
                break
            started = self.seconds
            judged = _of_few_users(split, self._n_quick if candidate.is_solved else _MOST_TO_STOP)
            try:
                name = f"{candidate.name} {variant + 1}" if variant else candidate.name
                best, fitted = self._session(name, settings, seed, judged).search()
            except (StoppedError, CheckpointError):
                raise
            except _failures() as error:
                member.why = member.why or _why_left_out(error)
                continue
            assert fitted.validation is not None
            if scorer is None or _score(fitted.validation) > _score(member.validation):
                scorer, member.validation, member.steps = best, fitted.validation, fitted.n_steps
                member.settings, member.seed = to_table(settings), seed
                member.refit_seconds = _refit_seconds(fitted)
                member.why = "judged"
            cost = self.seconds - started  # of the next variant, as far as can be told
        member.why = member.why or f"left out: {candidate.again} was"
        member.seconds = self.seconds - began
        self.tried.append(member)
        if scorer is not None:
            found[candidate.name] = scorer
        if self._kept is not None:
            self._kept.write(
                [asdict(one) for one in self.tried], self.seconds, candidate.name, scorer
            )

    def _variants(self, candidate: Candidate) -> Sequence[ModelSettings]:
        """What to try, or what was chosen for the candidate that is fitted again."""
        chosen = [member.settings for member in self.tried if member.name == candidate.again]
        again = [settings_in(settings) for settings in chosen if settings is not None]
        return [one for one in again if isinstance(one, ModelSettings)] or candidate.variants

    def _drop_what_cannot_be_refitted(self, found: dict[str, StoredScorer]) -> None:
        """Leave out the slowest members where a wrong estimate has spent the time of refits."""
        judged = [member for member in self.tried if member.name in found]
        for member in sorted(judged, key=lambda one: one.refit_seconds, reverse=True)[:-1]:
            if self._seconds_left() >= 0:
                return
            needed = f"about {member.refit_seconds:.0f} s needed for its refit"
            member.why = f"left out: {needed}, too little is left"
            member.settings = None
            del found[member.name]

    def _unaffordable(self, cost: float, member: Member) -> str | None:
        """Why the next variant of a candidate cannot be fitted in the time that is left."""
        left = self._seconds_left() - member.refit_seconds
        if 2 * cost <= left:  # its search and its refit
            return None
        return f"left out: about {2 * cost:.0f} s needed, {max(0, left):.0f} s left"

    def _seconds_left(self) -> float:
        """For searches, less what the refits and the weighing of all members so far will take."""
        done = [member for member in self.tried if member.settings is not None]
        on_cpu = self.device.type == "cpu"
        each = (_WEIGHING / n_cores() if on_cpu else _WEIGHING_ON_GPU) * self.data.n_items
        weighing = each * min(self._n_judged, self.data.n_users) * (len(done) + 1)
        return self.budget - self.seconds - weighing - sum(m.refit_seconds for m in done)

    def _session(
        self, name: str, settings: AnySettings, seed: int, split: Split | None
    ) -> FitSession:
        checkpoints = self.options.checkpoints
        options = replace(
            self.options,
            refit=True,
            validation=self.options.validation if split else 0.0,
            validation_by=self.validation_by,
            max_seconds=max(1e-3, self._seconds_left()) if split else math.inf,
            checkpoints=checkpoints and Checkpoints(checkpoints.folder / name),
        )
        assert isinstance(settings, ModelSettings)
        return FitSession(
            self.data,
            settings,
            options,
            seed=seed,
            device=self.device,
            observe=self._observer(name),
            stop_requested=self.stop_requested,
            split=split,
            shared=self._shared if split else None,
        )

    def _observer(self, name: str) -> Observer:
        """Passes events on under the name of the member."""

        def observe(event: StepTaken | EpochFinished) -> None:
            if isinstance(event, StepTaken):
                self.observe(replace(event, phase=f"{name} {event.phase}"))
                return
            record = event.record | {"phase": f"{name} {event.record['phase']}"}
            self.history.append(record)
            self.observe(EpochFinished(record, event.resumed))

        return observe

    def _weigh(self, found: Mapping[str, StoredScorer], split: Split) -> dict[str, float]:
        """Weights by the held-out pairs; the figures of the blend on them."""
        names = list(found)
        table = self._table([found[name] for name in names], split)
        by_name = {member.name: member for member in self.tried}
        weighed = search_weights(table, alike([by_name[name] for name in names]))
        for place, name in enumerate(names):
            member, weight = by_name[name], float(weighed.weights[place])
            member.weight = round(weight, 4)
            member.validation = table.metrics(np.eye(len(names))[place])  # all on the same users
            member.lead = difference(table.alone(place), weighed.ndcg)
            member.why = "chosen" if weight else "left out: the blend is no better with it"
        return table.metrics(weighed.weights)

    def _table(self, scorers: Sequence[Scorer], split: Split) -> CandidateScores:
        """The candidates of all judged users, on the device."""
        users, seen = np.flatnonzero(split.held_out.user_degrees), UserItems.of(split.train)
        if self.device.type == "cpu":
            return CandidateScores.of(scorers, seen, split.held_out, users)
        from ratiorec.kernels.gpu_topk import BestOfEach
        from ratiorec.training.blending_gpu import CandidateScoresOnGpu

        best = BestOfEach(scorers, seen, self.device)
        table = CandidateScoresOnGpu.of(scorers, seen, split.held_out, users, best_of_each=best)
        return replace(table, device=str(self.device))

    def _refitted(self, *, validation: dict[str, float] | None, n_judged: int) -> FitResult:
        """The chosen members on all pairs, as one model."""
        chosen = [member for member in self.tried if member.weight]
        fits = [self._refit(member) for member in chosen]
        settings = _blend_of(chosen)
        weights = np.array([member.weight for member in chosen], np.float32)
        scorers, single = tuple(fit.scorer for fit in fits), len(chosen) == 1
        return FitResult(
            fits[0].scorer if single else narrowed(Blend(scorers, weights)),
            n_steps=sum(fit.n_steps for fit in fits),
            n_epochs=sum(fit.n_epochs for fit in fits),
            history=self.history,
            validation=validation,
            n_validation_users=n_judged,
            stopped_by=None,
            seconds=self.seconds,
            validation_by=self.validation_by if n_judged else None,
            settings=settings.members[0].settings if single else settings,
            members=[asdict(member) for member in self.tried],
        )

    def _refit(self, member: Member) -> FitResult:
        assert member.settings is not None
        began = self.seconds
        name = f"{member.name} again"
        session = self._session(name, settings_in(member.settings), member.seed, None)
        fitted = session.refit(member.steps)
        member.refit_seconds = self.seconds - began
        return fitted


def _failures() -> tuple[type[Exception], ...]:
    """What leaves a candidate out, while the others go on."""
    return (RatiorecError, MemoryError, *gpu_out_of_memory())


def _why_left_out(error: Exception) -> str:
    if isinstance(error, MissingExtraError):
        return f"left out: {error.what}, {error.wanted}"
    return f"left out: {error}".splitlines()[0]


def alike(members: Sequence[Member]) -> list[list[int]]:
    """The places of members that differ by their seed alone, where there are any."""
    places: dict[str, list[int]] = {}
    for place, member in enumerate(members):
        places.setdefault(json.dumps(member.settings, sort_keys=True), []).append(place)
    return [group for group in places.values() if len(group) > 1]


def _of_few_users(split: Split, n_users: int) -> Split:
    """The same with the held-out pairs of so many users, evenly among all that have any."""
    judged = np.flatnonzero(split.held_out.user_degrees)
    if len(judged) <= n_users:
        return split
    few = np.zeros(split.held_out.n_users, dtype=bool)
    few[judged[np.arange(n_users) * len(judged) // n_users]] = True
    return replace(split, held_out=split.held_out.select(few[split.held_out.pair_users]))


def _planned(member: BlendMember, why: str = "planned") -> Member:
    table = to_table(member)
    return Member(why=why, **table)


def _blend_of(chosen: list[Member]) -> BlendSettings:
    names = ("name", "weight", "steps", "seed", "settings")
    table = {"members": [{name: getattr(member, name) for name in names} for member in chosen]}
    settings = settings_in(table)
    assert isinstance(settings, BlendSettings)
    return settings


def _refit_seconds(fitted: FitResult) -> float:
    """A refit takes the steps up to the best one, on a few more pairs and without validations."""
    last = max((record["step"] for record in fitted.history), default=fitted.n_steps)
    return fitted.seconds * fitted.n_steps / max(1, last)


def _score(metrics: Mapping[str, float] | None) -> float:
    return -math.inf if metrics is None else metrics[SELECTED_BY]
