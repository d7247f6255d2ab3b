"""The light install: what a user without torch can do, in processes that cannot import it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ratiorec.presets import PRESETS
from ratiorec.settings import SolverSettings

CLOSED_FORMS = [
    name
    for name, settings in PRESETS.items()
    if isinstance(settings, SolverSettings) and name != "implicit-als"
]
BLOCKED = """
import importlib.util, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "jaxtyping"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "torch" else real(name, *a)

from ratiorec.cli import main

main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which users of even number have one half of the items, and a few pairs more."""
    folder = tmp_path_factory.mktemp("light")
    rng = np.random.default_rng(0)
    halves = [rng.choice(np.arange(user % 2, 20, 2), 6, replace=False) for user in range(30)]
    rows = [f"u{user},i{item}" for user, items in enumerate(halves) for item in items]
    (folder / "clicks.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    (folder / "today.csv").write_text("user,item\nu0,i1\nnew,i2\nnew,i4\nu2,new\nu4,new\n")
    return folder


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    return done


def test_every_closed_form_is_fitted_and_answers(folder: Path) -> None:
    found = json.loads(
        run(folder, "compare", "clicks.csv", "--presets", ",".join(CLOSED_FORMS), "--json").stdout
    )
    assert {line["preset"]: line["error"] for line in found["results"]} == dict.fromkeys(
        CLOSED_FORMS
    )


def test_the_default_says_what_it_left_out_and_what_would_add_it(folder: Path) -> None:
    done = run(folder, "fit", "clicks.csv", "-o", "model", "--max-seconds", "60", "--json")
    members = {member["name"]: member["why"] for member in json.loads(done.stdout)["members"]}
    learned = {"dregn-cf", "softmax", "lightgcn"}
    for name in learned:
        assert members[name] == "left out: torch is not installed, pip install 'ratiorec[torch]'"
    assert not any("torch" in members[name] for name in members.keys() - learned)
    lists = run(folder, "recommend", "model", "--user", "u0", "-k", "4", "--json").stdout
    listed = {row["item_id"] for row in json.loads(lists)["recommendations"]}
    assert listed <= {f"i{item}" for item in range(0, 20, 2)}


def test_a_model_is_judged_updated_and_exported(folder: Path) -> None:
    run(folder, "fit", "clicks.csv", "--preset", "walk", "-o", "walk")
    run(folder, "update", "walk", "today.csv")
    assert "new" in run(folder, "recommend", "walk", "--user", "u6", "-k", "20").stdout
    run(folder, "evaluate", "walk", "--test", "today.csv", "--allow-seen", "--json")
    run(folder, "similar", "walk", "--item", "i0")
    run(folder, "export", "walk", "--to", "numpy", "-o", "vectors", "--min-recall", "0.5")


@pytest.mark.parametrize("words", [("--preset", "dregn-cf"), ("--device", "cuda")])
def test_what_needs_torch_is_refused_with_the_command_that_adds_it(
    folder: Path, words: tuple[str, ...]
) -> None:
    done = run(folder, "fit", "clicks.csv", "-o", "none", *words, code=2)
    assert "pip install 'ratiorec[torch]'" in done.stderr
    assert not (folder / "none").exists()
