"""What is not collected: modules that need a package which this machine has not."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = (
    []
    if importlib.util.find_spec("triton")
    else ["src/ratiorec/kernels/triton/*.py"]
)
