"""The demonstration: synthetic pairs whose true ratio is known, from training to a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.interactions import Interactions
from ratiorec.data.synthetic import Synthetic, SyntheticData
from ratiorec.encoders.settings import Factorisation
from ratiorec.evaluation.evaluate import Report
from ratiorec.losses.density_ratio import DensityRatio, GeneratorName, UniformWeights
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from ratiorec.settings import Settings, Training, UserBatches
from ratiorec.training.experiment import fit
from ratiorec.training.fit import Observer
from ratiorec_lab.report import charts, page
from ratiorec_lab.report.page import Estimate, Table

# many pairs for each user, so that what is random in them hides little of the truth
POPULATION = Synthetic(n_users=3000, n_items=400, mean_pairs=80)
METRICS = ("recall@20", "ndcg@20", "precision@20", "hit_rate@20")

# the paper's method, for data small enough that one batch holds every user
RANKING = Settings(training=Training(learning_rate=0.02, l2=0.005, epochs=400))


def recovery_settings(generator: GeneratorName = "least-squares") -> Settings:
    """A risk whose minimiser is the true ratio: even weights and no corrections."""
    return Settings(
        encoder=Factorisation(dimension=8),
        risk=DensityRatio(
            generator=generator,
            weights=UniformWeights(),
            candidate_correction="none",
            upper_bound=float("inf"),
        ),
        batches=UserBatches(10_000),
        training=Training(learning_rate=0.02, l2=0.2, epochs=1000, validate_every_epochs=10),
    )


@dataclass(frozen=True)
class Demonstration:
    """What was trained, and what came out."""

    data: SyntheticData
    model: Artifact
    estimator: Artifact
    reports: dict[str, Report]
    correlations: dict[str, float]


def run(*, seed: int = 0, observe: Observer = lambda event: None) -> Demonstration:
    """Draw the pairs, train, judge beside most-popular, compare with the truth."""
    data = POPULATION(rng=np.random.default_rng(seed))
    model = fit(data.dataset, settings=RANKING, seed=seed, device="cpu", observe=observe)
    even = fit(
        data.dataset.train,
        settings=recovery_settings(),
        seed=seed,
        device="cpu",
        observe=observe,
    )
    test = data.dataset.test
    assert test is not None
    reports = {
        "DREGN-CF": model.evaluate(test),
        "uniform weights": even.evaluate(test),
        "most popular": most_popular(data.dataset.train).evaluate(test),
    }
    return Demonstration(
        data,
        model,
        even,
        reports,
        {
            "uniform weights": ratio_correlation(even, data),
            "DREGN-CF": ratio_correlation(model, data),
        },
    )


def most_popular(train: Interactions) -> Artifact:
    """Every user gets the items with most users: one factor, the item's popularity."""
    popularity = train.item_degrees.astype(np.float32)[:, None]
    everyone = np.ones((train.n_users, 1), dtype=np.float32)
    return Artifact.of(InnerProduct(everyone, popularity), train, settings={}, card={})


