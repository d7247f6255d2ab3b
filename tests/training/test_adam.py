from __future__ import annotations

import subprocess
import sys

import torch

from ratiorec.training.loop import Adam

CPU = torch.device("cpu")
TARGET = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


def parameters() -> list[torch.Tensor]:
    return [torch.zeros(2, 2, requires_grad=True), torch.ones(3, requires_grad=True)]


def adam(tables: list[torch.Tensor]) -> Adam:
    made = Adam(tables, CPU)
    made.rate.fill_(0.1)
    return made


def risk(table: torch.Tensor) -> torch.Tensor:
    return ((table - TARGET) ** 2).sum()


def test_steps_have_the_bits_of_torchs_class_also_after_another_rate() -> None:
    ours, theirs = parameters(), parameters()
    first, second = Adam(ours, CPU), torch.optim.Adam(theirs, fused=True)
    for step in range(20):
        rate = 0.1 if step < 10 else 0.03
        first.rate.fill_(rate)
        second.param_groups[0]["lr"] = rate
        first.step(risk(ours[0]))
        second.zero_grad()
        risk(theirs[0]).backward()  # type: ignore[no-untyped-call]
        second.step()
    assert torch.equal(ours[0], theirs[0])
    assert ours[0].abs().sum() > 1
    assert torch.equal(ours[1], torch.ones(3))  # the risk does not depend on it


def test_it_goes_on_from_its_state() -> None:
    (whole, _), (half, _) = parameters(), parameters()
    uninterrupted, before = adam([whole]), adam([half])
    for _ in range(4):
        uninterrupted.step(risk(whole))
    before.step(risk(half))
    after, kept = adam([half]), dict(before.state())
    for name, slot in after.state():
        slot.copy_(kept[name])
    for _ in range(3):
        after.step(risk(half))
    assert torch.equal(whole, half)
    assert dict(after.state())["optimizer.0.step"] == 4


# a process of its own: other tests may have loaded it
FIT = """
import sys
from ratiorec.data.synthetic import Synthetic
from ratiorec.training.experiment import fit
from ratiorec.training.fit import FitOptions
import numpy as np

pairs = Synthetic(n_users=50, n_items=40, mean_pairs=8)(rng=np.random.default_rng(1)).dataset.train
fit(pairs, preset="dregn-cf-fast", device="cpu", options=FitOptions(max_seconds=2))
assert "torch" in sys.modules
assert "torch._dynamo" not in sys.modules, "torch's compiler was imported"
"""


def test_a_fit_does_not_import_torchs_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
