"""The child process: reads cases from standard input, attempts each, and answers with a line.

Started by `ratiorec_lab.fuzz.run`, with the name of the reader and a memory limit in MB, which
counts from what is taken when all is imported.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

from ratiorec.errors import RatiorecError
from ratiorec_lab.fuzz.attempts import Attempt, attempts
from ratiorec_lab.fuzz.cases import SOURCES, Files


def main(reader: str, memory_mb: str) -> None:
    """Answer every case until the input ends."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    attempt = attempts(reader)
    for seed in SOURCES[reader].seeds() if reader in SOURCES else []:
        outcome(attempt, seed)  # imports what it needs
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + int(memory_mb) * 2**20,) * 2)
    answers.write("ready\n")
    for line in sys.stdin:
        files = {name: base64.b64decode(text) for name, text in json.loads(line).items()}
        answers.write(json.dumps(outcome(attempt, files)) + "\n")


def outcome(attempt: Attempt, files: Files) -> list[str]:
    """ "read", "refused" or "error", and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        try:
            attempt(Path(folder), files)
        except RatiorecError as error:
            return ["refused", error.what]
        except BaseException:
            return ["error", traceback.format_exc()[-3000:]]
    return ["read", ""]


if __name__ == "__main__":
    main(*sys.argv[1:])
