from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from importlib import resources

import pytest

import ratiorec

HEAVY = ("torch", "pyarrow", "scipy", "pandas", "polars", "narwhals", "rich", "numpy")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ratiorec.__path__, "ratiorec.")
    if not module.name.endswith("__main__")
)


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


@pytest.mark.parametrize("name", MODULES)
def test_every_module_imports(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        pytest.skip("the package triton is not installed")
    assert module.__doc__


def test_the_list_of_modules_is_the_whole_package() -> None:
    files = {path.name for path in resources.files(ratiorec).iterdir()}
    top = {f"{name.removeprefix('ratiorec.')}.py" for name in MODULES if name.count(".") == 1}
    assert {file for file in files if file.endswith(".py")} - {"__init__.py"} <= top


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files(ratiorec).joinpath("py.typed").is_file()
