"""Every risk as loops over plain lists, written from the formulas and from nothing else.

Weights are computed from values alone, so they carry no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reference.dual import Dual, exp, log, log1p, reciprocal, total, variable

Table = Sequence[Sequence[float]]
Duals = list[list[Dual]]
Loss = Callable[[Dual], Dual]


@dataclass(frozen=True)
class Sample:
    """A batch in lists; `positives[u]` are places in `candidates`."""

    users: list[int]
    candidates: list[int]
    positives: list[list[int]]
    prior: list[float]
    popularity: list[float]
    inclusion: list[float]


@dataclass(frozen=True)
class Losses:
    positive: Loss
    unlabelled: Loss


def _power(b: float) -> Losses:
    return Losses(
        lambda r: (Dual(1.0) - exp(log(r) * b)) / b, lambda r: exp(log(r) * (1 + b)) / (1 + b)
    )


LOSSES: Mapping[str, Losses] = {
    "least-squares": Losses(lambda r: -r, lambda r: r * r / 2),
    "kullback-leibler": Losses(lambda r: -log(r), lambda r: r),
    "logistic": Losses(lambda r: log1p(reciprocal(r)), log1p),
    "power-0.4": _power(0.4),
    "power-2": _power(2.0),
}
# exponents on both sides of least squares, to be named beside the generators without settings
POWERS: Mapping[str, float] = {"power-0.4": 0.4, "power-2": 2.0}
LINKS: Mapping[str, Loss] = {"softplus": lambda s: log1p(exp(s)), "exponential": exp}

# w⁺ and w⁻ of every batch user and candidate, from the sample and the values of r̂
PairWeights = tuple[list[list[float]], list[list[float]]]
WeightRule = Callable[[Sample, list[list[float]]], PairWeights]


def uniform(sample: Sample, ratios: list[list[float]]) -> PairWeights:
    ones = [[1.0 for _ in row] for row in ratios]
    return ones, ones


def popularity(exponent: float) -> WeightRule:
    def rule(sample: Sample, ratios: list[list[float]]) -> PairWeights:
        frequency = [n**exponent for n in sample.popularity]
        return [[1.0 for _ in row] for row in ratios], [frequency for _ in ratios]

    return rule


def confident(positive_weight: float) -> WeightRule:
    def rule(sample: Sample, ratios: list[list[float]]) -> PairWeights:
        ones = [[1.0 for _ in row] for row in ratios]
        return [[positive_weight for _ in row] for row in ratios], ones

    return rule


def hard_sample(sample: Sample, ratios: list[list[float]]) -> PairWeights:
    return [[1 / r for r in row] for row in ratios], ratios


def ratio_power(positive: float, unlabelled: float) -> WeightRule:
    def rule(sample: Sample, ratios: list[list[float]]) -> PairWeights:
        return [[r**-positive for r in row] for row in ratios], [
            [r**unlabelled for r in row] for row in ratios
        ]

    return rule


def frozen(users: Table, items: Table, link: str) -> WeightRule:
    def rule(sample: Sample, ratios: list[list[float]]) -> PairWeights:
        first = _values(_ratios(_variables(users, "u"), _variables(items, "i"), sample, link))
        return hard_sample(sample, first)

    return rule


def density_ratio(
    users: Table,
    items: Table,
    sample: Sample,
    *,
    generator: str,
    link: str,
    weights: WeightRule,
    inverse_inclusion: bool,
    upper_bound: float,
    mixing: float = 0.0,
) -> Dual:
    """R_u = Ê₊[π_u(w⁺ − w⁻)ℓ± + w⁺ℓ₊] + R^cor + max(Ê[w⁻ℓ±] − R^cor, 0), mean over users.

    With `mixing` all but the gain counts 1 − α, and αÊ₊[w⁺ℓ±] is added.
    """
    losses = LOSSES[generator]
    ratios = _ratios(_variables(users, "user"), _variables(items, "item"), sample, link)
    positive, unlabelled = weights(sample, _values(ratios))
    risks = []
    for u, liked in enumerate(sample.positives):
        on_positives = [losses.unlabelled(ratios[u][i]) for i in liked]
        by_positive = _self_normalised(on_positives, [positive[u][i] for i in liked])
        by_unlabelled = _self_normalised(on_positives, [unlabelled[u][i] for i in liked])
        gains = [losses.positive(ratios[u][i]) for i in liked]
        gain = _self_normalised(gains, [positive[u][i] for i in liked])
        everywhere = _self_normalised(
            [losses.unlabelled(r) for r in ratios[u]],
            _candidate_weights(unlabelled[u], sample, inverse_inclusion=inverse_inclusion),
        )
        bound = by_positive / upper_bound
        split = (by_positive - by_unlabelled) * sample.prior[u]
        denominator = split + bound + _positive_part(everywhere - bound)
        risks.append(denominator * (1 - mixing) + by_positive * mixing + gain)
    return total(risks) / len(risks)


def unlabelled_term(
    users: Table,
    items: Table,
    *,
    generator: str,
    link: str,
    candidates: Sequence[float],
    ratio_power: float,
    first: Sequence[Sequence[float]] | None,
    divisor: float | None,
) -> list[Dual]:
    """R±_u = Σ_i w⁻ ℓ±(r̂) / Z_u with w⁻ = c_i r̂^γ r̂₁; `first` holds r̂₁ of every pair."""
    terms = []
    for u, user in enumerate(_variables(users, "user")):
        losses, weights = [], []
        for i, item in enumerate(_variables(items, "item")):
            ratio = LINKS[link](total(a * b for a, b in zip(user, item, strict=True)))
            frozen_ratio = 1.0 if first is None else first[u][i]
            losses.append(LOSSES[generator].unlabelled(ratio))
            weights.append(candidates[i] * ratio.value**ratio_power * frozen_ratio)
        weighted = total(loss * w for loss, w in zip(losses, weights, strict=True))
        terms.append(weighted / (sum(weights) if divisor is None else divisor))
    return terms


def corrected_mean(terms: Sequence[Dual], bounds: Sequence[float]) -> Dual:
    """The mean of bound + max(R± − bound, 0) over users."""
    corrected = [
        Dual(bound) + _positive_part(term - Dual(bound))
        for term, bound in zip(terms, bounds, strict=True)
    ]
    return total(corrected) / len(corrected)


def ranking_ulsif(
    users: Table,
    items: Table,
    sample: Sample,
    *,
    weights: WeightRule,
    inverse_inclusion: bool,
    upper_bound: float,
) -> Dual:
    """The paper's own form: R⁺¹ − R⁺² − R⁺³ + R^cor + max(R± − R^cor, 0), softplus."""
    ratios = _ratios(_variables(users, "user"), _variables(items, "item"), sample, "softplus")
    w_plus, w_minus = weights(sample, _values(ratios))
    risks = []
    for u, liked in enumerate(sample.positives):
        sum_plus = sum(w_plus[u][i] for i in liked)
        sum_minus = sum(w_minus[u][i] for i in liked)
        squares = [r * r for r in ratios[u]]
        r1 = total(squares[i] * w_plus[u][i] for i in liked) * (sample.prior[u] / (2 * sum_plus))
        r2 = total(squares[i] * w_minus[u][i] for i in liked) * (sample.prior[u] / (2 * sum_minus))
        r3 = total(ratios[u][i] * w_plus[u][i] for i in liked) / sum_plus
        on_all = _candidate_weights(w_minus[u], sample, inverse_inclusion=inverse_inclusion)
        all_squares = [square * w for square, w in zip(squares, on_all, strict=True)]
        unlabelled = total(all_squares) / (2 * sum(on_all))
        cor = total(squares[i] * w_plus[u][i] for i in liked) / (2 * upper_bound * sum_plus)
        risks.append(r1 - r2 - r3 + cor + _positive_part(unlabelled - cor))
    return total(risks) / len(risks)


