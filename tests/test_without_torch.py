"""The light install: what a user can do without any extra, in processes that cannot import one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ratiorec.cli import doctor
from ratiorec.presets import PRESETS
from ratiorec.settings import SolverSettings

CLOSED_FORMS = [
    name
    for name, settings in PRESETS.items()
    if isinstance(settings, SolverSettings) and name != "implicit-als"
]
EXTRAS = sorted({module for extra in doctor.EXTRAS.values() for module in extra.modules})
SERVE = set(doctor.EXTRAS["serve"].modules)
BLOCKED = """
import importlib.util, os, sys

missing = set(os.environ["MISSING"].split(","))

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in missing else real(name, *a)

from ratiorec.cli import main
"""
ONE_COMMAND = BLOCKED + "\nmain()\n"
MANY_COMMANDS = (
    BLOCKED
    + """
import contextlib, io, json, shlex

told = {}
for words in json.load(sys.stdin):
    sys.argv = ["ratiorec", *shlex.split(words)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            told[words] = [left.code, out.getvalue(), err.getvalue()]
print(json.dumps(told))
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which users of even number have one half of the items, and a few pairs more."""
    folder = tmp_path_factory.mktemp("light")
    rng = np.random.default_rng(0)
    halves = [rng.choice(np.arange(user % 2, 20, 2), 6, replace=False) for user in range(30)]
    rows = [f"u{user},i{item}" for user, items in enumerate(halves) for item in items]
    (folder / "clicks.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    (folder / "today.csv").write_text("user,item\nu0,i1\nnew,i2\nnew,i4\nu2,new\nu4,new\n")
    return folder


def without(modules: Iterable[str]) -> dict[str, str]:
    return os.environ | {"MISSING": ",".join(modules)}


class Said(NamedTuple):
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


def told(folder: Path, commands: list[str]) -> dict[str, Said]:
    """What each of these commands says, one after the other in one process without any extra."""
    done = subprocess.run(
        [sys.executable, "-c", MANY_COMMANDS],
        cwd=folder,
        env=without(EXTRAS),
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {words: Said(*said) for words, said in json.loads(done.stdout).items()}


def run(folder: Path, *commands: str) -> list[Said]:
    """What each of these commands says, which all must come to a good end."""
    said = list(told(folder, list(commands)).values())
    assert [one.code for one in said] == [0] * len(commands), said
    return said


def test_every_closed_form_is_fitted_and_answers(folder: Path) -> None:
    (said,) = run(folder, f"compare clicks.csv --presets {','.join(CLOSED_FORMS)} --json")
    assert {line["preset"]: line["error"] for line in json.loads(said.out)["results"]} == (
        dict.fromkeys(CLOSED_FORMS)
    )


def test_the_default_says_what_it_left_out_and_what_would_add_it(folder: Path) -> None:
    fitted, listed = run(
        folder,
        "fit clicks.csv -o model --max-seconds 60 --json",
        "recommend model --user u0 -k 4 --json",
    )
    members = {member["name"]: member["why"] for member in json.loads(fitted.out)["members"]}
    learned = {"dregn-cf", "softmax", "lightgcn"}
    for name in learned:
        assert members[name] == "left out: torch is not installed, pip install 'ratiorec[torch]'"
    assert not any("torch" in members[name] for name in members.keys() - learned)
    items = {row["item_id"] for row in json.loads(listed.out)["recommendations"]}
    assert items <= {f"i{item}" for item in range(0, 20, 2)}


def test_a_model_is_judged_updated_and_exported(folder: Path) -> None:
    _, _, listed, *_ = run(
        folder,
        "fit clicks.csv --preset walk -o walk",
        "update walk today.csv",
        "recommend walk --user u6 -k 20",
        "evaluate walk --test today.csv --allow-seen --json",
        "similar walk --item i0",
        "export walk --to numpy -o vectors --min-recall 0.5",
    )
    assert "new" in listed.out


def test_data_are_described_and_split(folder: Path) -> None:
    described, _, _, figures, planned = run(
        folder,
        "data describe clicks.csv --json",
        "data split clicks.csv -o parts",
        "fit parts --preset ease -o of_parts",
        "evaluate of_parts --data parts --per-user users.csv",
        "plan --users 1e8 --items 1e7 --pairs 1e9 --n 8",
    )
    assert "memory of each of 8 processes" in planned.out
    found = json.loads(described.out)
    assert (found["n_users"], found["n_pairs"]) == (30, 180)
    assert "recall@20" in figures.out
    assert (folder / "users.csv").read_text().startswith("user_id,recall@20,")


@pytest.fixture(scope="module")
def model(folder: Path) -> str:
    run(folder, "fit clicks.csv --preset wmf -o wmf")
    return "wmf"


def test_lists_for_everyone_go_to_csv_and_sqlite(folder: Path, model: str) -> None:
    places = ("lists.csv", "sqlite:///lists.db")
    for said in run(folder, *(f"recommend {model} --all -k 3 -o {place}" for place in places)):
        assert "90 rows" in said.err


REFUSED = [  # a command, and the extra that it needs
    ("fit clicks.csv -o none --preset dregn-cf", "torch"),
    ("fit clicks.csv -o none --device cuda", "torch"),
    ("fit clicks.csv -o none --preset implicit-als", "rivals"),
    ("fit clicks.csv -o none --preset ease --track tensorboard:runs", "tensorboard"),
    ("fit clicks.csv -o none --preset ease --track mlflow", "mlflow"),
    ("fit clicks.csv -o none --sql SELECT", "sql"),
    ("fit clicks.parquet -o none", "arrow"),
    ("data describe clicks.feather", "arrow"),
    ("data describe clicks.csv.zst", "arrow"),
    ("evaluate wmf --test today.csv --per-user none.parquet", "arrow"),
    ("recommend wmf --all -o none.parquet", "arrow"),
    ("similar wmf --item i0 -o none.parquet", "arrow"),
    ("recommend wmf --all -o postgresql://ada@localhost/shop", "postgres"),
    ("recommend wmf --all -o none --engine local", "arrow"),
    ("recommend wmf --all -o none --engine ray", "ray"),
    ("export wmf --to parquet -o none", "arrow"),
    ("export wmf --to faiss -o none", "ann"),
    ("export wmf --to onnx -o none", "onnx"),
    ("export wmf --to pgvector --url postgresql://ada@localhost/shop", "postgres"),
    ("tune clicks.csv -o none.toml", "tune"),
    ("serve wmf", "serve"),
]


@pytest.fixture(scope="module")
def refusals(folder: Path, model: str) -> dict[str, Said]:
    for name in ("clicks.parquet", "clicks.feather", "clicks.csv.zst"):
        (folder / name).write_bytes(b"\x28\xb5\x2f\xfd, which is how zstd begins")
    return told(folder, [words for words, _ in REFUSED])


@pytest.mark.parametrize(("words", "extra"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_needs_an_extra_is_refused_with_the_command_that_adds_it(
    folder: Path, refusals: dict[str, Said], words: str, extra: str
) -> None:
    said = refusals[words]
    *_, refusal = said.err.splitlines()
    assert said.code == 2
    assert refusal.startswith("ratiorec: ")
    assert f"pip install 'ratiorec[{extra}]'" in refusal
    for part in (" (where: ", "; found: ", "; wanted: "):
        assert part in refusal
    assert not list(folder.glob("none*"))


def test_every_extra_is_missing_to_somebody() -> None:
    """But plots: no command draws with it."""
    assert {extra for _, extra in REFUSED} == doctor.EXTRAS.keys() - {"plots"}


def test_the_doctor_names_what_is_missing(folder: Path) -> None:
    (said,) = run(folder, "doctor --json")
    assert json.loads(said.out)["extras"] == {
        name: f"missing: pip install 'ratiorec[{name}]'" for name in doctor.EXTRAS
    }


def test_a_table_for_arrow_is_refused_in_python_too() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import ratiorec as rr\n"
        "pairs = [(user, item) for user in range(8) for item in range(user % 3, 6)]\n"
        "lists = rr.fit(pairs, preset='ease', validation=0).recommend([1])\n"
        "try:\n    lists.to_arrow()\n"
        "except rr.errors.MissingExtraError as error:\n    print(error.wanted)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "pip install 'ratiorec[arrow]'\n", done.stderr[-1000:]


def test_with_the_extra_serve_a_model_answers_over_http(folder: Path, model: str) -> None:
    command = [sys.executable, "-c", ONE_COMMAND, "serve", model, "--port", "0"]
    light = without(set(EXTRAS) - SERVE)
    with subprocess.Popen(
        command, cwd=folder, env=light, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
            with urllib.request.urlopen(f"{address}/v1/recommend/u0?k=2", timeout=30) as answer:
                assert len(json.loads(answer.read())["items"]) == 2
        finally:
            process.terminate()
