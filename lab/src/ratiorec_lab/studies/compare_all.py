"""Every preset on one data set: test and validation figures, seconds, or why it could not run.

    python -m ratiorec_lab.studies.compare_all --data gowalla --device cuda
    python -m ratiorec_lab.studies.compare_all --data ml-100k --presets auto,ease --stop-after 300

Each preset is fitted as `ratiorec fit` would, and its line is written to results/presets/DATA.json
as soon as it is there. The same command again goes on with those that are not, or that failed;
a line whose preset has other settings since is measured anew.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from ratiorec.config import preset, to_table
from ratiorec.data.benchmarks import load
from ratiorec.data.interactions import Dataset
from ratiorec.errors import RatiorecError
from ratiorec.files import write_json
from ratiorec.machine import commit, release_memory
from ratiorec.presets import AUTO, PRESETS
from ratiorec.training.compare import require_presets, with_test_part
from ratiorec.training.experiment import find_device, fit
from ratiorec.training.fit import FitOptions
from ratiorec_lab.bench.case import provenance
from ratiorec_lab.studies.study import parser, tell

TEST_SHARE = 0.2  # of each user's pairs, where the data have no test part
_FIGURES = (
    *("seconds", "validation", "validation_by", "test", "epochs", "steps", "stopped_by"),
    *("peak_memory_mb", "peak_device_memory_mb"),
)
Line = dict[str, Any]


def main() -> None:
    """Fit what is not there yet, and print the record."""
    options = parser(__doc__)
    options.add_argument("--data", default="ml-100k")
    options.add_argument("--presets", default="all", help="Names with commas between them.")
    options.add_argument("--device", default="auto")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--max-seconds", type=float, default=120.0, help="Of each fit.")
    options.add_argument(
        "--test-by",
        default="random",
        help="How a test part is drawn where there is none: random or last; validated alike.",
    )
    options.add_argument("--stop-after", type=float, help="Seconds after which no fit begins.")
    options.add_argument("--record", type=Path, help="Else results/presets/DATA.json.")
    asked = options.parse_args()
    names = [AUTO, *PRESETS] if asked.presets == "all" else asked.presets.split(",")
    require_presets(names)
    loaded = load(asked.data)
    dataset = with_test_part(loaded, TEST_SHARE, by=asked.test_by)
    validation_by = None if dataset is loaded else asked.test_by
    path = asked.record or Path("results", "presets", f"{dataset.name}.json")
    device = str(find_device(asked.device))
    started, started_from = time.monotonic(), commit()
    record = _record(path, dataset, asked.seed)
    todo = [name for name in names if not _is_there(name, record)]
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in todo:
        if asked.stop_after is not None and time.monotonic() - started > asked.stop_after:
            print(f"not begun: {','.join(todo[todo.index(name) :])}", file=sys.stderr, flush=True)
            break
        fit_options = FitOptions(max_seconds=asked.max_seconds, validation_by=validation_by)
        line = attempt(name, dataset, asked.seed, device, fit_options)
        command = shlex.join(["python", "-m", "ratiorec_lab.studies.compare_all", *sys.argv[1:]])
        line |= provenance(device=device, command=command, commit=started_from)
        others = [other for other in record["results"] if other["preset"] != name]
        record["results"] = [*others, line]
        write_json(path, record)
        told = line["error"] or f"{line['test']}, {line['seconds']['total']:.1f} s"
        print(f"{name}: {told}", file=sys.stderr, flush=True)
    tell(record)


def attempt(
    name: str, dataset: Dataset, seed: int, device: str, options: FitOptions
) -> dict[str, Any]:
    """The figures of one fit, or its error in one line."""
    line: Line = {
        "preset": name,
        "settings": to_table(preset(name)),
        "max_seconds": options.max_seconds,
    }
    release_memory(device)
    try:
        model = fit(dataset, preset=name, seed=seed, device=device, options=options)
    # torch tells by a RuntimeError that memory has run out
    except (RatiorecError, MemoryError, RuntimeError) as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return line | dict.fromkeys(_FIGURES) | {"error": told}
    return line | {key: model.card.get(key) for key in (*_FIGURES, "members")} | {"error": None}


def _record(path: Path, dataset: Dataset, seed: int) -> dict[str, Any]:
    """What is there of the same pairs and seed, or nothing."""
    known = {"dataset": dataset.name, "data_sha256": dataset.train.sha256, "seed": seed}
    record: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else {}
    if any(record.get(key) != value for key, value in known.items()):
        return {"target": "presets", **known, "results": []}
    return record


def _is_there(name: str, record: dict[str, Any]) -> bool:
    now = to_table(preset(name))
    found = [line for line in record["results"] if line["preset"] == name]
    return any(line["error"] is None and line["settings"] == now for line in found)


if __name__ == "__main__":
    main()
