"""What is published: the two wheels, their metadata, and that the files of the repository agree."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import ratiorec

ROOT = Path(__file__).parents[1]
POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}
POSIX_CALLS = {"fork", "getuid", "geteuid", "killpg", "mkfifo", "setsid", "statvfs", "wait"}


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def wheel_of(folder: Path, out: Path) -> zipfile.ZipFile:
    """A wheel, built as an installer does but for the isolation, which needs a network."""
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", code, str(out)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module", params=[".", "lab"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The wheel of a copy: a build leaves folders behind."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    here = ROOT / request.param
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(here / name, source)
    for name in ("src", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(here / name, source / name, ignore=ignored)
    with wheel_of(source, out) as built:
        yield built


def metadata_of(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_a_wheel_holds_every_file_of_its_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    package = metadata_of(wheel)["Name"].replace("-", "_")
    source = (ROOT if package == "ratiorec" else ROOT / "lab") / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == wanted
    assert f"{package}/py.typed" in found
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())


def test_both_wheels_have_a_version_a_description_and_a_licence(wheel: zipfile.ZipFile) -> None:
    metadata = metadata_of(wheel)
    assert metadata["Version"] == ratiorec.__version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["License-Expression"] == "MIT"
    assert len(metadata.get_payload()) > 200
    assert "dev" not in (metadata.get_all("Provides-Extra") or [])  # that is a dependency group


def test_a_page_on_pypi_leads_somewhere(wheel: zipfile.ZipFile) -> None:
    """Project links of both, and no link of a README that is relative to the repository."""
    metadata = metadata_of(wheel)
    links = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL") or [])
    assert links.keys() == {"Homepage", "Documentation", "Issues", "Changelog"}
    assert all(link.startswith(links["Homepage"]) for link in links.values())
    text = str(metadata.get_payload())
    for target in re.findall(r"\]\(([^)\s]+)", text):
        assert target.startswith(("https://", "#")), target
    for place in re.findall(r"https://github\.com/\S+?/(?:blob|tree)/main/([^)\s#]+)", text):
        assert (ROOT / place).exists(), place


def test_one_version_stands_everywhere() -> None:
    version = ratiorec.__version__
    assert toml("lab/pyproject.toml")["project"]["version"] == version
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


def test_the_classifiers_are_the_versions_that_are_tested() -> None:
    tests = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    tested = {str(v) for v in tests["jobs"]["linux"]["strategy"]["matrix"]["python"]}
    prefix = "Programming Language :: Python :: 3."
    named = toml("pyproject.toml")["project"]["classifiers"]
    assert {
        c.removeprefix("Programming Language :: Python :: ") for c in named if prefix in c
    } == tested
    least = toml("pyproject.toml")["project"]["requires-python"].removeprefix(">=")
    assert min(tested, key=lambda v: int(v.partition(".")[2])) == least


def workflows() -> list[Path]:
    return sorted((ROOT / ".github/workflows").glob("*.yml"))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", workflows(), ids=lambda path: path.stem)
def test_what_a_workflow_runs_exists(path: Path) -> None:
    """Make targets, scripts, files and groups of dependencies; with the least permission."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    groups = toml("pyproject.toml")["dependency-groups"]
    extras = toml("pyproject.toml")["project"]["optional-dependencies"]
    commands = "\n".join(step["run"] for step in steps(workflow) if "run" in step)
    for line in re.findall(r"^\s*make (.+)$", commands, re.MULTILINE):
        assert set(line.split()) <= targets
    assert set(re.findall(r"--group (\S+)", commands)) <= groups.keys()
    for named in re.findall(r"'\.\[([\w,]+)\]'", commands):
        assert set(named.split(",")) <= extras.keys()
    for word in re.findall(r"(?:\S*/)?[\w.-]+(?:/[\w.-]+)*", commands):
        if re.match(r"(tests|lab|docs|src|\.ci|\.github)/|Dockerfile|mkdocs\.yml", word):
            assert (ROOT / word).exists(), word


@pytest.mark.parametrize("path", workflows(), ids=lambda path: path.stem)
def test_every_action_is_of_a_fixed_version(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"])


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("tag", "heading", "passes"),
    [
        ("v0.2.0", "## 0.2.0 (2027-01-31)", True),
        ("v0.1.0", "## 0.2.0 (2027-01-31)", False),
        ("v0.2.0", "## 0.2.0 (unreleased)", False),
    ],
)
def test_a_release_needs_the_tag_of_the_newest_version(
    tmp_path: Path, tag: str, heading: str, passes: bool
) -> None:
    path = ROOT / ".github/workflows/release.yml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    (check,) = [step["run"] for step in steps(workflow) if "CHANGELOG.md" in step.get("run", "")]
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\n- new\n\n## 0.1.0 (old)\n")
    environment = os.environ | {"GITHUB_REF_NAME": tag}
    done = subprocess.run(["bash", "-e", "-c", check], cwd=tmp_path, env=environment, check=False)
    assert (done.returncode == 0) == passes


def test_pre_commit_runs_what_make_check_runs() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["entry"] for repo in config["repos"] for hook in repo["hooks"]}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    checks = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert checks is not None
    wanted = {line.strip().removeprefix("$(BIN)/") for line in checks[1].splitlines()}
    assert {
        f".venv/bin/{line}".replace(" --check .", "").removesuffix(" .") for line in wanted
    } == hooks


def test_the_templates_and_the_robot_can_be_read() -> None:
    for path in (ROOT / ".github").rglob("*.yml"):
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict), path
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert path.stem == "config" or {"name", "description", "body"} <= form.keys()


def test_the_image_copies_what_exists_and_what_is_not_ignored() -> None:
    copied = [
        name
        for line in (ROOT / "Dockerfile.serve").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    ]
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert copied
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in kept


def test_nothing_in_the_library_forbids_windows() -> None:
    """Modules and calls that only POSIX has are tried for, never taken for granted."""
    for path in Path(ratiorec.__path__[0]).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tried = {id(node) for t in ast.walk(tree) if isinstance(t, ast.Try) for node in ast.walk(t)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and id(node) not in tried:
                assert not {alias.name for alias in node.names} & POSIX_ONLY, path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "os" or node.attr not in POSIX_CALLS, path


def test_text_files_are_read_and_written_as_utf_8() -> None:
    """What a system would choose differs; /proc alone, which only Linux has, is plain ASCII."""
    for path in Path(ratiorec.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("read_text", "write_text"):
                source = ast.unparse(node)
                assert "encoding" in source or "/proc/" in source, (path, source)


def test_the_image_of_the_server_is_installed_by_hashes_of_what_the_package_needs() -> None:
    locked = (ROOT / "requirements-serve.txt").read_text(encoding="utf-8")
    pinned = dict(
        re.findall(r"^([a-z0-9.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", locked, re.M)
    )
    assert len(pinned) == locked.count("==")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for wanted in [*project["dependencies"], *project["optional-dependencies"]["serve"]]:
        requirement = Requirement(wanted)
        assert requirement.specifier.contains(pinned[requirement.name.replace("_", "-")])
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", constraints, re.M):
        assert pinned.get(name.lower().replace("_", "-"), version) == version, name
    dockerfile = (ROOT / "Dockerfile.serve").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements-serve.txt" in dockerfile
