from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ratiorec.batches.users import Batch
from ratiorec.settings import UserBatches
from ratiorec_lab.together.watched import Found, Job, digest, watched
from support.rank_processes import on_ranks
from support.small_data import random_interactions

SIZE = {"users": 60, "items": 40, "pairs": 400}
TINY = "dregn-cf:encoder.dimension=4:encoder.n_layers=2:batches.n_users=25"
JOB = Job(SIZE, TINY, n_steps=4, cut_for=(3,))
EVERYONE = slice(0, 60)


@pytest.fixture(scope="module")
def alone() -> Found:
    return watched(JOB, None)


@pytest.fixture(scope="module")
def three() -> list[Found]:
    return on_ranks(3, lambda ranks: watched(JOB, ranks))


def test_what_ranks_are_dealt_is_bit_by_bit_what_one_process_would_give_them(
    alone: Found, three: list[Found]
) -> None:
    together = {part: told for one in three for part, told in one["digests"].items()}
    assert together == alone["digests"]
    assert {len(told) for told in together.values()} == {4}
    other = watched(replace(JOB, seed=1), None)["digests"]
    assert all(not set(other[part]) & set(told) for part, told in together.items())


def test_ranks_share_the_tables_and_the_work(alone: Found, three: list[Found]) -> None:
    for what in ("tables", "optimizer"):
        parts = [one["bytes"][what] for one in three]
        assert sum(parts) == pytest.approx(alone["bytes"][what], rel=0.01)  # counters of steps
        assert max(parts) < 0.4 * alone["bytes"][what]
    operations = sum(one["operations_per_step"] for one in three)
    assert operations == pytest.approx(alone["operations_per_step"])
    assert sum(one["pairs"] for one in three) == alone["pairs"]


def test_every_step_tells_its_time_and_what_was_said_in_it(
    alone: Found, three: list[Found]
) -> None:
    assert all(len(one["steps"]) == 4 for one in (alone, *three))
    assert all(step["talking"] == step["n_bytes"] == 0 for step in alone["steps"])
    for step in three[1]["steps"]:
        assert 0 < step["talking"] < step["seconds"]
        assert step["n_bytes"] > 0


@pytest.fixture
def batch() -> Batch:
    data = random_interactions(np.random.default_rng(0), n_users=60, n_items=9, n_pairs=200)
    epochs = UserBatches(20)(data, device=torch.device("cpu"))
    return next(iter(epochs(np.random.default_rng(1))))


@pytest.mark.parametrize("field", ["users", "rows", "columns", "candidates"])
def test_a_batch_that_differs_anywhere_has_another_digest(batch: Batch, field: str) -> None:
    changed = getattr(batch, field).clone()
    changed[-1] = changed[0]
    other = replace(batch, **{field: changed})
    before, after = (digest(one, one.users.numpy(), EVERYONE) for one in (batch, other))
    assert before != after


def test_a_digest_is_of_the_users_of_one_rank(batch: Batch) -> None:
    users = batch.users.numpy()
    theirs = np.flatnonzero(users >= 30)
    outside = int(np.flatnonzero(np.isin(batch.rows.numpy(), theirs))[0])
    columns = batch.columns.clone()
    columns[outside] = (columns[outside] + 1) % len(batch.candidates)
    other = replace(batch, columns=columns)
    for there, is_equal in ((slice(0, 30), True), (slice(30, 60), False)):
        assert (digest(batch, users, there) == digest(other, users, there)) is is_equal
