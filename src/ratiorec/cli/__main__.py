"""Lets `python -m ratiorec.cli` stand for the installed command."""

from __future__ import annotations

from ratiorec.cli.app import main

if __name__ == "__main__":
    main()
