"""A model whose items have a category, a brand (a number), tags and a price, with gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags, Texts
from ratiorec.model.artifact import Artifact
from support.small_models import small_model
from support.small_scorers import MAKERS


def attributes(n_items: int, seed: int = 0) -> Attributes:
    rng = np.random.default_rng(seed)
    kinds = ["tea", "jam", "oats", None]
    tags = ["organic", "new", "sale", "gift"]
    brands = rng.integers(0, 6, n_items).astype(float)
    brands[rng.random(n_items) < 0.1] = np.nan
    return Attributes(
        n_items,
        {
            "category": Categories.of(
                kinds[c] for c in rng.choice(4, n_items, p=[0.5, 0.2, 0.2, 0.1])
            ),
            "brand": Numbers(brands),
            "tags": Tags.of(
                rng.choice(tags, rng.integers(0, 4), replace=False) for _ in range(n_items)
            ),
            "price": Numbers(rng.integers(1, 100, n_items).astype(float)),
            "about": Texts(np.array(["words"] * n_items, object)),
        },
    )


def model_of(kind: str, n_items: int = 45, n_users: int = 8) -> Artifact:
    """A small model with a scorer of this kind."""
    model = small_model(n_users=n_users, n_items=n_items)
    scorer = MAKERS[kind](model.seen, n_items)
    return replace(model, scorer=scorer).with_items(attributes(n_items))


@pytest.fixture(scope="session")
def shop() -> Artifact:
    return model_of("inner_product")
