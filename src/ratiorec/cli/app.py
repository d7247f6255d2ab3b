"""All commands in one application, and what becomes of an error."""

from __future__ import annotations

import os
import signal
import sys

import typer

from ratiorec.cli import data, demo, doctor, fit, use
from ratiorec.errors import RatiorecError, StoppedError

app = typer.Typer(
    name="ratiorec",
    help="Recommend items from implicit feedback by estimating density ratios.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=demo.EXAMPLES)(demo.demo)
app.add_typer(data.app, name="data")
app.command(epilog=fit.EXAMPLES)(fit.fit)
app.command(epilog=use.EVALUATE_EXAMPLES)(use.evaluate)
app.command(epilog=use.RECOMMEND_EXAMPLES)(use.recommend)
app.command(epilog=use.SIMILAR_EXAMPLES)(use.similar)
app.command(epilog=doctor.EXAMPLES)(doctor.doctor)


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
    try:
        app()
    except StoppedError as stopped:
        typer.echo(f"ratiorec: {stopped}", err=True)
        sys.exit(128 + signal.SIGINT)
    except RatiorecError as error:
        typer.echo(f"ratiorec: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        # the reader of our output has left; nothing more can be said to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
