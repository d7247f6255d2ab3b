from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shellingham
import typer
from typer.testing import CliRunner

import ratiorec
from ratiorec.cli import compare, doctor
from ratiorec.cli.app import app
from ratiorec.errors import DataError
from support.command_line import CommandLine, has_full_device, in_a_process


def commands(group: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that lead to it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


COMMANDS = dict(commands(typer.main.get_command(app)))
EXAMPLES = [
    line.strip()
    for command in COMMANDS.values()
    for line in command.epilog.splitlines()
    if line.strip().startswith("ratiorec ")
]


def test_the_commands_are_those_of_the_contract() -> None:
    assert {" ".join(words) for words in COMMANDS} >= {
        "demo",
        "data list",
        "data describe",
        "data fetch",
        "data split",
        "fit",
        "evaluate",
        "recommend",
        "similar",
        "plan",
        "doctor",
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.output
    assert f"  ratiorec {' '.join(words)}" in shown.output


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_parsed(example: str) -> None:
    _, *words = shlex.split(example)
    n_words = 2 if words[0] == "data" else 1
    command = COMMANDS[tuple(words[:n_words])]
    with command.make_context("ratiorec", words[n_words:]) as context:
        assert context.params


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_short_and_the_long_flag_show_help(cli: CommandLine, flag: str) -> None:
    shown = cli("data", "split", flag)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("Usage:")


def test_the_version_is_that_of_the_package(cli: CommandLine) -> None:
    assert cli("--version").out == f"ratiorec {ratiorec.__version__}\n"


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        ("fly", "a wrong command (where: ratiorec; found: No such command 'fly"),
        ("--fly", "a wrong option (where: ratiorec; found: No such option: --fly"),
        ("data list --x", "a wrong option (where: ratiorec data list; found: No such option: --x"),
        ("data list x", "a wrong command (where: ratiorec data list; found: Got unexpected extra"),
        ("recommend m -k", "a wrong option (where: ratiorec COMMAND; found: Option '-k' requires"),
        ("fit", "a missing argument (where: ratiorec fit; found: no DATA; wanted: DATA as"),
        ("fit x.csv", "a missing option (where: ratiorec fit; found: no --output; wanted: --out"),
        ("recommend m -k many", "a wrong option (where: ratiorec recommend --k; found: 'many'; "),
        ("serve m --port 99999", "a wrong option (where: ratiorec serve --port; found: "),
        (
            "export m --to foo",
            "a wrong option (where: ratiorec export --to; found: 'foo'; wanted: one of 'faiss', ",
        ),
    ],
)
def test_a_command_that_cannot_be_parsed_is_refused_in_one_line(
    cli: CommandLine, command: str, refusal: str
) -> None:
    outcome = cli(*command.split())
    assert outcome.refusal.startswith(f"ratiorec: {refusal}")
    assert outcome.err.count("\n") == 1


def test_a_value_that_is_refused_is_told_with_those_that_are_allowed(cli: CommandLine) -> None:
    refusal = cli("serve", "m", "--port", "99999").refusal
    found, _, wanted = refusal.partition("; wanted: ")
    assert "99999" in found
    assert "65535" in wanted


@pytest.mark.parametrize("words", [[], ["data"]])
def test_no_arguments_at_all_show_help(cli: CommandLine, words: list[str]) -> None:
    outcome = cli(*words)
    assert (outcome.out + outcome.err).startswith(f"Usage: {' '.join(['ratiorec', *words])} ")
    assert "Commands:" in outcome.out + outcome.err
    assert "ratiorec: " not in outcome.err


