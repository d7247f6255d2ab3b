"""Small models of several kinds, as the files that a model folder holds."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct, ItemWeights, Neighbours, PopularityScorer, StoredScorer
from ratiorec.scorers.scorer import UserItems

N_USERS, N_ITEMS = 8, 9


def small_models() -> list[Artifact]:
    """One of each of four kinds, with ids of text and names, or with numbers for ids."""
    rng = np.random.default_rng(0)
    histories = [sorted(rng.choice(N_ITEMS, 3, replace=False).tolist()) for _ in range(N_USERS)]
    seen = UserItems(np.arange(N_USERS + 1) * 3, np.array(histories, np.int32).ravel())

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    near = UserItems(np.arange(N_ITEMS + 1), np.arange(N_ITEMS, dtype=np.int32)[::-1].copy())
    scorers: list[StoredScorer] = [
        InnerProduct(floats(N_USERS, 4), floats(N_ITEMS, 4)),
        ItemWeights(floats(N_ITEMS, N_ITEMS), seen),
        Neighbours(near.indptr, near.indices, floats(N_ITEMS), seen),
        PopularityScorer(floats(N_ITEMS), N_USERS),
    ]
    return [_model(scorer, seen, is_text=n % 2 == 0) for n, scorer in enumerate(scorers)]


def _model(scorer: StoredScorer, seen: UserItems, *, is_text: bool) -> Artifact:
    users, items = Vocabulary(np.arange(N_USERS), "user"), Vocabulary(np.arange(N_ITEMS), "item")
    if is_text:
        users = Vocabulary(np.array([f"user{n}" for n in range(N_USERS)], object), "user")
        items = Vocabulary(np.array([f"item{n}" for n in range(N_ITEMS)], object), "item")
        items = items.with_names([f"The {n}th" for n in range(N_ITEMS)])
    return Artifact(scorer, users, items, seen, card={"metrics": {"recall@20": 0.5}})


def with_attributes(model: Artifact) -> Artifact:
    """The model with a price and a kind of each item, of which some are missing."""
    prices = np.where(np.arange(N_ITEMS) % 4 == 0, np.nan, np.arange(N_ITEMS))
    kinds = Categories.of([None, "tea", "jam"][n % 3] for n in range(N_ITEMS))
    return model.with_items(Attributes(N_ITEMS, {"price": Numbers(prices), "kind": kinds}))


def saved_files(model: Artifact) -> dict[str, bytes]:
    """The header and the arrays of a saved model, the latter under one name for all."""
    from ratiorec_lab.fuzz.cases import MODEL_ARRAYS, MODEL_HEADER

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        (arrays,) = Path(folder, "model").glob("*.safetensors")
        header = Path(folder, "model", MODEL_HEADER).read_bytes()
        return {MODEL_HEADER: header, MODEL_ARRAYS: arrays.read_bytes()}
