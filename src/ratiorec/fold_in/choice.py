"""Which problem a new user poses to a model, by how the model was trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.sampling import inclusion_probability
from ratiorec.errors import ModelError
from ratiorec.fold_in.candidates import Candidates
from ratiorec.fold_in.closed_form import WeightedRidge
from ratiorec.fold_in.density_ratio import UserRisk
from ratiorec.fold_in.family import Family
from ratiorec.fold_in.learned_step import LearnedStep
from ratiorec.fold_in.pointwise import CURVATURES, LINKS
from ratiorec.fold_in.sums import row_blocks
from ratiorec.scorers import FloatMatrix, InnerProduct, StoredScorer
from ratiorec.seen import Pairs

# enough for lists nearly as good as those by all items, and few enough for one core
_N_CANDIDATES = 16384
_N_SKETCHED = 1024
_USERS_ASKED = 256
_ROWS_AT_ONCE = 32
_LEAST_SIZE = 0.1  # of the mean: an item that pulls nobody may yet pull a new user
_RATIO_RISKS = ("density-ratio", "weighted-dre", "weighted-pu")


class Rule(Protocol):
    """Turns histories into vectors of users."""

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]."""

    def with_items(self, items: FloatMatrix, degrees: NDArray[np.int64]) -> Rule:
        """The same where there are more items, the known ones first; `degrees` are |U_i|."""


def rule_for(
    scorer: StoredScorer,
    settings: Mapping[str, Any],
    pairs: Pairs,
    ridge: Mapping[str, Any] | None = None,
) -> Rule | None:
    """What turns histories into vectors of users; None for a model whose users are not vectors.

    `settings` are those of training. So are `pairs`, or the `ridge` is given that a rule for the
    pairs of training had: users folded in since would tell a smaller one (theory: F5).

    Raises:
        ModelError: The settings lack what the problem is made of.
    """
    if not isinstance(scorer, InnerProduct):
        return None
    try:
        return _rule_by_settings(scorer, settings, pairs, ridge)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            "the model does not say how it was trained, so nobody can be folded in",
            where="settings of the model",
            found=f"{type(error).__name__}: {error}",
            wanted="all settings, as a fit stores them",
        ) from error


def _rule_by_settings(
    scorer: InnerProduct,
    settings: Mapping[str, Any],
    pairs: Pairs,
    ridge: Mapping[str, Any] | None,
) -> Rule:
    items = scorer.items
    solver, risk = settings.get("solver", {}), settings.get("risk", {})
    match solver.get("kind", risk.get("kind")):
        case "wmf":
            a = solver["confidence"]
            return WeightedRidge(items, 1, a, 1 + a, solver["penalty"])
        case "implicit-als":  # a pair has the confidence alpha, where wmf has 1 + a
            alpha = solver["alpha"]
            return WeightedRidge(items, 1, alpha - 1, alpha, solver["regularisation"])
        case "whole-data":
            return _whole_data(items, settings)
        case kind if kind in _RATIO_RISKS and _family(risk) is not None:
            untold = _user_risk(scorer, settings, pairs)
            if ridge:
                return untold.with_ridge(ridge)
            return untold.as_trained(scorer.users, pairs, least=settings["training"]["penalty"])
    return LearnedStep.learnt(scorer.users, items, pairs)


def _whole_data(items: FloatMatrix, settings: Mapping[str, Any]) -> WeightedRidge:
    c = settings["risk"]["unlabelled_weight"]
    dropped = settings["encoder"].get("dropout", 0.0)
    return WeightedRidge(items, c, 1 - c, 1, settings["training"]["penalty"] / 2, dropped)


def _family(risk: Mapping[str, Any]) -> Family | None:
    """The family that settings name; None where only code can make one of its parts."""
    curvature = CURVATURES.get(risk.get("generator", "least-squares"))
    link = LINKS.get(risk["link"])
    powers = {"hard-sample": 1, "uniform": 0, "popularity": 0}
    power = powers.get(risk["weights"]["kind"])
    if curvature is None or link is None or power is None:
        return None
    kind = risk["kind"]
    if kind != "density-ratio" and risk["weights"]["kind"] == "popularity":
        return None  # their plain mean has a divisor of its own
    return Family(link, curvature, power, kind == "density-ratio", kind == "weighted-pu")


def _user_risk(scorer: InnerProduct, settings: Mapping[str, Any], pairs: Pairs) -> UserRisk:
    family = _family(settings["risk"])
    assert family is not None
    weights = _item_weights(settings, pairs, scorer.n_items)
    sizes = typical_pulls(family, scorer, weights)
    return UserRisk(
        family,
        LearnedStep.learnt(scorer.users, scorer.items, pairs),
        weights,
        Candidates.drawn(scorer.items, weights, sizes, n=_N_CANDIDATES),
        Candidates.drawn(scorer.items, weights, sizes, n=_N_SKETCHED),
        free=settings["encoder"]["kind"] == "factorisation",
    )


def typical_pulls(
    family: Family, scorer: InnerProduct, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """‖e_i‖ times the root mean square, over some users, of the pull on item i (theory: F4)."""
    squares = np.zeros(scorer.n_items)
    some = np.arange(0, scorer.n_users, max(1, scorer.n_users // _USERS_ASKED))
    for places in row_blocks(len(some), _ROWS_AT_ONCE):
        scores = scorer.scores(some[places])
        squares += np.square(family.unlabelled(scores, weights.astype(np.float32)).strength).sum(0)
    pulls: NDArray[np.float64] = np.sqrt(squares) * np.linalg.norm(scorer.items, axis=1)
    pulls += _LEAST_SIZE * pulls.mean() + np.finfo(np.float64).tiny
    return pulls


def _item_weights(settings: Mapping[str, Any], pairs: Pairs, n_items: int) -> NDArray[np.float64]:
    """All of w⁻ that the item alone decides: c_i, and how often training had it as a candidate."""
    degrees = np.bincount(pairs.indices, minlength=n_items)
    risk, batches = settings["risk"], settings["batches"]
    weights = (degrees > 0).astype(np.float64)
    if risk["weights"]["kind"] == "popularity":
        weights *= degrees.astype(np.float64) ** risk["weights"]["exponent"]
    if risk.get("sampling", "as-sampled") == "as-sampled":
        n_users = int((np.diff(pairs.indptr) > 0).sum())
        n_drawn = max(1, min(batches["n_users"], n_users // batches["least_steps"]))
        weights *= inclusion_probability(degrees, n_users=n_users, n_drawn=n_drawn)
    return weights
