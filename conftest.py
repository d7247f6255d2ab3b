"""Settings of every test, of both distributions: tensor shapes, threads, Hypothesis."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from support.browser import started_browser
from support.shape_checks import check_signatures

# the tensors here are small: two threads wait for each other longer than they work, and far
# longer when test processes share the cores; tests of threads set their own number
os.environ.setdefault("OMP_NUM_THREADS", "1")

check_signatures(
    [
        "ratiorec.batches.pairs",
        "ratiorec.batches.static",
        "ratiorec.batches.users",
        "ratiorec.encoders.encoder",
        "ratiorec.encoders.enmf",
        "ratiorec.encoders.mult_vae",
        "ratiorec.encoders.ngcf",
        "ratiorec.encoders.spectral",
        "ratiorec.kernels",
        "ratiorec.solvers.wmf",
        "ratiorec.training.loop",
    ]
)

settings.register_profile("local", deadline=None, max_examples=30)
settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

has_frozen_all = False

# modules that need a package which this machine has not
collect_ignore_glob = (
    [] if importlib.util.find_spec("triton") else ["src/ratiorec/kernels/triton/*.py"]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test begins first: it mostly waits, and the others run beside it."""
    items.sort(key=lambda item: item.get_closest_marker("mostly_waits") is None)


def pytest_collection_finish() -> None:
    """Takes what was imported out of the garbage collector's sight: every fit runs it."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish() -> None:
    """The same, once, for the many modules that torch imports with the first optimizer."""
    global has_frozen_all
    if not has_frozen_all and "torch._dynamo" in sys.modules:
        has_frozen_all = True
        pytest_collection_finish()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one browser of this process."""
    started = started_browser(tmp_path_factory.mktemp("browser") / "profile")
    yield started
    started.quit()
