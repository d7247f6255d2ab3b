"""The command line: parse, call, print."""

from __future__ import annotations


def main() -> None:
    """Run `ratiorec`; the application loads commands of other distributions, which import this."""
    from ratiorec.cli.app import main as run

    run()
