"""Fold-in rules: which problem a new user (cold start) poses to a model, by how it was trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ratiorec.batches.dealing import inclusion_probability
from ratiorec.config import settings_in
from ratiorec.encoders.settings import ENMF, Factorisation, LightGCN
from ratiorec.errors import ConfigError, ModelError, UnknownChoiceError
from ratiorec.losses import Loss
from ratiorec.losses.density_ratio import (
    AnyGenerator,
    DensityRatio,
    HardSampleWeights,
    PopularityWeights,
    RatioPowerWeights,
    UniformWeights,
    Weights,
)
from ratiorec.losses.generators import PowerDivergence, RelativeRatio
from ratiorec.losses.unnormalised import WeightedDRE, WeightedPU
from ratiorec.losses.whole_data import WholeData
from ratiorec.model.foldin.linear import AsScored, LearnedStep, WeightedRidge, row_blocks
from ratiorec.model.foldin.newton import (
    CURVATURES,
    LINKS,
    Candidates,
    Curvature,
    LossFamily,
    UserProblem,
)
from ratiorec.scorers import (
    Blend,
    ColdItems,
    Factored,
    FloatMatrix,
    FromHistories,
    InnerProduct,
    PopularityScorer,
    StoredScorer,
)
from ratiorec.scorers.scorer import Pairs, UserItems, require_fit, some_of
from ratiorec.settings import AnySettings, Settings, SolverSettings, UserBatches
from ratiorec.solvers.settings import WMF, ImplicitALS

# enough for lists nearly as good as those by all items, and few enough for one core
_N_CANDIDATES = 16384
_N_PRECONDITIONER = 1024
_USERS_ASKED = 256
_ROWS_AT_ONCE = 32
_LEAST_SIZE = 0.1  # of the mean: an item without a gradient yet may have one for a new user


class Rule(Protocol):
    """Turns histories into vectors of users."""

    def __call__(self, histories: Pairs) -> FloatMatrix:
        """One vector for each history [n, d]."""

    def with_items(
        self, items: FloatMatrix, degrees: NDArray[np.int64], *, n_cold: int = 0
    ) -> Rule:
        """The same where there are more items, the known ones first; `degrees` are |U_i|.

        The last `n_cold` are there by their content alone: a history may hold them, and one that
        does not is nothing to them.
        """


@dataclass(frozen=True, eq=False)
class MemberRules:
    """The rules of a blend, one for each member; None for one whose users are not vectors."""

    rules: tuple[Rule | None, ...]


AnyRule = Rule | MemberRules | None


def rule_for(
    scorer: StoredScorer,
    settings: Mapping[str, Any],
    pairs: Pairs,
    ridge: Mapping[str, Any] | None = None,
    *,
    n_cold: int = 0,
) -> AnyRule:
    """What turns histories into vectors of users; None for a model whose users are not vectors.

    `settings` are those of training. So are `pairs`, or the `ridge` is given that a rule for the
    pairs of training had: users folded in since would tell a smaller one (theory: F5). The last
    `n_cold` items are there by their content alone, and no part of the problem.

    Raises:
        ModelError: The settings lack what the problem is made of.
    """
    if isinstance(scorer, ColdItems):
        return rule_for(scorer.known, settings, pairs, ridge)
    if isinstance(scorer, Blend):
        return _rules_of_members(scorer, settings, pairs, ridge or {})
    if not isinstance(scorer, InnerProduct):
        return None
    known = InnerProduct(scorer.users, scorer.items[: scorer.n_items - n_cold])
    try:
        rule = _rule_by_settings(known, training_settings(settings), pairs, ridge)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            "the model does not say how it was trained, so nobody can be folded in",
            where="settings of the model",
            found=f"{type(error).__name__}: {error}",
            wanted="all settings, as a fit stores them",
        ) from error
    if not n_cold:
        return rule
    degrees = np.bincount(pairs.indices, minlength=scorer.n_items)
    return rule.with_items(scorer.items, degrees, n_cold=n_cold)


def _rules_of_members(
    blend: Blend, settings: Mapping[str, Any], pairs: Pairs, ridges: Mapping[str, Any]
) -> MemberRules:
    tables = member_settings(blend, settings)
    rules: list[Any] = [
        rule_for(member, table, pairs, ridges.get(str(place)))
        for place, (member, table) in enumerate(zip(blend.members, tables, strict=True))
    ]
    return MemberRules(tuple(rules))


def member_settings(blend: Blend, settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings that each member was trained with; none of a blend put together by hand."""
    tables = [
        member["settings"]
        for member in settings.get("members", [{"settings": {}}] * blend.n_members)
    ]
    require_fit("settings of members", len(tables), blend.n_members, "one for each member")
    return tables


