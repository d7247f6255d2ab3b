"""A small model with ids of text and names, and an application that serves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratiorec.model.artifact import Artifact
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.server import create_app
from ratiorec.serve.service import Limits, Service
from support.asgi_client import Client
from support.small_models import small_model


@pytest.fixture
def artifact() -> Artifact:
    return small_model()


@pytest.fixture
def folder(artifact: Artifact, tmp_path: Path) -> Path:
    artifact.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def service(folder: Path) -> Service:
    return Service.of(ModelInUse(folder), Limits())


@pytest.fixture
def client(service: Service) -> Client:
    return Client(create_app(service))
