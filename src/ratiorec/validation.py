"""Held-out pairs that choose when to stop: which they are, and what they say of a model."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from ratiorec.card import OnCard
from ratiorec.data.interactions import Interactions
from ratiorec.data.split import RatioSplit, Split
from ratiorec.errors import ConfigError
from ratiorec.evaluate import evaluate
from ratiorec.scorers import Scorer
from ratiorec.seen import SeenItems

SELECTED_BY = "ndcg@20"
# enough to tell two epochs apart; more would make validation slower than training
MOST_VALIDATION_USERS = 50_000

Metrics = dict[str, float]


def judge(
    scorer: Scorer, train: Interactions, held_out: Interactions, *, device: torch.device
) -> Metrics:
    """Recall@20 and nDCG@20 on held-out pairs, ranked where the model is trained."""
    ranker = None if device.type == "cpu" else partial(OnCard, device=device)
    report = evaluate(scorer, SeenItems.of(train), held_out, ks=(20,), ranker=ranker)
    return {name: report.value(name) for name in ("recall@20", "ndcg@20")}


def split_for_validation(data: Interactions, fraction: float, rng: np.random.Generator) -> Split:
    """A share of each user's pairs held out, of at most so many users."""
    split = RatioSplit(fraction)(data, rng=rng)
    if split.held_out.n_pairs == 0:
        raise ConfigError(
            "no pair is left for validation",
            where="--validation",
            found=f"{fraction} of users with at most {int(data.user_degrees.max())} pairs",
            wanted="a larger share, or 0 to train for the configured epochs",
        )
    judged = np.flatnonzero(split.held_out.user_degrees)
    if len(judged) > MOST_VALIDATION_USERS:
        chosen = np.zeros(data.n_users, dtype=bool)
        chosen[rng.choice(judged, MOST_VALIDATION_USERS, replace=False)] = True
        held_out = split.held_out.select(chosen[split.held_out.pair_users])
        split = Split(split.train, held_out, split.n_users_kept_whole)
    return split
