"""Ranks as forked processes, which have imported everything already."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ratiorec.distributed.ranks import Ranks

SECONDS = 120
_FORK = multiprocessing.get_context("fork")


def on_ranks(n: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """What `work` gives on each of n ranks; an error of one is an error here."""
    with tempfile.TemporaryDirectory() as place:
        ends = [_FORK.Pipe(duplex=False) for _ in range(n)]
        processes = [
            _FORK.Process(target=_run, args=(rank, n, place, work, end), daemon=True)
            for rank, (_, end) in enumerate(ends)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            for process in processes:
                process.start()
        for _, sending in ends:
            sending.close()  # so that a rank that ends without a word is noticed
        told = [_answer(receiving) for receiving, _ in ends]
        for process in processes:
            process.join(SECONDS)
    failures = [text for _, text in told if text is not None]
    assert not failures, "\n".join(failures)
    return [result for result, _ in told]


def _answer(receiving: Connection) -> tuple[Any, str | None]:
    assert receiving.poll(SECONDS), "a rank does not answer"
    try:
        return receiving.recv()  # type: ignore[no-any-return]
    except EOFError:
        return None, "a rank has ended without a word"


def _run(rank: int, n: int, place: str, work: Callable[[Ranks], Any], end: Connection) -> None:
    torch.set_num_threads(1)  # threads of the parent are not here
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(n)}
    try:
        store = (Path(place) / "store").as_uri()
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=n)
        end.send((work(Ranks(torch.device("cpu"))), None))
        dist.barrier()
    except BaseException:
        end.send((None, f"rank {rank}: {traceback.format_exc()}"))
    os._exit(0)
