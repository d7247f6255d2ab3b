"""ratiorec doctor."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any, NamedTuple

import typer

from ratiorec.cli import options as o

EXAMPLES = """Example:

  ratiorec doctor --json
"""


class Extra(NamedTuple):
    """What an extra is for, and the modules it brings."""

    purpose: str
    modules: tuple[str, ...]


EXTRAS = {  # those of pyproject.toml, as a test sees to
    "torch": Extra("models trained by gradients", ("torch", "jaxtyping")),
    "serve": Extra("HTTP server and explorer", ("fastapi", "uvicorn", "prometheus_client")),
    "arrow": Extra("Parquet, Arrow and zstd files", ("pyarrow",)),
    "sql": Extra("data from a SQL query", ("duckdb", "sqlalchemy")),
    "plots": Extra("plot() of curves and comparisons", ("matplotlib",)),
    "tune": Extra("hyperparameter search: ratiorec tune", ("optuna", "sqlalchemy")),
    "ann": Extra("export to a faiss index", ("faiss",)),
    "onnx": Extra("export to ONNX", ("onnx",)),
    "postgres": Extra("lists and vectors in PostgreSQL", ("psycopg",)),
    "ray": Extra("bulk lists on a Ray cluster: --engine ray", ("ray",)),
    "tensorboard": Extra("--track tensorboard", ("tensorboard",)),
    "mlflow": Extra("--track mlflow", ("mlflow", "sqlalchemy", "alembic")),
    "rivals": Extra("the preset implicit-als", ("implicit",)),
}
CORE = ("numpy", "scipy", "narwhals", "safetensors", "typer", "rich", "threadpoolctl")


def doctor(json: o.Json = False) -> None:
    """Versions, devices, kernels in use, what is missing and the command that adds it."""
    findings = examine()
    if json:
        o.print_json(findings)
        return
    for heading, content in findings.items():
        typer.echo(f"{heading}")
        for name, value in content.items():
            purpose = f" ({EXTRAS[name].purpose})" if heading == "extras" else ""
            typer.echo(f"  {name:<18} {value}{purpose}")


def examine() -> dict[str, dict[str, Any]]:
    """All that a report of a problem should hold."""
    from ratiorec.machine import describe_machine, versions

    return {
        "versions": versions() | {name: _version(name) for name in CORE},
        "machine": describe_machine("cpu") | _devices(),
        "kernels": _kernels(),
        "extras": {name: _extra(name, modules) for name, (_, modules) in EXTRAS.items()},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"missing: pip install {package}"


def _devices() -> dict[str, Any]:
    torch = _torch()
    if torch is None:
        return {"device": "cpu", "cuda": "not looked for: torch is missing or cannot be loaded"}
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "device": "cuda" if gpus else "cpu",
        "cuda": ", ".join(gpus) or "not available",
        "threads": torch.get_num_threads(),
    }


def _kernels() -> dict[str, str]:
    """What a fit on this machine would run, by `--device auto`."""
    torch = _torch()
    if torch is None:
        return {"closed forms": "numpy and scipy", "top-k": "numpy, exact"}
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


def _torch() -> Any:
    """torch, where it can be loaded: installed it may still lack a library of the system."""
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError):
        return None


def _extra(name: str, modules: tuple[str, ...]) -> str:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"missing: pip install 'ratiorec[{name}]'" if missing else "installed"
