"""All commands in one application, and what becomes of an error."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from ratiorec.cli import (
    compare,
    data,
    doctor,
    evaluate,
    export,
    fit,
    items,
    plan,
    recommend,
    serve,
    tune,
    update,
)
from ratiorec.cli.options import flag, lab_is_missing, with_flags
from ratiorec.errors import (
    ConfigError,
    LostRankError,
    MissingExtraError,
    RatiorecError,
    StoppedError,
    StorageError,
)

LAB_COMMANDS = {
    "bench": "Measure how fast each part is",
    "demo": "Train on synthetic pairs and write a report",
    "reproduce": "Make the paper's tables and figures",
}
TRY_AGAIN = 75  # the exit code of a process whose others are gone
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UsageError: Any = typer.BadParameter.__base__  # it has no public name of its own


class Commands(TyperGroup):
    """The commands, with what becomes of wrong ones and of output that cannot be written."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse what stands before the command, completion of a shell included."""
        try:
            with _usage_in_one_line():
                return super().make_context(*arguments, **options)
        except typer.Exit as left:
            if left.exit_code != 1:
                raise
            raise ConfigError(
                "no completion for this shell",
                where="ratiorec --install-completion, --show-completion",
                found="another shell",
                wanted="bash, zsh, fish or PowerShell",
            ) from None

    def invoke(self, ctx: Any) -> Any:
        """Run the command; it is no bug when standard output goes away or fills a disk."""
        try:
            with _usage_in_one_line():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader has left, and nothing more can be said to it
            _discard_output()
            raise typer.Exit from None
        except ModuleNotFoundError as error:
            raise _missing_extra(error, ctx) from error
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _discard_output()
            raise StorageError(
                "the output could not be written",
                where="standard output",
                found=error.strerror or str(error),
                wanted="a place that has room",
            ) from error


@contextmanager
def _usage_in_one_line() -> Iterator[None]:
    """Let a command that cannot be parsed end like any other mistake of the user's."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # whoever gives no arguments gets help
            raise
        raise (_wrong_parameter if getattr(error, "param", None) else _wrong_words)(error) from None


def _wrong_parameter(error: Any) -> ConfigError:
    """An option or argument that is missing, or has a value that it cannot have."""
    command, parameter = error.ctx.command_path, error.param
    kind = parameter.param_type_name
    name = max(parameter.opts, key=len) if kind == "option" else parameter.metavar or parameter.name
    if not error.message:
        return ConfigError(
            f"a missing {kind}",
            where=command,
            found=f"no {name}",
            wanted=f"{name} as {command} --help says",
        )
    told = error.message.rstrip(".").partition(", unable")[0]
    told = told.removeprefix("Value error, ").removeprefix("Input should be ")
    found, _, allowed = told.rpartition(" is not ")
    return ConfigError(
        f"a wrong {kind}", where=f"{command} {name}", found=found or _given(error), wanted=allowed
    )


def _given(error: Any) -> str:
    """The value that was refused, where the message does not begin with it."""
    checks = getattr(error.__cause__, "errors", None)
    return repr(checks()[0]["input"]) if checks else "another value"


def _wrong_words(error: Any) -> ConfigError:
    """A command or an option that does not exist, or words too many or too few."""
    command = error.ctx.command_path if error.ctx else "ratiorec COMMAND"
    return ConfigError(
        "a wrong option" if hasattr(error, "option_name") else "a wrong command",
        where=command,
        found=error.format_message().rstrip("."),
        wanted=f"what {command} --help says",
    )


def _missing_extra(error: ModuleNotFoundError, ctx: Any) -> ImportError:
    """The command that adds a module that an extra would bring; the bug itself for another."""
    module = (error.name or "").partition(".")[0]
    for name, extra in doctor.EXTRAS.items():
        if module in extra.modules:
            return MissingExtraError(
                f"{module} is not installed",
                where=f"ratiorec {ctx.invoked_subcommand}",
                found=str(error),
                wanted=f"pip install 'ratiorec[{name}]'",
            )
    return error


def _discard_output() -> None:
    """Give up what waits to be written, or Python would try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="ratiorec",
    cls=Commands,
    help="Recommend items from implicit feedback by estimating density ratios.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.command(epilog=fit.EXAMPLES)(fit.fit)
app.command(epilog=update.EXAMPLES)(update.update)
app.command(epilog=items.EXAMPLES)(items.items)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=tune.EXAMPLES)(tune.tune)
app.command(epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command(epilog=recommend.EXAMPLES)(recommend.recommend)
app.command(epilog=recommend.SIMILAR_EXAMPLES)(recommend.similar)
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.command(epilog=export.EXAMPLES)(export.export)
app.command(epilog=plan.EXAMPLES)(plan.plan)
app.command(epilog=doctor.EXAMPLES)(doctor.doctor)


def _add_plugins(commands: typer.Typer) -> None:
    """Commands of other distributions, by entry points; the laboratory's are told of if missing."""
    found = {entry.name: entry for entry in entry_points(group="ratiorec.commands")}
    for name in sorted({*found, *LAB_COMMANDS}):
        if name not in found:  # whatever words follow, the answer is the same
            anything = {"allow_extra_args": True, "ignore_unknown_options": True}
            commands.command(name, context_settings=anything)(_missing_command(name))
            continue
        command = found[name].load()
        examples = getattr(sys.modules[command.__module__], "EXAMPLES", None)
        commands.command(name, epilog=examples)(command)


def _missing_command(name: str) -> Callable[[], None]:
    def command() -> None:
        raise lab_is_missing(f"ratiorec {name}")

    command.__doc__ = f"{LAB_COMMANDS[name]} (in the package ratiorec-lab, not installed)."
    return command


_add_plugins(app)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
) -> None:
    if version:
        from ratiorec import __version__

        typer.echo(f"ratiorec {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command; the user's mistakes end in one line and exit code 2, bugs in a traceback."""
    if sys.platform == "win32":  # ids and JSON may hold any character, also in a pipe or file
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stderr.reconfigure(encoding="utf-8")
    try:
        app(prog_name=app.info.name)  # whatever the file is called that was started
    except StoppedError as stopped:
        _say(stopped)
        sys.exit(128 + stopped.signal)
    except LostRankError as lost:
        _say(lost)
        sys.exit(TRY_AGAIN)
    except RatiorecError as error:
        if error.is_told_here:
            _say(error)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _option_names(command: Any) -> set[str]:
    """The names that options have in Python, of a command and those below it."""
    names = {part.name for part in command.params if part.param_type_name == "option"}
    return names.union(*map(_option_names, getattr(command, "commands", {}).values()))


def _say(error: RatiorecError) -> None:
    """One line, whatever the file names and messages in it hold, in the spelling of flags."""
    # a name of one word may be that of a file, and reads well enough as it is
    is_option = "_" in error.where and error.where in _option_names(typer.main.get_command(app))
    error.where = flag(error.where) if is_option else with_flags(error.where)
    error.wanted = with_flags(error.wanted)
    typer.echo("ratiorec: " + " ".join(error.message.split("\n")), err=True)
