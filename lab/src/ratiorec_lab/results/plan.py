"""The figures that `ratiorec plan` is made of, and the tables of what they predict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ratiorec_lab.tables import in_digits, in_seconds, markdown_table

CPU, H200 = "bench-plan-cpu.json", "bench-plan_h200.json"
RATES = Path("src", "ratiorec", "distributed", "rates.json")


def rates(folder: Path) -> str:
    """The devices as the package reads them, from the records of both studies."""
    cpu, h200 = (_record(folder, name) for name in (CPU, H200))
    on_cpu, on_h200 = cpu["result"], h200["result"]
    exchange, errors = on_cpu["exchange"], on_cpu["errors"]
    machine, not_run = cpu["machine"], on_h200["assumed"]
    devices = {
        "cpu": {
            "kind": "cpu",
            "memory_gib": machine["memory_gib"],
            "process_mib": on_cpu["process_mib"],
            "host_process_mib": 0.0,
            "seconds": on_cpu["seconds"],
            "exchange": exchange | {"bytes of marks": exchange["bytes"]},
            "errors": errors,
            "notes": [
                f"fitted to steps on a CPU ({machine['processor']}, one thread a process, commit "
                f"{cpu['commit'][:7]}, results/{CPU}); on sizes that were not fitted memory was "
                f"within {errors['memory']:.0%}, a step within {errors['step']:.0%}"
            ],
        },
        "h200": {
            "kind": "cuda",
            "memory_gib": on_h200["memory_gib"],
            "process_mib": on_h200["process_mib"],
            "host_process_mib": on_h200["host_process_mib"],
            "seconds": on_h200["seconds"]
            | {"items to deal": on_cpu["seconds"]["items to deal"]},  # on the host
            "exchange": on_h200["exchange"] | {"bytes of marks": exchange["bytes"]},
            "errors": on_h200["errors"],
            "notes": [
                "not run: nothing was trained on several GPUs. "
                f"The exchange is a data-sheet number: {not_run['exchange']}",
                f"memory is counted and not measured; assumed: {not_run['memory']}",
                "compute is fitted to single processes on one H200 "
                f"(results/{H200}); on cases that were not fitted within "
                f"{on_h200['errors']['step']:.0%}",
            ],
        },
    }
    return json.dumps(devices, indent=1, ensure_ascii=False) + "\n"


def tables(folder: Path) -> dict[str, str]:
    """What was predicted beside what was measured."""
    return {
        "plan-cpu": _cpu_table(_record(folder, CPU)["result"]["sizes"]),
        "plan-h200": _h200_table(_record(folder, H200)["result"]["sizes"]),
    }


def _cpu_table(sizes: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{size['preset']}, {size['ranks']} rank{'s' if size['ranks'] > 1 else ''}"
            + ("" if size["fitted"] else ", **not fitted**"),
            *(f"{size[name]:,}" for name in ("users", "items", "pairs", "dim", "batch")),
            *(in_digits(size["memory"][name]) for name in ("predicted", "measured")),
            f"{size['memory']['error']:+.1%}",
            in_digits(size["usual_allocator_mib"]),
            *(in_seconds(size["step"][name]) for name in ("predicted", "measured")),
            f"{size['step']['error']:+.0%}",
        ]
        for size in sizes
    ]
    headers = [
        *("training", "users", "items", "pairs", "dim", "batch"),
        *("MiB predicted", "measured", "error", "measured, usual allocator"),
        *("step predicted", "measured", "error"),
    ]
    return markdown_table(headers, rows, right=range(1, len(headers)))


def _h200_table(cases: list[dict[str, Any]]) -> str:
    rows = [
        [
            case["case"],
            in_seconds(case["predicted"]),
            in_seconds(case["measured"]),
            f"{case['error']:+.0%}",
        ]
        for case in cases
    ]
    return markdown_table(
        ["one H200, not fitted", "predicted", "measured", "error"], rows, right=(1, 2, 3)
    )


def _record(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return found
