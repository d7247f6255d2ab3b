"""A command line in an empty folder."""

from support.command_line import cli

__all__ = ["cli"]
