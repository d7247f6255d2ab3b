"""Lets `python -m ratiorec.cli` stand for the installed command."""

from ratiorec.cli.app import main

if __name__ == "__main__":
    main()
