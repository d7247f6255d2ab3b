"""Measurements that take a moment, with figures of no meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ratiorec_lab.bench import side_by_side
from ratiorec_lab.bench.clock import QUICK

AT_ONCE = replace(QUICK, repeats=2, product_size=64, copied_bytes=2**12, max_seconds=0.05)


def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is started: what any case would take is told to be 7 MB."""

    def told(target: str, keys: Any, size: Any) -> dict[str, float]:
        return dict.fromkeys(keys, 7.0)

    monkeypatch.setattr(side_by_side, "in_one_process", told)
