"""Teams: one process or several that fit one model, and how they judge it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, Unpack

from ratiorec.data.interactions import Interactions
from ratiorec.evaluation.evaluate import Ranker, Report, evaluate
from ratiorec.machine import Device
from ratiorec.scorers import Scorer, StoredScorer
from ratiorec.scorers.scorer import UserItems
from ratiorec.settings import ModelSettings
from ratiorec.solvers.settings import RunContext
from ratiorec.training.runs import TrainingRun, start_run

Metrics = dict[str, float]
JUDGED_BY = ("recall@20", "ndcg@20")

T = TypeVar("T")


def report_on_device(
    scorer: Scorer, train: Interactions, held_out: Interactions, *, device: Device
) -> Report:
    """A model judged on held-out pairs at 20, ranked where it is trained."""
    ranker: Callable[[int], Ranker] | None = None
    if device.type != "cpu":
        from ratiorec.kernels.gpu_topk import GpuTopK

        ranker = partial(GpuTopK, device=device)
    return evaluate(scorer, UserItems.of(train), held_out, ks=(20,), ranker=ranker)


def evaluate_on_device(
    scorer: Scorer, train: Interactions, held_out: Interactions, *, device: Device
) -> Metrics:
    """Recall@20 and nDCG@20 on held-out pairs, ranked where the model is trained."""
    report = report_on_device(scorer, train, held_out, device=device)
    return {name: report.value(name) for name in JUDGED_BY}


class Team(Protocol):
    """The processes of a fit, as each of them sees it.

    All take the same steps in the same order, so what they decide they decide alike.
    """

    @property
    def is_first(self) -> bool:
        """Whether this process speaks and writes for all."""

    @property
    def card(self) -> dict[str, Any]:
        """What a model's card says of the processes, where there are several."""

    def portion(self, data: Interactions) -> Interactions:
        """The pairs that this process works on."""

    def start(
        self, settings: ModelSettings, data: Interactions, **context: Unpack[RunContext]
    ) -> TrainingRun:
        """A run at its beginning on this process's portion of the pairs."""

    def judge(
        self, scorer: StoredScorer, train: Interactions, held_out: Interactions, *, device: Device
    ) -> Metrics:
        """The metrics over everybody's users, the same for all."""

    def whole(self, scorer: StoredScorer, data: Interactions) -> StoredScorer:
        """The model of all users of `data`, for the first process; for others what they have."""

    def agreed(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag, raised where any process raises it."""

    def together(self, work: Callable[[], T]) -> T:
        """What `work` gives, or for all the first error of one that cannot do it."""


class Alone:
    """One process: nobody to agree with."""

    is_first = True

    @property
    def card(self) -> dict[str, Any]:
        return {}

    def portion(self, data: Interactions) -> Interactions:
        return data

    def start(
        self, settings: ModelSettings, data: Interactions, **context: Unpack[RunContext]
    ) -> TrainingRun:
        return start_run(settings, data, **context)

    def judge(
        self, scorer: StoredScorer, train: Interactions, held_out: Interactions, *, device: Device
    ) -> Metrics:
        return evaluate_on_device(scorer, train, held_out, device=device)

    def whole(self, scorer: StoredScorer, data: Interactions) -> StoredScorer:
        return scorer

    def agreed(self, *flags: bool) -> tuple[bool, ...]:
        return flags

    def together(self, work: Callable[[], T]) -> T:
        return work()


ALONE = Alone()
