"""Measurements as one object in plain types, with what they were obtained with."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import Any

from ratiorec.data.interactions import Dataset
from ratiorec.machine import describe_machine, versions
from ratiorec_lab.bench.case import Measured


def to_record(
    found: Sequence[Measured],
    *,
    target: str,
    dataset: Dataset,
    device: str,
    command: str,
    commit: str | None,
) -> dict[str, Any]:
    """What `bench --json` prints and a file under `results/` holds."""
    return {
        "target": target,
        "dataset": dataset.name,
        "data_sha256": dataset.train.sha256,
        "cases": [case for measured in found for case in measured.to_json()],
        "ceilings": [
            {"target": measured.target, "device": place, **ceilings.to_json()}
            for measured in found
            for place, ceilings in measured.ceilings.items()
        ],
        "left_out": [
            {"target": measured.target, "execution": name, "reason": reason}
            for measured in found
            for name, reason in measured.left_out.items()
        ],
        "machine": describe_machine(device),
        "versions": versions() | _rival_versions(),
        "commit": commit,
        "command": command,
    }


def _rival_versions() -> dict[str, str]:
    try:
        return {"implicit": importlib.metadata.version("implicit")}
    except importlib.metadata.PackageNotFoundError:
        return {"implicit": "not installed"}