def training_settings(table: Mapping[str, Any]) -> AnySettings | None:
    """The settings that a model was trained with; None where they are not the library's.

    A model put together by hand has none, and a loss of somebody's own is unknown here.

    Raises:
        ConfigError: They are not whole.
    """
    if not table.keys() & {"risk", "solver", "second"}:
        return None
    try:
        return settings_in(table, complete=True)
    except UnknownChoiceError:
        return None


def _rule_by_settings(
    scorer: InnerProduct,
    settings: AnySettings | None,
    pairs: Pairs,
    ridge: Mapping[str, Any] | None,
) -> Rule:
    items = scorer.items
    match settings:
        case Settings(
            encoder=LightGCN(normalize=normalize, popularity_term=term)
            | Factorisation(normalize=normalize, popularity_term=term)
        ) if normalize or term:
            return AsScored.learnt(
                scorer.users, items, pairs, normalize=normalize, popularity_term=term
            )
        case SolverSettings(solver=WMF(confidence=a, l2=l2)):
            return WeightedRidge(items, 1, a, 1 + a, l2)
        case SolverSettings(solver=ImplicitALS(alpha=alpha, l2=l2)):
            # a pair has the confidence alpha, where wmf has 1 + a
            return WeightedRidge(items, 1, alpha - 1, alpha, l2)
        case Settings(risk=WholeData(unlabelled_weight=c), encoder=encoder, training=training):
            dropped = encoder.dropout if isinstance(encoder, ENMF) else 0.0
            return WeightedRidge(items, c, 1 - c, 1, training.l2 / 2, dropped)
        case Settings(risk=risk, batches=UserBatches()) if family := loss_family(risk):
            problem = _user_problem(scorer, settings, family, pairs)
            if ridge:
                return problem.with_ridge(ridge)
            return problem.as_trained(scorer.users, pairs, least=settings.training.l2)
    return LearnedStep.learnt(scorer.users, items, pairs)


def loss_family(loss: Loss) -> LossFamily | None:
    """The family of a density-ratio loss; None for every other loss."""
    if not isinstance(loss, DensityRatio | WeightedDRE | WeightedPU):
        return None
    normalised = isinstance(loss, DensityRatio)
    generator = loss.generator if isinstance(loss, DensityRatio) else "least-squares"
    powers = _weight_powers(loss.weights)
    if powers is None or (isinstance(loss.weights, PopularityWeights) and not normalised):
        return None  # their plain mean has a divisor of its own
    return LossFamily(
        LINKS[loss.link],
        _curvature(generator),
        *powers,
        self_normalised=normalised,
        gain_by_prior=isinstance(loss, WeightedPU),
        mixing=generator.mixing if isinstance(generator, RelativeRatio) else 0.0,
    )


def _weight_powers(weights: Weights) -> tuple[float, float] | None:
    """γ and δ of w⁻ = c_i r̂^γ and w⁺ = r̂^−δ; None for weights that are not of this form."""
    match weights:
        case HardSampleWeights():
            return 1, 1
        case RatioPowerWeights(positive_exponent=own, unlabelled_exponent=power):
            return power, own
    return (0, 0) if type(weights) in (UniformWeights, PopularityWeights) else None


def _curvature(generator: AnyGenerator) -> Curvature:
    if isinstance(generator, PowerDivergence):
        return Curvature(1 - generator.exponent, 0)
    return CURVATURES[generator]


def _user_problem(
    scorer: InnerProduct, settings: Settings, family: LossFamily, pairs: Pairs
) -> UserProblem:
    weights = _item_weights(settings, pairs, scorer.n_items)
    sizes = typical_gradients(family, scorer, weights)
    return UserProblem(
        family,
        LearnedStep.learnt(scorer.users, scorer.items, pairs),
        weights,
        Candidates.drawn(scorer.items, weights, sizes, n=_N_CANDIDATES),
        Candidates.drawn(scorer.items, weights, sizes, n=_N_PRECONDITIONER),
        free=isinstance(settings.encoder, Factorisation),
    )


