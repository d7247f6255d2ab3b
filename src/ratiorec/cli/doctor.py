"""ratiorec doctor."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import Any

import typer

from ratiorec.cli import options as o

EXAMPLES = """Example:

  ratiorec doctor --json
"""
EXTRAS = {
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "ann": ("faiss",),
    "onnx": ("onnx",),
    "tensorboard": ("tensorboard",),
    "mlflow": ("mlflow", "sqlalchemy", "alembic"),
    "rivals": ("implicit",),
    "tune": ("optuna", "sqlalchemy"),
    "postgres": ("psycopg",),
}
CORE = (
    "torch",
    "numpy",
    "scipy",
    "pyarrow",
    "narwhals",
    "safetensors",
    "typer",
    "rich",
    "jaxtyping",
)


def doctor(json: o.Json = False) -> None:
    """Versions, devices, kernels in use, what is missing and the command that adds it."""
    findings = examine()
    if json:
        o.print_json(findings)
        return
    for heading, content in findings.items():
        typer.echo(f"{heading}")
        for name, value in content.items():
            typer.echo(f"  {name:<18} {value}")


def examine() -> dict[str, dict[str, Any]]:
    """All that a report of a problem should hold."""
    from ratiorec.machine import describe_machine, versions

    return {
        "versions": versions() | {name: _version(name) for name in CORE},
        "machine": describe_machine("cpu") | _devices(),
        "kernels": _kernels(),
        "extras": {name: _extra(name, modules) for name, modules in EXTRAS.items()},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"missing: pip install {package}"


def _devices() -> dict[str, Any]:
    if not _has_torch():
        return {"device": "none to train on"}
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "device": "cuda" if gpus else "cpu",
        "cuda": ", ".join(gpus) or "not available",
        "threads": torch.get_num_threads(),
    }


def _kernels() -> dict[str, str]:
    """What a fit on this machine would run, by `--device auto`."""
    if not _has_torch():  # enough to serve and to recommend
        return {"top-k": "numpy, exact"}
    import torch

    if not torch.cuda.is_available():
        return {
            "mean of layers": "weighted sums of rows in blocks",
            "positives": "torch",
            "unlabelled term": "tiles, value and gradient together",
            "steps": "one by one",
            "top-k": "numpy, exact",
        }
    has_triton = importlib.util.find_spec("triton") is not None
    plain = "torch; pip install triton for kernels many times as fast"
    return {
        "mean of layers": "Triton, gathers in 16 bits" if has_triton else plain,
        "positives": "Triton, a program a user" if has_triton else plain,
        "unlabelled term": "Triton, products in fp16 with float32 sums" if has_triton else plain,
        "steps": "recorded as CUDA graphs",
        "top-k": "torch while training, else numpy, exact",
    }


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _extra(name: str, modules: tuple[str, ...]) -> str:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"missing: pip install 'ratiorec[{name}]'" if missing else "installed"
