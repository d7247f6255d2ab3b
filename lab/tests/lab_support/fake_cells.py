"""Records of cells that were never run, to see what a report makes of given figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ratiorec.config import to_table
from ratiorec.files import write_json
from ratiorec_lab.reproduce.cells import Cell
from ratiorec_lab.reproduce.records import ON_CPU, CellFiles, Timing

SHA256 = "ab" * 32
GPU = {"device": "cuda", "accelerator": "Some GPU", "cores": 2, "processor": "Some Processor"}


def metrics(ndcg: float, recall: float | None = None) -> dict[str, float]:
    return {"recall@20": ndcg if recall is None else recall, "ndcg@20": ndcg}


def curve(
    ndcg: Sequence[float | None], *, n_steps: int = 10, step_seconds: float = 0.5
) -> list[dict[str, Any]]:
    """An epoch for each figure; None is one that was not validated; a validation takes a second."""
    entries: list[dict[str, Any]] = []
    seconds = 100.0  # to set up
    for epoch, value in enumerate(ndcg, start=1):
        seconds += n_steps * step_seconds
        entry = {"phase": "search", "epoch": epoch, "step": epoch * n_steps, "risk": 1.0}
        entries.append({**entry, "seconds": seconds})
        if value is not None:
            entries[-1]["validation"] = metrics(value)
            seconds += 1
    return entries


def record_of(cell: Cell, /, **given: Any) -> dict[str, Any]:
    """What a run of the cell might have left."""
    figures = metrics(0.1)
    return {
        "cell": cell.name,
        "max_seconds": None,
        "target": "reproduce",
        "dataset": cell.dataset,
        "data_sha256": SHA256,
        "preset": cell.preset,
        "settings": to_table(cell.settings),
        "protocol": cell.protocol,
        "seed": cell.seed,
        "steps": 20,
        "epochs": 2.0,
        "stopped_by": "no gain",
        "seconds": {"train": 10.0, "total": 12.0},
        "validation": figures,
        "test": None if cell.on_validation else figures,
        "curve": curve([None, 0.1]),
        "machine": GPU,
        "versions": {"ratiorec": "0.1.0"},
        "commit": "c0ffee",
        "command": "ratiorec reproduce all",
        **given,
    }


def keep(files: CellFiles, cells: Iterable[Cell], **given: Any) -> None:
    """Finished cells with the same figures."""
    for cell in cells:
        files.write(cell, record_of(cell, **given))


def know(files: CellFiles, *datasets: str, **counts: int) -> None:
    """Data sets that were seen on the machine."""
    sizes: Mapping[str, int] = {"users": 4, "items": 5, "train_pairs": 8, "test_pairs": 2, **counts}
    for name in datasets:
        path = Path(files.folder) / "datasets" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"dataset": name, "data_sha256": SHA256, "test_sha256": SHA256, **sizes})


def compare(files: CellFiles, cells: Iterable[Cell], **given: Any) -> None:
    """Lines of the study `compare_all`, one for each preset of these cells, beside the cells."""
    found = list(cells)
    lines = [
        {
            "preset": cell.preset,
            "settings": to_table(cell.settings),
            "max_seconds": 60.0,
            "stopped_by": "no gain",
            "seconds": {"train": 10.0, "total": 12.0},
            "validation": metrics(0.1),
            "validation_by": "random",
            "test": metrics(0.2),
            "error": None,
            "machine": GPU,
            "versions": {"ratiorec": "0.1.0"},
            "commit": "abc",
            "command": "python -m ratiorec_lab.studies.compare_all",
            **given,
        }
        for cell in found
    ]
    dataset, seed = found[0].dataset, found[0].seed
    path = files.folder.parent / "presets" / f"{dataset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {"dataset": dataset, "data_sha256": SHA256, "seed": seed}
    write_json(path, {**known, **given, "results": lines})


def time_steps(
    files: CellFiles,
    dataset: str,
    seconds: Mapping[str, tuple[float, float, float]],
    *,
    data_sha256: str = SHA256,
    on: Timing = ON_CPU,
) -> None:
    """A measurement of steps beside the cells: lower quartile, median and upper quartile each."""
    clock = "processor_" if on is ON_CPU else ""
    cases = [
        {
            "name": name,
            "execution": on.execution,
            "seconds": 9.0,
            f"{clock}seconds": median,
            f"{clock}spread": [low, high],
        }
        for name, (low, median, high) in seconds.items()
    ]
    record = {
        "dataset": dataset,
        "data_sha256": data_sha256,
        "cases": cases,
        "machine": {"cores": 2, "processor": "a processor"},
        "commit": "abc",
        "command": "ratiorec bench step",
    }
    path = files.folder.parent / "steps" / f"{dataset}{on.ending}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record)
