from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import pkgutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import ratiorec

HEAVY = ("torch", "pyarrow", "scipy", "pandas", "polars", "narwhals", "rich", "numpy")


def loaded_after(statement: str) -> set[str]:
    """The modules a new interpreter has loaded after a statement."""
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_public_names_are_those_that_are_found_when_used() -> None:
    assert set(ratiorec.__all__) == {*ratiorec._HOME, "__version__"}
    assert sorted(ratiorec.__all__) == ratiorec.__all__
    assert dir(ratiorec) == ratiorec.__all__


@pytest.mark.parametrize("name", ratiorec.__all__)
def test_a_public_name_leads_to_its_part(name: str) -> None:
    part = getattr(ratiorec, name)
    if name in ratiorec._HOME:
        assert part is getattr(importlib.import_module(ratiorec._HOME[name]), name)
    else:
        assert isinstance(part, str)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Fit'"):
        ratiorec.Fit  # noqa: B018


def test_importing_the_package_loads_no_part_of_it_and_no_library() -> None:
    loaded = loaded_after("import ratiorec")
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("ratiorec")} == {
        "ratiorec",
    }


def test_using_a_model_loads_no_torch() -> None:
    loaded = loaded_after("import ratiorec; ratiorec.Artifact, ratiorec.RatioRec, ratiorec.read")
    assert not loaded & {"torch", "pyarrow", "scipy", "pandas", "polars"}


def test_the_command_line_loads_no_library_before_a_command_needs_it() -> None:
    loaded = loaded_after("import ratiorec.cli")
    assert not loaded & {"torch", "pyarrow", "scipy", "pandas", "polars", "narwhals", "numpy"}


def test_settings_presets_and_everything_that_serves_load_without_torch() -> None:
    """Parts import torch inside their functions: who serves a model need not have it."""
    names = ("config", "presets", "losses.bpr", "model.artifact", "serve.server", "sinks", "export")
    loaded = loaded_after("; ".join(f"import ratiorec.{name}" for name in names))
    assert not loaded & {"torch", "jaxtyping"}


def test_every_module_imports() -> None:
    for module in pkgutil.walk_packages(ratiorec.__path__, "ratiorec."):
        if module.name.endswith("__main__"):
            continue
        needs_triton = module.name.startswith("ratiorec.kernels.triton.")
        if not needs_triton or importlib.util.find_spec("triton"):
            assert importlib.import_module(module.name).__doc__


def test_no_class_name_stands_twice_in_the_package() -> None:
    homes: dict[str, list[str]] = {}
    for path in Path(ratiorec.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.name)
    assert not {name: at for name, at in homes.items() if len(at) > 1}


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files(ratiorec).joinpath("py.typed").is_file()
