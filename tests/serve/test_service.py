from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ratiorec.serve.models import ModelInUse
from ratiorec.serve.service import JsonLines, Service
from support.small_models import small_model


def watched(service: Service, change: Callable[[], None], until: Callable[[], bool]) -> None:
    """Watch the folder, make a change, and go on until what is awaited has come."""

    async def go() -> None:
        task = asyncio.create_task(service.watch(service.models.first, 0.01))
        change()
        async with asyncio.timeout(20):
            while not until():
                await asyncio.sleep(0.01)
        assert not task.done()
        task.cancel()

    asyncio.run(go())


def test_a_watched_folder_gives_its_new_model(service: Service) -> None:
    first = service.models.first.current.version
    watched(
        service,
        lambda: small_model(1).save(service.models.first.folder),
        lambda: service.models.first.current.version != first,
    )
    assert service.models.first.current.artifact.card["seed"] == 1


def test_a_broken_model_is_refused_once_in_the_log_and_the_next_is_taken(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    first = service.models.first.current.version
    header = service.models.first.folder / "model.json"
    whole = header.read_bytes()

    def refusals() -> int:
        return caplog.messages.count("model refused")

    watched(service, lambda: write(header, whole[:-9]), lambda: refusals() == 1)
    assert service.models.first.current.version == first
    header.write_bytes(whole)
    watched(
        service,
        lambda: small_model(1).save(service.models.first.folder),
        lambda: service.models.first.current.version != first,
    )
    assert refusals() == 1
    record = next(record for record in caplog.records if record.message == "model refused")
    line = json.loads(JsonLines().format(record))
    assert {"what", "where", "found", "wanted", "kept"} <= line.keys()
    assert line["kept"] == first


def test_watching_outlives_an_error_that_nobody_thought_of(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def has_changed(models: ModelInUse) -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return False

    monkeypatch.setattr(ModelInUse, "has_changed", has_changed)
    watched(service, lambda: None, lambda: len(calls) > 2)
    assert "model refused" in caplog.messages


def write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
