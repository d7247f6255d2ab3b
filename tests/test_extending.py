"""The code of `docs/extending.md` runs, and does what the page says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ratiorec as rr

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BY_USERS, BY_PAIRS, AT_REST, LOSS, PRESET = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(COMMANDS,) = re.findall(r"```sh\n(ratiorec .*?)```", PAGE, re.DOTALL)
WITHOUT_TORCH = "import sys\nsys.modules['torch'] = None\n"


def run_python(code: str, folder: Path, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the first two blocks leave behind: a folder with both models, and the models."""
    folder = tmp_path_factory.mktemp("page")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        models = []
        for block in (BY_USERS, BY_PAIRS):
            exec(compile(block, "extending.md", "exec", dont_inherit=True), names)
            models.append(names["model"])
    return {"folder": folder, "users": models[0], "pairs": models[1]}


def test_no_block_is_longer_than_promised() -> None:
    for block in (BY_USERS, BY_PAIRS, AT_REST, LOSS, PRESET):
        assert len(block.splitlines()) <= 40


@pytest.mark.parametrize("kind", ["users", "pairs"])
def test_a_model_learns_by_a_foreign_loss(page: dict[str, Any], kind: str) -> None:
    model = page[kind]
    for phase in ("search", "refit"):
        risks = [line["risk"] for line in model.card["curve"] if line["phase"] == phase]
        assert risks[-1] < 0.95 * risks[0]
    listed = model.recommend(["user0", "user1"], k=5).to_dicts()
    assert all(int(line["item_id"][4:]) % 2 == int(line["user_id"][4:]) for line in listed)


def test_its_settings_and_card_say_how_it_was_trained(page: dict[str, Any]) -> None:
    assert page["users"].settings["risk"] == {"kind": "candidate-softmax", "temperature": 0.2}
    assert page["pairs"].settings["risk"] == {"kind": "sampled-softmax", "temperature": 0.5}
    assert page["pairs"].settings["batches"]["sampler"] == {"kind": "uniform", "n_negatives": 8}
    assert page["users"].card["preset"] is None
    assert page["pairs"].card["preset"] is None


def test_it_needs_neither_torch_nor_the_loss_to_recommend(page: dict[str, Any]) -> None:
    printed = run_python(WITHOUT_TORCH + AT_REST, page["folder"])
    assert printed.count("(1, 64)") == 2  # vectors of a new user
    assert printed.count(" zoe ") == 2 * 5
    assert "{'kind': 'sampled-softmax', 'temperature': 0.5} None" in printed


@pytest.mark.parametrize("kind", ["users", "pairs"])
def test_new_users_are_folded_in_by_their_taste(page: dict[str, Any], kind: str) -> None:
    model = rr.Artifact.load(page["folder"] / f"model-{kind}")
    for history in (["item1", "item3"], ["item0", "item2", "item4"]):
        listed = model.recommend_to([history], k=5).columns()["item_id"]
        assert not set(listed) & set(history)
        assert {int(item[4:]) % 2 for item in listed} == {int(history[0][4:]) % 2}
    assert {int(x[4:]) % 2 for x in model.similar("item1", k=5).columns()["similar_id"]} == {1}


@pytest.fixture
def extended(tmp_path: Path) -> Path:
    """A copy of the library with the page's file, and its preset."""
    library = tmp_path / "src" / "ratiorec"
    shutil.copytree(
        ROOT / "src" / "ratiorec", library, ignore=shutil.ignore_patterns("__pycache__", "static")
    )
    place, loss = LOSS.split("\n", 1)
    (tmp_path / place.removeprefix("# ")).write_text(loss, encoding="utf-8")
    place, rest = PRESET.split(": ", 1)
    imports, entry = rest.split("\n", 1)[1].split("\n\n")
    presets = tmp_path / place.removeprefix("# ")
    text = presets.read_text(encoding="utf-8")
    text, n_imports = re.subn(r"(?=from ratiorec\.losses\.)", imports + "\n", text, count=1)
    text, n_entries = re.subn(r"(?<=MappingProxyType\(\n    \{\n)", entry, text, count=1)
    assert (n_imports, n_entries) == (1, 1)
    presets.write_text(text, encoding="utf-8")
    return tmp_path


COMMAND_LINE = """
import sys
from ratiorec.cli import main
for arguments in {lines!r}:
    sys.argv = arguments
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code, arguments
"""


def test_two_files_make_a_loss_of_the_library(extended: Path) -> None:
    pairs = [(u, 2 * ((u * 7 + n * 5) % 15) + u % 2) for u in range(40) for n in range(8)]
    lines = "".join(f"u{user},i{item}\n" for user, item in pairs)
    (extended / "clicks.csv").write_text("user,item\n" + lines)
    # a loss that no preset has is found by its file alone
    own = LOSS.replace("candidate-softmax", "own")
    (extended / "src" / "ratiorec" / "losses" / "own.py").write_text(own, encoding="utf-8")
    lines = [
        *COMMANDS.splitlines(),
        "ratiorec fit clicks.csv -o model --preset dregn-cf --set risk.kind=own",
    ]
    quick = ["--validation", "0", "--set", "training.epochs=2"]
    commands = [[*shlex.split(line), *quick] for line in lines]
    for number, command in enumerate(commands):
        command[command.index("model")] = f"model{number}"
    code = COMMAND_LINE.format(lines=commands)
    run_python(code, extended, PYTHONPATH=str(extended / "src"))
    expected = [
        ("candidate-softmax", "candidate-softmax", 0.2),
        ("dre-mf", "candidate-softmax", 0.1),
        ("dregn-cf", "own", 0.5),
    ]
    for number, (preset, kind, temperature) in enumerate(expected):
        model = rr.Artifact.load(extended / f"model{number}")  # here these losses are unknown
        assert model.card["preset"] == preset
        assert model.settings["risk"] == {"kind": kind, "temperature": temperature}
        assert len(model.recommend_to([["i1", "i3"]], k=3)) == 3
