"""A small model with ids of text and names, and an application that serves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from asgi_client import Client
from ratiorec.artifact import Artifact
from ratiorec.serve.app import create_app
from ratiorec.serve.limits import Limits
from ratiorec.serve.models import ModelInUse
from ratiorec.serve.service import Service
from small_models import small_model


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
