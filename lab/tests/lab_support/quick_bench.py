"""Measurements that take a moment, with figures of no meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ratiorec_lab.bench import memory
from ratiorec_lab.bench.conditions import QUICK

AT_ONCE = replace(QUICK, repeats=2, product_size=64, copied_bytes=2**12, max_seconds=0.05)


def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started: what any case would take is told to be 7 MB."""

    def told(target: str, executions: Any, size: Any) -> dict[str, float]:
        return dict.fromkeys(executions, 7.0)

    monkeypatch.setattr(memory, "in_one_process", told)
