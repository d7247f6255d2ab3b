"""Triton's kernels without a card: run by its interpreter, in a process of their own.

The interpreter must be asked for before the package is loaded, and the check of signatures (see
conftest.py) must not touch what it reads the source of. One process serves all tests of a module:
it is told of a case by a file, and answers with another.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ratiorec.kernels.pointwise import GENERATORS, LINKS
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

    def __call__(self, backend: Triton, case: Case) -> Unlabelled:
        """What the backend gives for users, items, term and bound."""
        users, items, term, bound = case
        tiles = [each and tuple(each) for each in (backend.by_users, backend.by_items)]
        torch.save((backend.products, tiles, users, items, _in_names(term), bound), self._case)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._process.stdout.readline()
        found = torch.load(self._answer)
        if isinstance(found, str):
            raise RuntimeError(found)
        return Unlabelled(*found)

    def close(self) -> None:
        self._process.communicate()


def _in_names(term: UnlabelledTerm) -> dict[str, Any]:
    first = term.first
    return {
        "generator": _name(GENERATORS, term.generator),
        "link": _name(LINKS, term.link),
        "candidates": term.candidates,
        "ratio_power": term.ratio_power,
        "first": first and (first.users, first.items, _name(LINKS, first.link)),
        "divisor": term.divisor,
    }


def _name(parts: Any, part: Any) -> str:
    return next(name for name, known in parts.items() if known == part)


def _term(given: dict[str, Any]) -> UnlabelledTerm:
    parts = {"generator": GENERATORS[given["generator"]], "link": LINKS[given["link"]]}
    if given["first"]:
        users, items, link = given["first"]
        parts["first"] = FirstModel(users, items, LINKS[link])
    return UnlabelledTerm(**{**given, **parts})


def _serve(case: str, answer: str) -> None:
    for _ in sys.stdin:
        try:
            found: Any = tuple(_run(*torch.load(case)))
        except Exception:
            found = traceback.format_exc()
        torch.save(found, answer)
        print("done", flush=True)


def _run(
    products: str,
    tiles: list[tuple[int, ...] | None],
    users: Tensor,
    items: Tensor,
    term: dict[str, Any],
    bound: Tensor,
) -> Unlabelled:
    backend = Triton(products, *(each and Tiles(*each) for each in tiles))
    return backend(users, items, _term(term), bound)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
