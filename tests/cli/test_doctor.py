from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import torch

import ratiorec
from ratiorec.cli.doctor import CORE, EXTRAS, examine
from support.command_line import CommandLine


def test_every_core_library_is_there_with_its_version() -> None:
    versions = examine()["versions"]
    for name in CORE:
        assert versions[name] == importlib.metadata.version(name)


def test_the_libraries_are_those_the_package_asks_for() -> None:
    """Those of pyproject.toml: what is installed may be of an earlier one."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert {line.split(">")[0] for line in project["dependencies"]} == set(CORE)
    assert project["optional-dependencies"].keys() == EXTRAS.keys()
    page = (Path(__file__).parents[2] / "docs/install.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|$", page, re.MULTILINE)) == {
        name: purpose for name, (purpose, _) in EXTRAS.items()
    }


def test_an_extra_exists_only_while_something_imports_it() -> None:
    """By a statement or by name; only its first module, for others may be needed by that one."""
    sources = "".join(path.read_text() for path in Path(ratiorec.__path__[0]).rglob("*.py"))
    for extra, (_, modules) in EXTRAS.items():
        imported = re.compile(rf"(?:import|from) {modules[0]}\b|\(\"{modules[0]}[\".]")
        assert imported.search(sources), extra


def test_what_is_missing_is_named_with_the_command_that_adds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert examine()["extras"]["serve"] == "missing: pip install 'ratiorec[serve]'"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert set(examine()["extras"].values()) == {"installed"}


@pytest.mark.parametrize("error", [ImportError, OSError])
def test_where_torch_is_missing_or_broken_the_closed_forms_are_left(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def broken(name: str) -> None:
        raise error(name)

    monkeypatch.setattr(importlib, "import_module", broken)
    found = examine()
    assert found["machine"]["device"] == "cpu"
    assert found["kernels"].keys() == {"closed forms", "top-k"}


def test_on_a_gpu_the_kernels_are_those_of_triton_or_it_is_advised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    for spec, word in ((object(), "Triton"), (None, "pip install triton")):
        find = lambda name, spec=spec: spec if name == "triton" else object()  # noqa: E731
        monkeypatch.setattr(importlib.util, "find_spec", find)
        found = examine()
        assert (found["machine"]["device"], found["machine"]["cuda"]) == ("cuda", "GPU 0, GPU 1")
        for part in ("mean of layers", "positives", "unlabelled term"):
            assert word in found["kernels"][part]


def test_a_missing_core_library_does_not_end_the_examination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert examine()["versions"]["scipy"] == "missing: pip install scipy"


def test_the_findings_are_printed_and_given_as_json(cli: CommandLine) -> None:
    found = cli("doctor", "--json").json
    assert found.keys() == {"versions", "machine", "kernels", "extras"}
    assert found["machine"]["device"] in ("cpu", "cuda")
    printed = cli("doctor").out
    for extra, (purpose, _) in EXTRAS.items():
        assert re.search(
            rf"^  {extra} +(installed|missing: .*) \({re.escape(purpose)}\)$", printed, re.M
        )
    for heading, content in found.items():
        assert f"\n{heading}\n" in f"\n{printed}"
        for name in content:
            assert f"  {name} " in printed
