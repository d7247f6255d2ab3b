"""The command line: parse, call, print."""

from ratiorec.cli.app import main

__all__ = ["main"]
