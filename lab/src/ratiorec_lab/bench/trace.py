"""Module borders that a fit and each of its steps cross: `python -m ratiorec_lab.bench.trace`.

A crossing is a call from a function of one module of `ratiorec` to a function of another; frames
of other libraries between the two do not count, and nothing that runs while a module is imported.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

PRESET = "dregn-cf"
_PACKAGE = "ratiorec."

Crossings = Counter[tuple[str, str]]
"""Calls from one module to another."""


@dataclass
class Trace:
    """Modules in the order of their first entry, and the calls between them.

    `steps` are what was crossed from the beginning of a training step to that of the next, and
    `inside` what the steps themselves cross: batch, encoder, loss, backward, optimizer.
    """

    step: CodeType
    modules: dict[str, None] = field(default_factory=dict)
    crossings: Crossings = field(default_factory=Counter)
    steps: list[Crossings] = field(default_factory=list)
    inside: list[Crossings] = field(default_factory=list)
    _n_importing: int = 0
    _at_step: Crossings | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Counts what this thread calls meanwhile."""
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_name == "<module>":
            self._n_importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._n_importing and (module := _module(frame)):
            self._enter(frame, module)
        elif event == "return" and frame.f_code is self.step and self._at_step is not None:
            self.inside.append(self.crossings - self._at_step)

    def _enter(self, frame: FrameType, module: str) -> None:
        if frame.f_code is self.step:
            if self._at_step is not None:
                self.steps.append(self.crossings - self._at_step)
            self._at_step = self.crossings.copy()
        self.modules.setdefault(module)
        caller = frame.f_back
        while caller and not _module(caller):
            caller = caller.f_back
        if caller and (called_by := _module(caller)) and called_by != module:
            self.crossings[called_by, module] += 1


def _module(frame: FrameType) -> str | None:
    """The module of ratiorec that a function is written in; a generated one is nobody's."""
    name = str(frame.f_globals.get("__name__"))
    is_ours = name.startswith(_PACKAGE) and frame.f_code.co_filename.endswith(".py")
    return name.removeprefix(_PACKAGE) if is_ours else None


def trace_of_a_fit() -> Trace:
    """`ratiorec fit clicks.csv -o model` on a few pairs, on the CPU, by the command line."""
    from ratiorec.cli.app import main
    from ratiorec.training.loop import GradientTraining

    trace = Trace(GradientTraining._eager_step.__code__)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        clicks, model = Path(folder, "clicks.csv"), Path(folder, "model")
        pairs = (f"u{user},i{(user * user + n) % 31}" for user in range(60) for n in range(8))
        clicks.write_text("\n".join(["user_id,item_id", *pairs]) + "\n", encoding="utf-8")
        words = ["fit", str(clicks), "-o", str(model), "--device", "cpu", "--json"]
        words += ["--preset", PRESET]
        stack.enter_context(mock.patch.object(sys, "argv", ["ratiorec", *words]))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        with contextlib.suppress(SystemExit), trace.watching():
            main()
        assert model.exists(), "the fit has failed"
    return trace


def usual(steps: list[Crossings]) -> Crossings:
    """The step with the median number of crossings: the first and last of an epoch have more."""
    return sorted(steps, key=Counter.total)[len(steps) // 2]


def _table(crossings: Crossings) -> str:
    return "\n".join(f"{n:6}  {a} → {b}" for (a, b), n in crossings.most_common())


if __name__ == "__main__":
    found = trace_of_a_fit()
    print(f"fit: {len(found.modules)} modules\n" + " → ".join(found.modules))
    for name, steps in (("step to step", found.steps), ("the step alone", found.inside)):
        print(f"\n{name}: {usual(steps).total()} module borders\n{_table(usual(steps))}")
