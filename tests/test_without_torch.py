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
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        try:
            main()
        except SystemExit as left:
            told[words] = [left.code, stderr.getvalue()]
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


def run(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", ONE_COMMAND, *words],
        cwd=folder,
        env=without(EXTRAS),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    return done


def test_every_closed_form_is_fitted_and_answers(folder: Path) -> None:
    found = json.loads(
        run(folder, "compare", "clicks.csv", "--presets", ",".join(CLOSED_FORMS), "--json").stdout
    )
    assert {line["preset"]: line["error"] for line in found["results"]} == dict.fromkeys(
        CLOSED_FORMS
    )


def test_the_default_says_what_it_left_out_and_what_would_add_it(folder: Path) -> None:
    done = run(folder, "fit", "clicks.csv", "-o", "model", "--max-seconds", "60", "--json")
    members = {member["name"]: member["why"] for member in json.loads(done.stdout)["members"]}
    learned = {"dregn-cf", "softmax", "lightgcn"}
    for name in learned:
        assert members[name] == "left out: torch is not installed, pip install 'ratiorec[torch]'"
    assert not any("torch" in members[name] for name in members.keys() - learned)
    lists = run(folder, "recommend", "model", "--user", "u0", "-k", "4", "--json").stdout
    listed = {row["item_id"] for row in json.loads(lists)["recommendations"]}
    assert listed <= {f"i{item}" for item in range(0, 20, 2)}


def test_a_model_is_judged_updated_and_exported(folder: Path) -> None:
    run(folder, "fit", "clicks.csv", "--preset", "walk", "-o", "walk")
    run(folder, "update", "walk", "today.csv")
    assert "new" in run(folder, "recommend", "walk", "--user", "u6", "-k", "20").stdout
    run(folder, "evaluate", "walk", "--test", "today.csv", "--allow-seen", "--json")
    run(folder, "similar", "walk", "--item", "i0")
    run(folder, "export", "walk", "--to", "numpy", "-o", "vectors", "--min-recall", "0.5")


def test_data_are_described_and_split(folder: Path) -> None:
    found = json.loads(run(folder, "data", "describe", "clicks.csv", "--json").stdout)
    assert (found["n_users"], found["n_pairs"]) == (30, 180)
    run(folder, "data", "split", "clicks.csv", "-o", "parts")
    run(folder, "fit", "parts", "--preset", "ease", "-o", "of_parts")
    figures = run(folder, "evaluate", "of_parts", "--data", "parts", "--per-user", "users.csv")
    assert "recall@20" in figures.stdout
    assert (folder / "users.csv").read_text().startswith("user_id,recall@20,")


@pytest.fixture(scope="module")
def model(folder: Path) -> str:
    run(folder, "fit", "clicks.csv", "--preset", "wmf", "-o", "wmf")
    return "wmf"


def test_lists_for_everyone_go_to_csv_and_sqlite(folder: Path, model: str) -> None:
    for place in ("lists.csv", "sqlite:///lists.db"):
        assert "90 rows" in run(folder, "recommend", model, "--all", "-k", "3", "-o", place).stderr


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
    ("export wmf --to parquet -o none", "arrow"),
    ("export wmf --to faiss -o none", "ann"),
    ("export wmf --to onnx -o none", "onnx"),
    ("export wmf --to pgvector --url postgresql://ada@localhost/shop", "postgres"),
    ("tune clicks.csv -o none.toml", "tune"),
    ("serve wmf", "serve"),
]


@pytest.fixture(scope="module")
def refusals(folder: Path, model: str) -> dict[str, tuple[int, str]]:
    """What each of these commands says, all in one process."""
    for name in ("clicks.parquet", "clicks.feather", "clicks.csv.zst"):
        (folder / name).write_bytes(b"\x28\xb5\x2f\xfd, which is how zstd begins")
    done = subprocess.run(
        [sys.executable, "-c", MANY_COMMANDS],
        cwd=folder,
        env=without(EXTRAS),
        input=json.dumps([words for words, _ in REFUSED]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    told: dict[str, tuple[int, str]] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(("words", "extra"), REFUSED, ids=[words for words, _ in REFUSED])
def test_what_needs_an_extra_is_refused_with_the_command_that_adds_it(
    folder: Path, refusals: dict[str, tuple[int, str]], words: str, extra: str
) -> None:
    code, said = refusals[words]
    *_, refusal = said.splitlines()
    assert code == 2
    assert refusal.startswith("ratiorec: ")
    assert f"pip install 'ratiorec[{extra}]'" in refusal
    for part in (" (where: ", "; found: ", "; wanted: "):
        assert part in refusal
    assert not list(folder.glob("none*"))


def test_every_extra_is_missing_to_somebody() -> None:
    """But plots: no command draws with it."""
    assert {extra for _, extra in REFUSED} == doctor.EXTRAS.keys() - {"plots"}


def test_the_doctor_names_what_is_missing(folder: Path) -> None:
    found = json.loads(run(folder, "doctor", "--json").stdout)["extras"]
    assert found == {name: f"missing: pip install 'ratiorec[{name}]'" for name in doctor.EXTRAS}


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
