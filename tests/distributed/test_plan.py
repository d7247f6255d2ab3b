from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ratiorec.config import named_settings
from ratiorec.data.interactions import Interactions
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.distributed.counts import SharedTraining
from ratiorec.distributed.plan import Plan, PlannedDevice, known_devices
from ratiorec.distributed.ranks import Ranks
from ratiorec.distributed.shards import Population, start_shared
from ratiorec.errors import ConfigError
from ratiorec.settings import Settings
from support.rank_processes import on_ranks

DEGREE = 7  # as many as there are items where everything is a pair


def pairs(n_users: int, n_items: int) -> Interactions:
    """Equally many neighbouring items for each user."""
    first = np.arange(n_users) % (n_items - DEGREE + 1)
    return Interactions(
        Vocabulary.dense(n_users, kind="user"),
        Vocabulary.dense(n_items, kind="item"),
        DEGREE * np.arange(n_users + 1),
        (first[:, None] + np.arange(DEGREE)).ravel().astype(np.int32),
    )


def settings_of(preset: str, n_layers: int = 2, batch: int = 10) -> Settings:
    changes = (
        "encoder.dimension=5",
        f"encoder.n_layers={n_layers}",
        f"batches.n_users={batch}",
        "batches.min_steps_per_epoch=1",
    )
    _, settings = named_settings(preset, assignments=changes)
    assert isinstance(settings, Settings)
    return settings


def training_of(settings: Settings, data: Interactions, n_ranks: int) -> SharedTraining:
    return SharedTraining.of(
        settings,
        n_users=data.n_users,
        n_items=data.n_items,
        n_pairs=data.n_pairs,
        n_ranks=n_ranks,
    )


def started(settings: Settings, data: Interactions, ranks: Ranks) -> Any:
    own = data.of_users(ranks.rows(data.n_users))
    return start_shared(own, settings, ranks, rng=np.random.default_rng(0))


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("n_layers", [0, 3])
def test_what_is_counted_is_what_is_allocated(n_ranks: int, n_layers: int) -> None:
    settings, data = settings_of("dregn-cf", n_layers), pairs(41, 13)

    def allocated(ranks: Ranks) -> dict[str, int]:
        run = started(settings, data, ranks)
        everyone: Population = run.epochs.population
        own, adam = everyone.own, run._optimizer
        shared = own.indices.__array_interface__["data"][0]
        graph = run.encoder._graph
        kept = [] if graph is None else list(graph._loops)
        for rows in () if graph is None else (graph._to_users, graph._to_items):
            kept += [tensor for part in rows._parts.values() for tensor in part]
        return {
            "tables": sum(table.nbytes for table in run.encoder.parameters()),
            "optimiser": sum(table.nbytes for table in (*adam.means, *adam.squares)),
            "graph": sum(
                tensor.nbytes
                for tensor in kept
                if not shared <= tensor.data_ptr() < shared + own.indices.nbytes
            ),
            "degrees and order of users": sum(
                values.nbytes
                for values in (
                    own.indptr,
                    own.user_degrees,
                    own.item_degrees,
                    everyone.item_degrees,
                )
            )
            + 2 * everyone.eligible.nbytes,
            "pairs": data.indices.nbytes + data.indptr.nbytes,
            "ids": data.users.ids.nbytes + data.items.ids.nbytes,
        }

    training = training_of(settings, data, n_ranks)
    host = training.host()
    del host["dealing a batch"]
    assert on_ranks(n_ranks, allocated)[0] == {
        **training.tables(),
        "graph": training.graph("cpu"),
        **host,
    }


def test_a_batch_is_counted_to_the_byte() -> None:
    settings, data = settings_of("softmax"), pairs(40, DEGREE)

    def held(ranks: Ranks) -> int:
        batch = next(iter(started(settings, data, ranks).epochs(np.random.default_rng(0))))
        names = ("users", "candidates", "rows", "columns", "prior", "popularity", "inclusion")
        return sum(getattr(batch, name).nbytes for name in names)

    assert on_ranks(1, held) == [training_of(settings, data, 1).batch()]


