"""A fit by several processes: to join those that torchrun has started, or to start them."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ratiorec import __version__
from ratiorec.config import to_table
from ratiorec.data.interactions import Dataset
from ratiorec.errors import ConfigError, MissingExtraError, require_extra
from ratiorec.machine import usable_cores
from ratiorec.settings import AnySettings, Settings, SolverSettings
from ratiorec.solvers.settings import EASE, ItemKNN, LocalEASE, PopularitySolver, Walk
from ratiorec.training.team import Team

RESTARTS = 3
LOST = 75  # the exit code of a process whose others are gone: try again
_SUMMED = (EASE, ItemKNN, LocalEASE, PopularitySolver, Walk)


def require_team(settings: AnySettings) -> None:
    """Refuse what several processes cannot fit together.

    Raises:
        ConfigError: It names the part that needs all in one place.
    """
    if isinstance(settings, Settings):
        from ratiorec.distributed.shards import require_shardable

        require_shardable(settings)
    elif not (isinstance(settings, SolverSettings) and isinstance(settings.solver, _SUMMED)):
        solver = getattr(settings, "solver", None)
        raise ConfigError(
            "this model is not fitted by several processes",
            where="--preset",
            found=getattr(solver, "name", type(settings).__name__),
            wanted="dregn-cf, dre-mf, softmax, walk, ease, dan, local-ease, item-knn or "
            "popularity; or one process",
        )


def require_torch() -> None:
    """Refuse a torch that cannot cut a checkpoint anew for another number of processes.

    Raises:
        MissingExtraError: It is older, or not installed.
    """
    torch = require_extra("torch", "torch", where="several processes")
    if importlib.util.find_spec("torch.distributed.checkpoint.hf_storage") is None:
        raise MissingExtraError(
            "torch is too old to train by several processes",
            where="several processes",
            found=f"torch {torch.__version__}",
            wanted="torch 2.8 or newer",
        )


@contextmanager
def joined(
    settings: AnySettings,
    device: str,
    folder: Path,
    load: Callable[[], Dataset],
    **alike: Any,
) -> Iterator[tuple[Dataset, Team]]:
    """The data and the team of this process, once all processes are there and agree.

    All but the first are silent. `alike` is what must be the same for all, beside settings, data
    and version.

    Raises:
        ConfigError: Processes differ, or the model is not fitted by several.
    """
    require_torch()
    import torch

    from ratiorec.distributed.closed_forms import ClosedFormTeam
    from ratiorec.distributed.ranks import Ranks
    from ratiorec.distributed.team import GradientTeam
    from ratiorec.training.experiment import find_device

    place = torch.device(str(find_device(device)))
    with _silent_unless_first(), _left_at_the_end(Ranks.join(place)) as ranks:
        ranks.together(lambda: require_team(settings))
        ranks.require_alike(version=__version__, torch=torch.__version__)
        ranks.require_alike(settings=to_table(settings), **alike)
        dataset = ranks.together(load)
        ranks.require_alike(data=dataset.train.sha256)
        if isinstance(settings, SolverSettings):
            yield dataset, ClosedFormTeam(ranks)
        else:
            yield dataset, GradientTeam(ranks).with_checkpoints(folder, dataset.train)


@contextmanager
def _left_at_the_end(ranks: Any) -> Iterator[Any]:
    """The ranks, left in good order; where one is gone the others cannot part."""
    yield ranks
    ranks.leave()


@contextmanager
def _silent_unless_first() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if os.environ["RANK"] != "0":
            nowhere = stack.enter_context(Path(os.devnull).open("w"))
            stack.enter_context(contextlib.redirect_stderr(nowhere))
        yield


def run_as_ranks(arguments: Sequence[str], n: int, *, say: Callable[[str], None]) -> int:
    """Run a command of ratiorec as n processes on this machine; its exit code.

    Where a process is lost, all start again from the last checkpoint, up to three times.
    """
    require_torch()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // n)))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    words = list(arguments)
    for attempt in range(RESTARTS + 1):
        codes = _run_once(words, n)
        if not codes:
            return 0
        told = _told(codes)
        if told not in (None, LOST) or attempt == RESTARTS:
            return LOST if told is None else told
        lost = ", ".join(str(rank) for rank, code in codes.items() if code < 0) or "unknown"
        say(
            f"note: lost process {lost} of {n}; all start again from the last checkpoint "
            f"({attempt + 1} of {RESTARTS} times)"
        )
        words += [] if "--resume" in words else ["--resume"]
    raise AssertionError("unreachable")


def _run_once(words: Sequence[str], n: int) -> Mapping[int, int]:
    """Start n processes; the exit codes of those that failed."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=n,
        run_id=f"ratiorec-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "ratiorec", *words)
    except ChildFailedError as failed:
        return {rank: failure.exitcode for rank, failure in failed.failures.items()}
    except SignalException as stopped:
        return {0: 128 + int(stopped.sigval)}
    return {}


def _told(codes: Mapping[int, int]) -> int | None:
    """The exit code that says most: a mistake, a bug, a stop on request; None for a lost process.

    >>> _told({0: 75, 1: -9}), _told({0: 2, 1: -15}), _told({0: 143})
    (None, 2, 143)
    """
    said = [code for code in codes.values() if code > 0 and code != LOST]
    if said:
        return min(said)
    return None if any(code < 0 for code in codes.values()) else LOST
