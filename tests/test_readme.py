"""The README's Python and its commands work as printed."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from ratiorec import presets
from ratiorec.cli import main
from ratiorec.config import resolve
from ratiorec.settings import Settings
from ratiorec.training import portfolio

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_ten_lines_of_python_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert block is not None
    exec(compile(block.group(1), "README.md", "exec"), {})
    assert "ada" in capsys.readouterr().out
    assert len([line for line in block.group(1).splitlines() if line]) <= 10
    assert (tmp_path / "model" / "model.json").exists()


def commands():
    block = re.search(r"## The command line\n\n```\n(.*?)```", README, re.DOTALL)
    assert block is not None
    lines = [line.split("#")[0].strip() for line in block.group(1).splitlines()]
    return [line for line in lines if "fetch" not in line]  # that one needs a network


def test_the_commands_run_in_the_order_they_are_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    items = ["tea", "jam", "oats", "rye", "salt", "figs", "milk", "plum", "beet", "leek", "dill"]
    users = ["ada", *(f"user{n}" for n in range(12))]
    pairs = [(u, items[(n + k) % 11]) for n, u in enumerate(users) for k in range(6)]
    Path("clicks.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    held_out = [(u, items[(n + 6) % 11]) for n, u in enumerate(users)]
    Path("held_out.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in held_out))
    Path("today.csv").write_text("user,item\nada,leek\nzoe,tea\nzoe,kale\n")
    Path("items.csv").write_text("id,title,price\n" + "".join(f"{i},A {i},3\n" for i in items))
    # as printed, but for how long they train
    short = {
        name: resolve(settings, assignments=["training.epochs=30"])
        for name, settings in presets.PRESETS.items()
        if isinstance(settings, Settings)
    }
    for module in (presets, portfolio):
        monkeypatch.setattr(module, "PRESETS", {**module.PRESETS, **short})
    run = commands()
    assert len(run) >= 6
    for line in run:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code in (0, None), line
    assert Path("lists.csv").exists()


def test_it_is_short_and_its_links_work_on_pypi() -> None:
    assert len(README.splitlines()) <= 80
    links = re.findall(r"\]\(([^)]+)\)", README)
    root = Path(__file__).parent.parent
    for link in links:
        path = re.sub(r"^https://[^/]+/ratiorec/ratiorec/(blob/|tree/)?main/|\?.*", "", link)
        assert link.startswith("https://"), link
        assert (root / path).exists(), link
    assert len([link for link in links if ".svg" in link]) == 1


def test_every_import_on_the_pages_works() -> None:
    """Except that of the loss which docs/extending.md adds."""
    lines = [
        line
        for page in sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("from ratiorec") and "candidate_softmax" not in line
    ]
    assert len(lines) > 5
    for line in lines:
        exec(line, {})
