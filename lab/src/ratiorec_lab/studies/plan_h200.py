"""What a step by several processes would take on H200 GPUs, from records of single processes.

    python -m ratiorec_lab.studies.plan_h200

It runs nothing: rates are taken from records under results/, and tried on cases that gave none.
Kernels are those that a training by several processes launches: the loss by Triton, the layers by
torch's product with a sparse matrix, steps one by one. What several GPUs say to each other was
never measured: NVLink is taken at a share of the vendor's figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiorec.distributed.counts import FLOAT, SharedTraining, Work
from ratiorec_lab.studies.plan import cost, fit_rates
from ratiorec_lab.studies.study import parser, tell

GIB = 139.0  # of a device, as the driver gives it
NVLINK = 450e9  # bytes a second, one way, of the vendor's 900 GB/s both ways
SHARE_OF_NVLINK = 0.7  # an assumption
MESSAGE = 30e-6  # seconds, an assumption
PROCESS_MIB = 2048.0  # the context of CUDA and what NCCL holds, an assumption
RISK, SOFTMAX, PROPAGATION = "bench-risk-gpu", "bench-softmax-gpu", "bench-propagation-gpu"
GROWTH, STEP, FIT = "bench-growth-gpu", "bench-step-gpu", "fit-amazon-cds-gpu"
RECORDED, EAGER = "triton, CUDA graph", "triton, eager"
GOWALLA_BATCHES = (2489, 7465)  # users of a batch in the cases of `step`
_MOST = {"users": 100_000, "items": 100_000, "pairs": 3_000_000, "dimension": 512}


def main() -> None:
    """Fit and try."""
    parser(__doc__).parse_args()
    tell(from_records(Path("results")))


@dataclass(frozen=True)
class Case:
    """A case of a record."""

    record: str
    name: str
    execution: str
    size: Mapping[str, int]
    seconds: float

    @property
    def training(self) -> SharedTraining:
        """The training of which it was a step, of the preset `dregn-cf`."""
        size = self.size
        return SharedTraining(
            n_users=size["users"],
            n_items=size["items"],
            n_pairs=size["pairs"],
            dimension=size.get("dimension", 64),
            n_layers=3,
            n_ranks=1,
            batch_size=min(size["batch"], size["users"]),
            loss="density-ratio",
            self_loops=True,
        )

    @property
    def is_extreme(self) -> bool:
        """Whether it ends a line of `growth`; such are predicted and not fitted."""
        return any(self.size.get(axis) == most for axis, most in _MOST.items())


def from_records(folder: Path) -> dict[str, Any]:
    """The rates, and how well they predict what they were not fitted to."""
    (csr,) = cases(folder, PROPAGATION, "product", "torch CSR")
    (layers,) = cases(folder, PROPAGATION, "mean of layers", "torch CSR")
    (fused,) = cases(folder, PROPAGATION, "mean of layers", "ratiorec")
    n_numbers = csr.size["entries"] * csr.size["dimension"]
    known = loss_rates(folder) | {
        "neighbours": fused.seconds / 3 / n_numbers,
        "rows": FLOAT / bytes_per_second(folder),  # small tables stay in a cache, large ones do not
    }
    by_size = {str(case.size): case for case in cases(folder, GROWTH, "step", RECORDED)}
    recorded = list(by_size.values())
    fitted = [case for case in recorded if not case.is_extreme]
    rates = known | rest_of(fitted, known)
    eager = by_hand(folder, rates)
    tried = [(case, cost(work(case), rates)) for case in recorded if case.is_extreme]
    tried += [
        (case, cost(work(case), eager | {"dealt pairs": 0.0}))  # those batches lay on the GPU
        for case in cases(folder, GROWTH, "step", EAGER)
        if case.is_extreme
    ]
    per_layer = csr.seconds + 3 * csr.size["nodes"] * csr.size["dimension"] * rates["rows"]
    rows = [compared(layers, 3 * per_layer)]
    rows += [compared(*one) for one in tried]
    return {
        "name": "plan_h200",
        "device": "cpu",  # on which this runs, from records of a GPU
        "process_mib": PROCESS_MIB,
        "host_process_mib": host_mib(folder),
        "memory_gib": GIB,
        "seconds": eager | {"neighbours": csr.seconds / n_numbers},
        "exchange": {"bytes": 1 / (NVLINK * SHARE_OF_NVLINK), "messages": MESSAGE},
        "assumed": {
            "exchange": f"NVLink 4 at {SHARE_OF_NVLINK:.0%} of the vendor's "
            f"{NVLINK / 1e9:.0f} GB/s one way, {MESSAGE * 1e6:.0f} µs a message",
            "memory": f"{PROCESS_MIB:.0f} MiB for CUDA and NCCL",
        },
        "errors": {"step": max(abs(row["error"]) for row in rows)},
        "sizes": rows,
    }


def cases(folder: Path, record: str, name: str, execution: str) -> Iterator[Case]:
    """Those of a record whose name begins so."""
    found = json.loads((folder / f"{record}.json").read_text(encoding="utf-8"))
    for case in found["cases"]:
        if case["name"].startswith(name) and case["execution"] == execution:
            yield Case(record, case["name"], execution, case["size"], case["seconds"])


def loss_rates(folder: Path) -> dict[str, float]:
    """Of the products in a loss and of what is done with each score, by two lengths of vectors."""
    short, long = cases(folder, SOFTMAX, "log-sum-exp", RECORDED)
    (risk,) = cases(folder, RISK, "unlabelled term", "triton")

    def per_pair(case: Case) -> float:
        return case.seconds / (case.size["users"] * case.size["items"])

    dims = [case.size["dimension"] for case in (short, long)]
    product = (per_pair(long) - per_pair(short)) / (dims[1] - dims[0])
    return {
        "products": product,
        "softmax of pairs": per_pair(short) - dims[0] * product,
        "density-ratio of pairs": per_pair(risk) - risk.size["dimension"] * product,
    }


def work(case: Case) -> Work:
    """What a step has to do; all items are listed as candidates on a GPU."""
    training, pairs = case.training, case.size["users"] + case.size["items"]
    found = training.work()
    scored = float(training.own_batch) * case.size["items"]
    loops = 12.0 * pairs * training.dimension / 2  # entries of Â for the node itself
    return found | {
        "products": scored * training.dimension,
        "density-ratio of pairs": scored,
        "neighbours": found["neighbours"] + loops,
    }


def rest_of(fitted: list[Case], known: Mapping[str, float]) -> dict[str, float]:
    """The rates of everything else in a step, from what the known ones leave of it."""
    parts = [work(case) for case in fitted]
    left = [
        case.seconds - sum(part[kind] * known[kind] for kind in part if kind in known)
        for case, part in zip(fitted, parts, strict=True)
    ]
    kinds = ("positives", "steps")
    return fit_rates([{kind: part[kind] for kind in kinds} for part in parts], left) | {
        "dealt pairs": 0.0,
        "items to deal": 0.0,
    }


def by_hand(folder: Path, rates: dict[str, float]) -> dict[str, float]:
    """The rates where steps are dealt and launched one by one, by two sizes of batch."""
    small, large = (
        Case(case.record, case.name, case.execution, {**case.size, "batch": batch}, case.seconds)
        for case, batch in zip(
            cases(folder, STEP, "dregn-cf", "eager"), GOWALLA_BATCHES, strict=False
        )
    )
    left = [case.seconds - cost(work(case), rates) for case in (small, large)]
    dealt = [work(case)["dealt pairs"] for case in (small, large)]
    each = (left[1] - left[0]) / (dealt[1] - dealt[0])
    launches = rates["steps"] + left[0] - each * dealt[0]
    return rates | {"dealt pairs": each, "steps": launches}


def bytes_per_second(folder: Path) -> float:
    """What a large copy on the GPU reaches."""
    found = json.loads((folder / f"{PROPAGATION}.json").read_text(encoding="utf-8"))
    return float(found["ceilings"][0]["bytes_per_second"])


def host_mib(folder: Path) -> float:
    """What a process that uses a GPU held of the host's memory in a small fit, all counted."""
    found = json.loads((folder / f"{FIT}.json").read_text(encoding="utf-8"))
    return float(found["peak_memory_mb"])


def compared(case: Case, predicted: float) -> dict[str, Any]:
    """A case as it was predicted and measured."""
    return {
        "record": case.record,
        "case": f"{case.name}, {case.execution}",
        "predicted": float(f"{predicted:.3g}"),
        "measured": float(f"{case.seconds:.3g}"),
        "error": round(predicted / case.seconds - 1, 4),
    }


if __name__ == "__main__":
    main()