def unlabelled_pairs(
    model: Artifact, data: SyntheticData
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The true and the estimated ratio of every pair that is not in the training data."""
    train = data.dataset.train
    scores = model.scorer.scores(np.arange(train.n_users)).astype(np.float64)
    unlabelled = np.ones(scores.shape, dtype=bool)
    unlabelled[train.pair_users, train.indices] = False
    return data.ratio[unlabelled], np.logaddexp(0, scores[unlabelled])


def ratio_correlation(model: Artifact, data: SyntheticData) -> float:
    """Spearman's rank correlation of true and estimated ratio over unlabelled pairs."""
    from scipy.stats import spearmanr

    return float(spearmanr(*unlabelled_pairs(model, data)).statistic)


def lists(demonstration: Demonstration, n_users: int = 3, k: int = 5) -> list[dict[str, Any]]:
    """History and recommendations of a few users, by name."""
    model = demonstration.model
    train = demonstration.data.dataset.train
    chosen = np.linspace(0, train.n_users - 1, n_users).round().astype(int)
    shown = []
    for user in chosen:
        table = model.recommend([train.users.ids[user]], k=k)
        shown.append(
            {
                "user": train.users.name(user),
                "history": [train.items.name(item) for item in train.positives(user)[:8]],
                "n_history": len(train.positives(user)),
                "recommended": [(row["item_name"], row["score"]) for row in table.to_dicts()],
            }
        )
    return shown


def write_report(demonstration: Demonstration, path: Path) -> None:
    """One HTML file: training curve, metric table, lists, ratio plot."""
    page.write(
        page.Page(
            title="ratiorec: a demonstration",
            lead="Synthetic pairs with a known density ratio; a model trained on them, judged "
            "beside most-popular, and compared with the truth.",
            sections=(
                _metric_section(demonstration),
                _curve_section(demonstration),
                _list_section(demonstration),
                _ratio_section(demonstration),
            ),
            footer="Made by ratiorec demo.",
        ),
        path,
    )


def _metric_section(demonstration: Demonstration) -> page.Section:
    rows: list[list[Any]] = []
    for name, report in demonstration.reports.items():
        figures = report.to_json()["metrics"]
        rows.append([name, *(Estimate(**figures[metric]) for metric in METRICS)])
    train = demonstration.data.dataset.train
    table = Table(
        ["", *METRICS],
        rows,
        "Mean over users, with 95 % bootstrap intervals",
        highest=range(1, len(METRICS) + 1),
    )
    lead = page.Paragraph(
        f"{train.n_users:,} users, {train.n_items:,} items, {train.n_pairs:,} pairs for "
        "training; a fifth of every user's pairs was held out and is asked for here."
    )
    return page.Section("How good are the lists?", [lead, table])


def _curve_section(demonstration: Demonstration) -> page.Section:
    curve = demonstration.model.card["curve"]
    judged = [record for record in curve if "validation" in record]
    epochs = [record["epoch"] for record in judged]
    series = [
        charts.Series(name, epochs, [record["validation"][metric] for record in judged])
        for name, metric in (("Recall@20", "recall@20"), ("nDCG@20", "ndcg@20"))
    ]
    chosen = demonstration.model.card["epochs"]
    chart = charts.line_chart(
        series,
        title="Validation while searching for the stopping step",
        x_label="epoch",
        y_label="on held-out pairs",
        mark=(chosen, f"chosen: epoch {chosen:g}"),
    )
    told = (
        "A tenth of every user's training pairs chose the epoch; the model was then trained "
        "anew on all of them for as long."
    )
    return page.Section("When did training stop?", [page.Figure(chart, told)])


def _list_section(demonstration: Demonstration) -> page.Section:
    groups = [
        page.Section(
            shown["user"],
            [
                page.Listing(
                    f"History ({shown['n_history']} items)",
                    [(name, "") for name in shown["history"]],
                ),
                page.Listing(
                    "Recommended",
                    [(name, f"{score:.2f}") for name, score in shown["recommended"]],
                    numbered=True,
                ),
            ],
        )
        for shown in lists(demonstration)
    ]
    return page.Section("What is recommended?", [page.Columns(groups)])


def _ratio_section(demonstration: Demonstration) -> page.Section:
    chart = charts.scatter_chart(
        *unlabelled_pairs(demonstration.estimator, demonstration.data),
        title="Estimated against true ratio, pairs not in the training data",
        x_label="true ratio r(i|u)",
        y_label="estimated ratio",
        log_x=True,
        log_y=True,
        diagonal=True,
    )
    told = (
        f"With uniform weights the risk is minimised by the true ratio; Spearman's rank "
        f"correlation of the two is {demonstration.correlations['uniform weights']:.3f}. The "
        f"hard-sample weights of DREGN-CF aim at the top of each list instead; its order still "
        f"correlates at {demonstration.correlations['DREGN-CF']:.3f}."
    )
    return page.Section("Is it the ratio?", [page.Figure(chart, told)])
