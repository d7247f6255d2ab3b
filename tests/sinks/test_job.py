from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers
from ratiorec.errors import UnknownIdError
from ratiorec.model.artifact import Artifact
from ratiorec.reranking.rules import Rules
from ratiorec.sinks import Job, Tally
from support.sink_places import small_model

MODEL = small_model()


def identity(model: Any = MODEL, users: Any = None, **options: Any) -> str:
    return Job.of(model, model.users.ids if users is None else users, **options).identity


def _priced(price: float) -> Artifact:
    return MODEL.with_items(Attributes(40, {"price": Numbers(np.full(40, price))}))


def test_the_same_request_of_the_same_model_has_the_same_identity() -> None:
    assert identity() == identity(small_model())


def test_what_changes_no_list_changes_no_identity() -> None:
    assert identity() == identity(memory_mb=64)
    assert identity() == identity(MODEL.with_card({"note": "another card"}))
    assert identity(deny=[1001, 1000, 1001]) == identity(deny=[1000, 1001])


def test_everything_else_changes_the_identity() -> None:
    scorer = MODEL.scorer.from_arrays(
        {name: 2 * array for name, array in MODEL.scorer.arrays().items()}, MODEL.seen
    )
    others = [
        identity(),
        identity(k=3),
        identity(exclude_seen=False),
        identity(allow=[1000, 1001]),
        identity(deny=[1000, 1001]),
        identity(deny=[]),
        identity(users=MODEL.users.ids[::-1]),
        identity(users=[0, 3]),
        identity(replace(MODEL, scorer=scorer)),
        identity(small_model([str(user) for user in MODEL.users.ids])),
        identity(small_model(item_ids=[str(item) for item in MODEL.items.ids])),
        identity(replace(MODEL, items=MODEL.items.with_names(["a name"] * 40))),
        identity(rules=Rules(diversity=0.5)),
        identity(rules=Rules(limits={"price": 1})),
        identity(rules=Rules(apart={"price": 2})),
        identity(rules=Rules(pins={1: 1001})),
        identity(_priced(1.0), rules=Rules(pins={1: 1001})),
        identity(_priced(2.0), rules=Rules(pins={1: 1001})),
    ]
    assert len(set(others)) == len(others)


def test_another_meaning_of_a_name_changes_the_identity() -> None:
    def named(**filters: str) -> str:
        return identity(_priced(1.0).with_filters(filters), rules=Rules(boosts=boosts))

    boosts = {"@hot": 50, "price < 1": 1}
    assert named(hot="price < 1") != named(hot="price > 1")
    assert named(hot="price < 1", other="price > 5") == named(hot="price < 1")


def test_ids_that_run_together_have_another_identity() -> None:
    assert identity(small_model(["a", "bc"])) != identity(small_model(["ab", "c"]))


def test_blocks_hold_consecutive_users_and_their_lists() -> None:
    job = Job.of(MODEL, MODEL.users.ids, 3)
    blocks = list(job.blocks(5, 20))
    assert [(block.n_before, len(block.user_ids)) for block in blocks] == [
        (5, 20),
        (25, 20),
        (45, 15),
    ]
    found = np.concatenate([block.lists.answer_ids for block in blocks])
    assert found.tolist() == MODEL.recommend(MODEL.users.ids[5:], 3).answer_ids.tolist()
    assert [Tally.of(block.lists).n_without for block in blocks] == [0, 0, 1]


def test_a_block_has_about_as_many_rows_whatever_the_length_of_lists() -> None:
    assert Job.of(MODEL, [0], 20).users_at_a_time == 2**17 // 20
    assert Job.of(MODEL, [0], 10**6).users_at_a_time == 2**17 // 40  # a catalogue of 40 items


def test_an_unknown_user_is_refused_before_anything_is_ranked() -> None:
    with pytest.raises(UnknownIdError, match="nobody"):
        Job.of(MODEL, ["nobody"])


def test_names_of_items_come_along() -> None:
    named = replace(MODEL, items=MODEL.items.with_names([f"item {n}" for n in range(40)]))
    (block,) = Job.of(named, named.users.ids, 3).blocks(0, 100)
    assert block.lists.to_dicts() == named.recommend(named.users.ids, 3).to_dicts()
