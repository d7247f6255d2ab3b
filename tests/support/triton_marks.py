"""Which tests of Triton's kernels can run: its interpreter, its compiler, or a card."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
import torch


def triton_version() -> tuple[int, ...]:
    """Of the package that is installed; empty without one."""
    try:
        return tuple(int(part) for part in version("triton").split(".")[:2])
    except PackageNotFoundError:
        return ()


needs_triton = pytest.mark.skipif(
    not triton_version(), reason="the package triton is not installed"
)
needs_interpreter = pytest.mark.skipif(
    triton_version() < (3, 7),
    reason="triton is not installed, or older than 3.7 and its interpreter than numpy 2.4",
)
needs_compiler = pytest.mark.skipif(
    triton_version() < (3, 7), reason="triton is not installed, or older than 3.7"
)
needs_a_gpu = pytest.mark.skipif(
    not (triton_version() and torch.cuda.is_available()),
    reason="there is no GPU, or no triton, to compile kernels for it",
)
