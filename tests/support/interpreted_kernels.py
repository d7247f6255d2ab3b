"""Triton's kernels without a GPU: run by its interpreter, in a process of their own.

The interpreter must be asked for before the package is loaded, and the check of signatures (see
conftest.py) must not touch what it reads the source of. One process serves all tests: it is
told of a case by a file, and answers with another.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ratiorec.kernels.blocks import Adjacency
from ratiorec.kernels.pointwise import GENERATORS, LINKS, power_divergence
from ratiorec.kernels.softmax import LogTotals
from ratiorec.kernels.triton.unlabelled import Tiles, Triton
from ratiorec.kernels.unlabelled import FirstModel, Unlabelled, UnlabelledTerm

Case = tuple[Tensor, Tensor, UnlabelledTerm, Tensor]


class Interpreter:
    """The process, and the way to ask it."""

    def __init__(self, folder: Path) -> None:
        self._case, self._answer = folder / "case.pt", folder / "answer.pt"
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._case), str(self._answer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def unlabelled(self, backend: Triton, case: Case) -> Unlabelled:
        """What the backend gives for users, items, term and bound."""
        users, items, term, bound = case
        tiles = [each and tuple(each) for each in (backend.by_users, backend.by_items)]
        given = (backend.products, tiles, users, items, _in_names(term), bound)
        return Unlabelled(*self._ask("_unlabelled", *given))

    def mean_of_layers(
        self, adjacency: Adjacency, table: Tensor, n_layers: int, *, long: int
    ) -> Tensor:
        """What the graph's kernels give; rows with more than `long` neighbours are summed alone."""
        arrays = [torch.from_numpy(array) for array in adjacency]
        mean: Tensor = self._ask("_mean_of_layers", arrays, table, n_layers, long)
        return mean

    def positives(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Scores of pairs, the sums by user of three functions of them, and their gradients."""
        return tuple(self._ask("_positives", *given))

    def log_totals(self, *given: Tensor, n_at_a_time: int) -> LogTotals:
        """The softmax's log totals over all items, and their gradients, by small tiles."""
        return LogTotals(*self._ask("_log_totals", given, n_at_a_time))

    def _ask(self, function: str, *given: Any) -> Any:
        torch.save((function, given), self._case)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._process.stdout.readline()
        found = torch.load(self._answer)
        if isinstance(found, str):
            raise RuntimeError(found)
        return found

    def close(self) -> None:
        self._process.communicate()


@functools.cache
def _shared(config: pytest.Config) -> Interpreter:
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    process = Interpreter(Path(folder.name))
    config.add_cleanup(process.close)
    return process


@pytest.fixture
def interpreter(pytestconfig: pytest.Config) -> Interpreter:
    """The one process of all modules that import this."""
    return _shared(pytestconfig)


def _in_names(term: UnlabelledTerm) -> dict[str, Any]:
    first, exponent = term.first, term.generator.exponent
    return {
        "generator": _name(GENERATORS, term.generator) if exponent is None else exponent,
        "link": _name(LINKS, term.link),
        "candidates": term.candidates,
        "ratio_power": term.ratio_power,
        "first": first and (first.users, first.items, _name(LINKS, first.link)),
        "divisor": term.divisor,
    }


def _name(parts: Any, part: Any) -> str:
    return next(name for name, known in parts.items() if known == part)


def _term(given: dict[str, Any]) -> UnlabelledTerm:
    name = given["generator"]
    generator = GENERATORS[name] if isinstance(name, str) else power_divergence(name)
    parts: dict[str, Any] = {"generator": generator, "link": LINKS[given["link"]]}
    if given["first"]:
        users, items, link = given["first"]
        parts["first"] = FirstModel(users, items, LINKS[link])
    return UnlabelledTerm(**{**given, **parts})


def _serve(case: str, answer: str) -> None:
    for _ in sys.stdin:
        function, given = torch.load(case)
        try:
            found: Any = globals()[function](*given)
        except Exception:
            found = traceback.format_exc()
        torch.save(found, answer)
        print("done", flush=True)


def _unlabelled(
    products: str,
    tiles: list[tuple[int, ...] | None],
    users: Tensor,
    items: Tensor,
    term: dict[str, Any],
    bound: Tensor,
) -> tuple[Tensor, ...]:
    backend = Triton(products, *(each and Tiles(*each) for each in tiles))
    return tuple(backend(users, items, _term(term), bound))


def _mean_of_layers(arrays: list[Tensor], table: Tensor, n_layers: int, long: int) -> Tensor:
    from ratiorec.kernels.triton import propagation

    propagation.LONG = long
    adjacency = Adjacency(*(array.numpy() for array in arrays))
    return propagation.FusedLayers(adjacency, torch.device("cpu")).mean(table, n_layers)


def _positives(
    users: Tensor, items: Tensor, rows: Tensor, columns: Tensor, outer: Tensor
) -> list[Tensor | None]:
    from ratiorec.kernels.triton.positives import PairScores, UserSums

    scores = PairScores.apply(users.requires_grad_(), items.requires_grad_(), rows, columns)
    values = torch.stack([scores, scores.square(), scores.sin()], -1)
    sums = UserSums.apply(values, rows, len(users))
    (sums * outer).sum().backward()
    return [scores.detach(), sums.detach(), users.grad, items.grad]


def _log_totals(given: tuple[Tensor, ...], n_at_a_time: int) -> tuple[Tensor, ...]:
    from ratiorec.kernels.triton.softmax import SoftmaxTiles, log_totals

    return tuple(log_totals(*given, tiles=SoftmaxTiles(16, 32, 16), n_at_a_time=n_at_a_time))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
