"""Which execution of the unlabelled term runs: the one named, or the one that suits."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from ratiorec.errors import ConfigError
from ratiorec.risk.fused.execution import Execution, Unlabelled
from ratiorec.risk.fused.reference import reference
from ratiorec.risk.fused.term import UnlabelledTerm
from ratiorec.risk.fused.tiled import tiled
from ratiorec.shapes import ItemFactors, PerUser, UserFactors


def automatic(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """Triton's kernels where they can run, and else tiles."""
    return suited(users.device, users.dtype, term)(users, items, term, bound)


def suited(device: torch.device, dtype: torch.dtype, term: UnlabelledTerm) -> Execution:
    """The quickest execution for such vectors and such a term."""
    return tiled if _hindrance(device, dtype, term) else _kernels().Triton()


def triton(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """Triton's kernels, refused where they cannot run."""
    if hindrance := _hindrance(users.device, users.dtype, term):
        raise ConfigError(
            "the execution cannot run",
            where="risk.execution",
            found=f"triton with {hindrance}",
            wanted="auto, which takes what can run, or tiled",
        )
    result: Unlabelled = _kernels().Triton()(users, items, term, bound)
    return result


def _hindrance(device: torch.device, dtype: torch.dtype, term: UnlabelledTerm) -> str | None:
    if device.type != "cuda":
        return f"vectors on {device.type}"
    if dtype != torch.float32:
        return f"vectors of {dtype}"
    if importlib.util.find_spec("triton") is None:
        return "no package of that name installed"
    return None if _kernels().knows(term) else "a generator or a link that it does not know"


def _kernels() -> Any:
    # imported where it is needed: the package triton exists on few machines
    return importlib.import_module("ratiorec.risk.fused.triton_execution")


EXECUTIONS: Mapping[str, Execution] = MappingProxyType(
    {"auto": automatic, "reference": reference, "tiled": tiled, "triton": triton}
)
