from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist

from ratiorec.distributed.ranks import Ranks, rows_of_rank
from ratiorec.errors import ConfigError, DataError, RatiorecError
from support.rank_processes import on_ranks

TABLE = torch.arange(21.0).reshape(7, 3)


def told(work: object, ranks: Ranks) -> tuple[type[Exception], str, bool]:
    try:
        work()  # type: ignore[operator]
    except RatiorecError as error:
        return type(error), error.message, error.is_told_here
    raise AssertionError("no error")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_the_parts_of_a_table_are_the_table(size: int) -> None:
    rows = [rows_of_rank(rank, size, 7) for rank in range(size)]
    assert [place for part in rows for place in range(7)[part]] == list(range(7))
    assert max(part.stop - part.start for part in rows) == -(-7 // size)


def test_what_is_gathered_is_whole_and_what_is_scattered_is_summed() -> None:
    def work(ranks: Ranks) -> object:
        rows = ranks.rows(7)
        whole = ranks.gathered(TABLE[rows], 7)
        summed = ranks.scattered((ranks.rank + 1) * TABLE)
        return whole.numpy(), summed.numpy(), ranks.total(torch.tensor(ranks.rank + 1.0)).item()

    found = on_ranks(5, work)  # the last rank has no row
    for rank, (whole, summed, total) in enumerate(found):
        np.testing.assert_array_equal(whole, TABLE)
        np.testing.assert_array_equal(summed, 15 * TABLE[rows_of_rank(rank, 5, 7)])
        assert total == 1 + 2 + 3 + 4 + 5


def test_a_sum_leaves_what_was_summed_alone_also_where_it_goes_through_the_host() -> None:
    def work(ranks: Ranks) -> object:
        found = []
        for ranks._by_host in (False, True):  # as where several ranks share a GPU
            own = np.array([ranks.rank, 7])
            found.append((ranks.total(torch.from_numpy(own)).tolist(), own.tolist()))
        return found

    assert on_ranks(2, work) == [[([1, 14], [rank, 7])] * 2 for rank in range(2)]


def test_values_are_joined_in_the_order_of_the_ranks() -> None:
    def work(ranks: Ranks) -> object:
        mine = np.full(ranks.rank, ranks.rank)
        return ranks.joined(mine).tolist(), ranks.on_first(ranks.rank), ranks.from_first(ranks.rank)

    first, *others = on_ranks(3, work)
    assert first == ([1, 2, 2], [0, 1, 2], 0)
    assert others == [([1, 2, 2], None, 0)] * 2


def test_a_flag_that_one_raises_is_raised_for_all() -> None:
    agreed = on_ranks(3, lambda ranks: ranks.agreed(ranks.rank == 1, False))
    assert agreed == [(True, False)] * 3


def test_an_error_of_one_is_raised_by_all_and_told_by_the_first() -> None:
    def fails(ranks: Ranks) -> None:
        if ranks.rank == 1:
            raise DataError("no file", where="x.csv", found="nothing", wanted="a file")

    found = on_ranks(3, lambda ranks: told(lambda: ranks.together(lambda: fails(ranks)), ranks))
    assert [kind for kind, _, _ in found] == [DataError] * 3
    assert all("x.csv, on rank 1 of 3" in text for _, text, _ in found)
    assert [here for _, _, here in found] == [True, False, False]


def test_ranks_that_differ_are_refused_by_what_and_by_whom() -> None:
    def work(ranks: Ranks) -> object:
        settings = {"training": {"l2": 0.1 if ranks.rank == 2 else 0.2}, "risk": {"a": 1}}
        ranks.require_alike(settings={"risk": 1}, seed=3)
        return told(lambda: ranks.require_alike(seed=3, settings=settings), ranks)

    for kind, text, _ in on_ranks(3, work):
        assert kind is ConfigError
        assert "different settings" in text
        assert "rank 2 of 3" in text
        assert "training = l2 = 0.1" in text
        assert "l2 = 0.2, as rank 0 has" in text


def test_a_rank_that_is_gone_is_told_by_those_who_are_left() -> None:
    def work(ranks: Ranks) -> None:
        ranks.total(torch.zeros(1))
        if ranks.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(100):
            ranks.total(torch.zeros(1))

    with pytest.raises(AssertionError) as told:
        on_ranks(2, work)
    assert "LostRankError: another process of this training is gone" in str(told.value)
    assert "rank 0 of 2" in str(told.value)
    assert "GLHF" not in str(told.value).partition("LostRankError")[2], "in our words"


def test_bytes_are_counted_as_a_ring_sends_them() -> None:
    def work(ranks: Ranks) -> float:
        ranks.gathered(torch.zeros(4, 8), 8)
        ranks.scattered(torch.zeros(8, 8))
        return ranks.facts()["mb_sent"] * 2**20, ranks.n_bytes  # type: ignore[return-value]

    for _, n_bytes in on_ranks(2, work):
        assert n_bytes == 2 * (4 * 8 * 4)  # half of the table each way, four bytes a number


def test_ranks_that_start_again_do_not_look_for_those_who_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torchrun keeps its store over restarts, with the addresses of earlier ranks in it."""
    kept = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(kept.port), "GROUP_WORLD_SIZE": "1"}
    for name, value in (there | {"TORCHELASTIC_USE_AGENT_STORE": "True"}).items():
        monkeypatch.setenv(name, value)

    def work(ranks: Ranks) -> list[int]:
        ranks.leave()
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1" and ranks.rank == 1:
            time.sleep(0.3)  # the first rank comes early
        found = Ranks.join(torch.device("cpu"))
        return found.everywhere(found.rank)

    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        assert on_ranks(2, work) == [[0, 1]] * 2