def typical_gradients(
    family: LossFamily, scorer: InnerProduct, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """‖e_i‖ times the root mean square, over some users, of its score's gradient (theory: F4)."""
    squares = np.zeros(scorer.n_items)
    some = np.arange(0, scorer.n_users, max(1, scorer.n_users // _USERS_ASKED))
    for places in row_blocks(len(some), _ROWS_AT_ONCE):
        scores = scorer.scores(some[places])
        squares += np.square(family.unlabelled(scores, weights.astype(np.float32)).value).sum(0)
    gradients: NDArray[np.float64] = np.sqrt(squares) * np.linalg.norm(scorer.items, axis=1)
    gradients += _LEAST_SIZE * gradients.mean() + np.finfo(np.float64).tiny
    return gradients


def _item_weights(settings: Settings, pairs: Pairs, n_items: int) -> NDArray[np.float64]:
    """All of w⁻ that the item alone decides: c_i, and how often training had it as a candidate."""
    degrees = np.bincount(pairs.indices, minlength=n_items)
    loss, batches = settings.risk, settings.batches
    assert isinstance(loss, DensityRatio | WeightedDRE | WeightedPU)
    assert isinstance(batches, UserBatches)
    if isinstance(loss, DensityRatio) and loss.candidate_correction == "all-items":
        return np.ones(n_items)
    weights = (degrees > 0).astype(np.float64)
    if isinstance(loss.weights, PopularityWeights):
        weights *= degrees.astype(np.float64) ** loss.weights.exponent
    if not isinstance(loss, DensityRatio) or loss.candidate_correction == "none":
        n_users = int((np.diff(pairs.indptr) > 0).sum())
        n_drawn = batches.batch_size(n_users)
        weights *= inclusion_probability(degrees, n_users=n_users, n_drawn=n_drawn)
    return weights


class Provenance(NamedTuple):
    """How many items and pairs training had; the items are the first ones."""

    n_items: int
    n_pairs: int

    @classmethod
    def read(cls, card: Mapping[str, Any], *, n_items: int, n_pairs: int) -> Provenance:
        """From the model card of a model that has so many items and pairs now.

        Raises:
            ModelError: The model card holds numbers that cannot be.
        """
        since = _number(card, "pairs_since", 0, most=n_pairs)
        return cls(_number(card, "trained_items", n_items, most=n_items), n_pairs - since)

    def written(self, card: Mapping[str, Any], rule: AnyRule, *, n_pairs: int) -> dict[str, Any]:
        """The model card when it has so many pairs, with the ridge that training told."""
        since = {"pairs_since": n_pairs - self.n_pairs, "trained_items": self.n_items}
        ridge = _kept_ridge(rule)
        return {**card, **since, **({"fold_in": ridge} if ridge else {})}


def _kept_ridge(rule: AnyRule) -> dict[str, Any]:
    if isinstance(rule, MemberRules):
        kept = {str(place): _kept_ridge(one) for place, one in enumerate(rule.rules)}
        return {place: ridge for place, ridge in kept.items() if ridge}
    return rule.kept_ridge() if isinstance(rule, UserProblem) else {}


def _number(card: Mapping[str, Any], name: str, otherwise: int, *, most: int) -> int:
    found = card.get(name, otherwise)
    if type(found) is not int or not 0 <= found <= most:
        raise ModelError(
            "the model card holds what cannot be",
            where=f"{name} in the model card",
            found=repr(found),
            wanted=f"a whole number from 0 to {most:,}",
        )
    return found


_USERS_AT_ONCE = 1024

FoldProgress = Callable[[int, int], None]  # users done, and users in all


@dataclass(frozen=True, eq=False)
class FoldedUsers:
    """Users known by their histories alone: `scorer` scores the n-th of them as user n."""

    scorer: StoredScorer
    histories: UserItems

    def __len__(self) -> int:
        return self.histories.n_users

    @property
    def vectors(self) -> FloatMatrix:
        """One vector for each user [n, d], where scores are inner products."""
        if isinstance(self.scorer, Factored):
            return self.scorer.user_vectors(np.arange(len(self)))
        raise ConfigError(
            "this kind of model has no vectors of users",
            where="fold_in",
            found=self.scorer.kind,
            wanted=f"{InnerProduct.kind} or autoencoder; scorer.scores has the scores",
        )


def folded(scorer: StoredScorer, rule: AnyRule, histories: UserItems) -> FoldedUsers:
    """The users who have these histories; `rule` is needed where a user is a vector."""
    if isinstance(scorer, ColdItems):
        known = folded(scorer.known, rule, scorer.of_known_items(histories)).scorer
        return FoldedUsers(replace(scorer, known=known), histories)
    if isinstance(scorer, Blend) and isinstance(rule, MemberRules):
        pairs = zip(scorer.members, rule.rules, strict=True)
        members = [folded(member, one, histories).scorer for member, one in pairs]
        return FoldedUsers(scorer.with_members(members), histories)
    if isinstance(scorer, FromHistories):
        return FoldedUsers(scorer.with_histories(histories), histories)
    if isinstance(scorer, PopularityScorer):
        return FoldedUsers(replace(scorer, n_users=histories.n_users), histories)
    if isinstance(scorer, InnerProduct) and rule is not None:
        assert not isinstance(rule, MemberRules)
        return FoldedUsers(scorer.with_users(rule(histories)), histories)
    raise ConfigError(
        "this kind of model takes no new users in",
        where="fold_in",
        found=scorer.kind,
        wanted="a kind that the library makes itself",
    )


def in_blocks(rule: Rule, histories: UserItems, progress: FoldProgress | None) -> FloatMatrix:
    """What the rule makes of the histories, some at a time; no user's bits depend on the others."""
    if progress is None or not histories.n_users:
        return rule(histories)
    parts = []
    for rows in row_blocks(histories.n_users, _USERS_AT_ONCE):
        parts.append(rule(some_of(histories, rows)))
        progress(int(rows[-1]) + 1, histories.n_users)
    return np.concatenate(parts)
