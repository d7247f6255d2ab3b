"""Lets `python -m ratiorec` stand for the installed command."""

from __future__ import annotations

from ratiorec.cli import main

if __name__ == "__main__":
    main()
