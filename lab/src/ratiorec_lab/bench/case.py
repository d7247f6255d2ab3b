"""Cases of a target: what each took, what it is compared with, and the record of them all."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ratiorec.data.interactions import Dataset
from ratiorec.machine import describe_machine, versions
from ratiorec_lab.bench.clock import Ceilings, Floor, Times, digits

Size = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """One way of doing what `name` says; cases of the same name do the same.

    `backend` says which way: a backend, a library, a preset. `floor` is None where the least that
    must be done is not known. `peak_extra_mb` is the memory beyond the inputs. `figures` are what
    else is known of the case, such as users a second.
    """

    name: str
    backend: str
    device: str
    size: Size
    times: Times
    floor: Floor | None = None
    peak_extra_mb: float | None = None
    is_reference: bool = False
    is_rival: bool = False
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The median over the rounds."""
        return self.times.median


@dataclass(frozen=True)
class Measured:
    """What a target found, with the ceilings of each device.

    `left_out` says of each case that could not run why.
    """

    target: str
    cases: Sequence[Case]
    ceilings: Mapping[str, Ceilings]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def floor_seconds(self, case: Case) -> float | None:
        """The floor of a case at the rates of this machine."""
        return None if case.floor is None else self.ceilings[case.device].seconds(case.floor)

    def ratio_to_floor(self, case: Case) -> float | None:
        """How many times the floor a case takes."""
        floor = self.floor_seconds(case)
        return case.seconds / floor if floor else None

    def ratio_to_reference(self, case: Case) -> float | None:
        """How many times as long as the reference for the same."""
        return _ratio(case, [other for other in self._alike(case) if other.is_reference])

    def ratio_to_rival(self, case: Case) -> float | None:
        """How many times as long as the fastest rival for the same."""
        return _ratio(case, [other for other in self._alike(case) if other.is_rival])

    def _alike(self, case: Case) -> list[Case]:
        return [other for other in self.cases if other.name == case.name]

    def to_json(self) -> list[dict[str, Any]]:
        """Every case in plain types."""
        return [self._case_to_json(case) for case in self.cases]

    def _case_to_json(self, case: Case) -> dict[str, Any]:
        floor = case.floor
        return {
            "target": self.target,
            "name": case.name,
            "execution": case.backend,  # what files and other programs know it by
            "device": case.device,
            "size": dict(case.size),
            "seconds": digits(case.seconds),
            "spread": [digits(case.times.low), digits(case.times.high)],
            "rounds": len(case.times.rounds),
            **_worked(case),
            "operations": None if floor is None else digits(floor.n_operations),
            "bytes": None if floor is None else digits(floor.n_bytes),
            "floor_seconds": digits(self.floor_seconds(case)),
            "peak_extra_mb": digits(case.peak_extra_mb, 4),
            "ratio_to_floor": digits(self.ratio_to_floor(case)),
            "ratio_to_reference": digits(self.ratio_to_reference(case)),
            "ratio_to_rival": digits(self.ratio_to_rival(case)),
            "rival": case.is_rival,
            **case.figures,
        }


def _worked(case: Case) -> dict[str, Any]:
    """The seconds that the cores worked, with their quartiles; a GPU's work is not in them."""
    if case.device != "cpu" or not case.times.processor:
        return {}
    worked = Times(case.times.processor)
    return {
        "processor_seconds": digits(worked.median),
        "processor_spread": [digits(worked.low), digits(worked.high)],
    }


def _ratio(case: Case, others: Sequence[Case]) -> float | None:
    fastest = min((other.seconds for other in others), default=0.0)
    return case.seconds / fastest if fastest else None


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
        **provenance(device=device, command=command, commit=commit),
    }


def provenance(*, device: str, command: str, commit: str | None) -> dict[str, Any]:
    """What a result was obtained with; `commit` is the one that the measurement started from."""
    try:
        rival = importlib.metadata.version("implicit")
    except importlib.metadata.PackageNotFoundError:
        rival = "not installed"
    return {
        "machine": describe_machine(device),
        "versions": versions() | {"implicit": rival},
        "commit": commit,
        "command": command,
    }