@pytest.mark.parametrize("command", ["fit", "demo", "data split"])
def test_a_negative_seed_is_refused(cli: CommandLine, tmp_path: Path, command: str) -> None:
    data = [] if command == "demo" else ["x.csv", "-o", "out"]
    outcome = cli(*command.split(), *data, "--seed", "-1")
    assert outcome.code == 2
    assert "--seed" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_one_line_whatever_is_in_it(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DataError("two\nlines", where="a\nb", found="c", wanted="d")

    monkeypatch.setattr(doctor, "examine", refuse)
    assert cli("doctor").refusal == "ratiorec: two lines (where: a b; found: c; wanted: d)"


@pytest.mark.parametrize(
    ("where", "wanted", "told"),
    [
        ("on_unknown", "a user", "(where: --on-unknown; found: c; wanted: a user)"),
        (
            "data/k",
            'or on_unknown="skip"',
            "(where: data/k; found: c; wanted: or --on-unknown skip)",
        ),
        ("test", "a file", "(where: test; found: c; wanted: a file)"),
        ("x.csv", "or header=False", "(where: x.csv; found: c; wanted: or --no-header)"),
        ("risk", "such as risk.k=True", "(where: risk; found: c; wanted: such as risk.k=True)"),
    ],
)
def test_a_mistake_is_told_with_flags_and_not_with_arguments_of_python(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, where: str, wanted: str, told: str
) -> None:
    def refuse() -> None:
        raise DataError("a mistake", where=where, found="c", wanted=wanted)

    monkeypatch.setattr(doctor, "examine", refuse)
    assert cli("doctor").refusal == f"ratiorec: a mistake {told}"


def test_a_module_of_an_extra_that_is_missing_is_one_line_wherever_it_is_imported(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)  # as if it were not installed
    monkeypatch.setattr(doctor, "examine", lambda: importlib.import_module("faiss.contrib"))
    refusal = cli("doctor").refusal
    assert "faiss is not installed (where: ratiorec doctor; " in refusal
    assert "wanted: pip install 'ratiorec[ann]'" in refusal
    monkeypatch.setitem(sys.modules, "wave", None)
    monkeypatch.setattr(doctor, "examine", lambda: importlib.import_module("wave"))
    with pytest.raises(ModuleNotFoundError):
        cli("doctor")


def test_ctrl_c_outside_of_training_ends_quietly(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine", interrupt)
    outcome = cli("doctor")
    assert outcome.code == 130
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_a_bug_ends_in_a_traceback_and_exit_code_1() -> None:
    code = (
        "from ratiorec.cli import doctor, main\n"
        "def examine(): raise RuntimeError('a bug')\n"
        "doctor.examine = examine\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("RuntimeError: a bug\n")


def test_the_module_is_the_command() -> None:
    done = in_a_process("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ratiorec {ratiorec.__version__}\n"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("fit --valid", {"--validation", "--validation-by"}),
        ("data f", {"fetch"}),
        ("eva", {"evaluate"}),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, wanted: set[str]) -> None:
    typed = f"ratiorec {words}"
    asked = {"_RATIOREC_COMPLETE": "complete_bash", "COMP_WORDS": typed}
    asked["COMP_CWORD"] = str(len(typed.split()) - 1)
    done = in_a_process(env=os.environ | asked)
    assert (set(done.stdout.split()), done.stderr) == (wanted, "")


def test_the_script_of_a_shell_is_shown_and_an_unknown_shell_is_refused(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("zsh", "/bin/zsh"))
    assert "#compdef ratiorec" in cli("--show-completion").out
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("dash", "/bin/dash"))
    assert "bash, zsh, fish or PowerShell" in cli("--show-completion").refusal


def test_a_mistake_in_a_process_of_its_own_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = in_a_process("data", "describe", tmp_path / "none.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ratiorec: no data named")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error(model: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = in_a_process("recommend", model, "--all", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not has_full_device(), reason="there is no /dev/full here")
def test_output_to_a_full_disk_is_refused_in_one_line(model: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = in_a_process("recommend", model, "--all", "--json", stdout=full)
    assert done.returncode == 2
    assert done.stderr.startswith("ratiorec: the output could not be written (where: standard")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["data", "list"], ["doctor"], ["data", "describe", "synthetic"]]
)
def test_json_is_one_object_and_nothing_else(cli: CommandLine, arguments: list[str]) -> None:
    outcome = cli(*arguments, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert isinstance(json.loads(outcome.out), dict)


@pytest.fixture
def without_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line that was imported where no other distribution adds to it."""
    for module in (importlib.metadata, compare):
        monkeypatch.setattr(module, "entry_points", lambda **_: [])
    monkeypatch.delitem(sys.modules, "ratiorec.cli.app")
    monkeypatch.setattr(ratiorec.cli, "app", importlib.import_module("ratiorec.cli.app"))


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "risk"),
        ("demo",),
        ("reproduce", "all", "--out", "x"),
        ("compare", "x.csv", "--presets", "ease"),
    ],
)
@pytest.mark.usefixtures("without_lab")
def test_without_the_laboratory_its_commands_say_in_one_line_how_to_get_it(
    cli: CommandLine, words: tuple[str, ...], tmp_path: Path
) -> None:
    if words[0] == "compare":
        (tmp_path / "x.csv").write_text("user_id,item_id\na,b\n")
        words = (*words, "--report", "report.html")
    assert "pip install ratiorec-lab" in cli(*words).refusal
    assert "ratiorec-lab, not installed" in cli("bench", "--help").out
