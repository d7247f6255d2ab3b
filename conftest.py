"""Settings of every test, of both distributions: tensor shapes, threads, Hypothesis."""

from __future__ import annotations

import importlib.util
import os

from hypothesis import settings
from jaxtyping import install_import_hook

from support import shape_checks  # noqa: F401  # named to the hook below

# the tensors here are small: two threads wait for each other longer than they work, and far
# longer when test processes share the cores; tests of threads set their own number
os.environ.setdefault("OMP_NUM_THREADS", "1")

# from here on these modules check the axes in their signatures, at every call
install_import_hook(
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
    ],
    "support.shape_checks.checked",
)

settings.register_profile("local", deadline=None, max_examples=30)
settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# modules that need a package which this machine has not
collect_ignore_glob = (
    [] if importlib.util.find_spec("triton") else ["src/ratiorec/kernels/triton/*.py"]
)