def weighted_dre(
    users: Table, items: Table, sample: Sample, *, link: str, weights: WeightRule
) -> Dual:
    """Row (b): Ê₊[π_u(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²] with plain means."""
    return _plain_risk(users, items, sample, link, weights, lambda prior: (prior, 1.0))


def weighted_pu(
    users: Table, items: Table, sample: Sample, *, link: str, weights: WeightRule
) -> Dual:
    """Row (a): π_u Ê₊[(w⁺ − w⁻)r̂² − 2w⁺r̂] + Ê[w⁻r̂²] with plain means."""
    return _plain_risk(users, items, sample, link, weights, lambda prior: (prior, prior))


def half_squared_norms(users: Table, items: Table, sample: Sample) -> Dual:
    """½ mean over batch users of ‖e_u⁰‖² + ½ mean over candidates of ‖e_i⁰‖²."""
    user_rows, item_rows = _variables(users, "user"), _variables(items, "item")
    on_users = total(x * x for u in sample.users for x in user_rows[u])
    on_items = total(x * x for i in sample.candidates for x in item_rows[i])
    return on_users / (2 * len(sample.users)) + on_items / (2 * len(sample.candidates))


def _plain_risk(
    users: Table,
    items: Table,
    sample: Sample,
    link: str,
    weights: WeightRule,
    factors: Callable[[float], tuple[float, float]],
) -> Dual:
    """`factors` of a user's prior multiply the squares and the gains of his positives."""
    ratios = _ratios(_variables(users, "user"), _variables(items, "item"), sample, link)
    w_plus, w_minus = weights(sample, _values(ratios))
    risks = []
    for u, liked in enumerate(sample.positives):
        on_square, on_gain = factors(sample.prior[u])
        labelled = total(
            ratios[u][i] * ratios[u][i] * (on_square * (w_plus[u][i] - w_minus[u][i]))
            - ratios[u][i] * (on_gain * 2 * w_plus[u][i])
            for i in liked
        )
        unlabelled = total(r * r * w for r, w in zip(ratios[u], w_minus[u], strict=True))
        risks.append(labelled / len(liked) + unlabelled / len(sample.candidates))
    return total(risks) / len(risks)


def _variables(table: Table, kind: str) -> Duals:
    return [
        [variable((kind, row, column), x) for column, x in enumerate(vector)]
        for row, vector in enumerate(table)
    ]


def _ratios(users: Duals, items: Duals, sample: Sample, link: str) -> Duals:
    """r̂ of every batch user with every candidate."""
    return [
        [
            LINKS[link](total(a * b for a, b in zip(users[u], items[i], strict=True)))
            for i in sample.candidates
        ]
        for u in sample.users
    ]


def _values(table: Duals) -> list[list[float]]:
    return [[x.value for x in row] for row in table]


def _self_normalised(values: list[Dual], weights: list[float]) -> Dual:
    return total(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def _candidate_weights(
    unlabelled: list[float], sample: Sample, *, inverse_inclusion: bool
) -> list[float]:
    if not inverse_inclusion:
        return unlabelled
    return [w / s for w, s in zip(unlabelled, sample.inclusion, strict=True)]


def _positive_part(x: Dual) -> Dual:
    return x if x.value > 0 else Dual(0.0)