@pytest.mark.parametrize(
    ("preset", "n_layers", "n_ranks"),
    [("dregn-cf", 3, 1), ("dregn-cf", 0, 2), ("dregn-cf", 2, 3), ("softmax", 2, 2)],
)
def test_what_is_sent_in_a_step_is_what_ranks_count(
    preset: str, n_layers: int, n_ranks: int
) -> None:
    settings, data = settings_of(preset, n_layers), pairs(41, 14)

    def sent(ranks: Ranks) -> tuple[int, int]:
        messages: list[int] = []
        talk = ranks._talk
        ranks._talk = lambda n_bytes: messages.append(n_bytes) or talk(n_bytes)  # type: ignore
        run = started(settings, data, ranks)
        before = ranks.n_bytes
        messages.clear()
        next(run.one_epoch(1))
        return ranks.n_bytes - before, len(messages)

    training = training_of(settings, data, n_ranks)
    assert on_ranks(n_ranks, sent) == [(training.bytes_sent, training.n_messages)] * n_ranks


def large(**changes: int) -> SharedTraining:
    _, settings = named_settings("dregn-cf")
    assert isinstance(settings, Settings)
    sizes = {"n_users": 10**8, "n_items": 10**7, "n_pairs": 10**9, "n_ranks": 8, **changes}
    return SharedTraining.of(settings, **sizes)


def test_tables_and_graph_are_cut_and_gathered_items_are_not() -> None:
    alone, eight = (Plan(large(n_ranks=n), PlannedDevice.named("h200")) for n in (1, 8))
    for name in ("tables", "optimiser", "layers"):
        assert eight.device_bytes[name] * 8 == alone.device_bytes[name]
    assert eight.device_bytes["gathered items"] > alone.training.n_items * 64 * 4
    assert eight.host_bytes["pairs"] == alone.host_bytes["pairs"]
    assert alone.exchange_seconds == 0 < eight.exchange_seconds


def test_a_plan_is_the_sum_of_its_parts() -> None:
    for name in known_devices():
        plan = Plan(large(), PlannedDevice.named(name))
        told = json.loads(json.dumps(plan.to_json(), allow_nan=False))
        assert told["memory"]["total"] == sum(told["memory"]["parts"].values())
        seconds = told["seconds"]
        assert seconds["step"] == seconds["compute"] + seconds["exchange"] > 0
        assert seconds["epoch"] == seconds["step"] * 40_000
        assert told["memory"]["fits"] == (
            told["memory"]["total"] * (8 if name == "cpu" else 1) <= told["memory"]["available"]
        )


def test_every_piece_of_work_has_a_rate_on_every_device() -> None:
    for name in known_devices():
        rates = PlannedDevice.named(name).seconds
        for loss in ("density-ratio", "softmax"):
            assert replace(large(), loss=loss).work().keys() <= rates.keys()
        assert min(rates.values()) >= 0


def test_a_step_takes_longer_with_more_of_anything() -> None:
    device = PlannedDevice.named("h200")
    base = Plan(large(n_users=10**7), device).step_seconds
    for more in ({"n_items": 10**8}, {"n_pairs": 10**10}, {"n_users": 10**8}):
        assert Plan(large(**{"n_users": 10**7, **more}), device).step_seconds > base


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ({"n_users": 7}, "fewer users than processes"),
        ({"n_users": 10, "n_items": 10, "n_pairs": 101}, "more pairs than users and items"),
        ({"n_users": 2**31}, "more than can be numbered"),
        ({"n_items": 2**31}, "more than can be numbered"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, int], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        large(**sizes)


def test_a_graph_beyond_the_indices_of_a_gpu_is_refused_there_alone() -> None:
    training = large(n_pairs=10**11)
    with pytest.raises(ConfigError, match="more pairs than the graph of one GPU"):
        Plan(training, PlannedDevice.named("h200"))
    assert not Plan(training, PlannedDevice.named("cpu")).fits
