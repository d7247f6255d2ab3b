"""Fuzzing of every reader of foreign input: how many cases, and which ended wrongly.

Files of every format, settings, model folders and HTTP bodies, a third made up by Hypothesis and
the rest mutated from valid ones, are read in a child process with a memory limit. Each must be
read or refused by an error of ours.

    python -m ratiorec_lab.studies.fuzz
    python -m ratiorec_lab.studies.fuzz --cases 20000 --seed 7 arrow npz --keep findings

Ends with 1 when there is a finding; `--keep` writes each to a folder, for `tests/corpus`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from ratiorec_lab.fuzz.cases import SOURCES
from ratiorec_lab.fuzz.run import MEMORY_MB, SECONDS_A_CASE, Finding, run
from ratiorec_lab.studies.study import parser, tell


def main() -> None:
    """Fuzz the readers that were named, or all."""
    options = parser(__doc__)
    options.add_argument("readers", nargs="*", metavar="READER", help=", ".join(SOURCES))
    options.add_argument("--cases", type=int, default=2500, help="of each reader")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keep", type=Path, help="a folder for findings")
    asked = options.parse_args()
    if unknown := set(asked.readers) - SOURCES.keys():
        options.error(f"no reader {', '.join(sorted(unknown))}; there are {', '.join(SOURCES)}")
    results: dict[str, Any] = {}
    findings: list[Finding] = []
    for reader in asked.readers or SOURCES:
        started = time.perf_counter()
        tally = run(reader, SOURCES[reader].cases(asked.cases, seed=asked.seed))
        results[reader] = {
            "cases": tally.outcomes.total(),
            "read": tally.outcomes["read"],
            "refused": tally.outcomes["refused"],
            "findings": len(tally.findings),
            "seconds": round(time.perf_counter() - started, 1),
        }
        findings += tally.findings
    if asked.keep is not None:
        keep(findings, asked.keep)
    for found in findings[:20]:
        print(f"{found.reader}: {found.kind}: {found.detail}", file=sys.stderr)
    limits = {"memory_mb": MEMORY_MB, "seconds_a_case": SECONDS_A_CASE}
    tell({"seed": asked.seed, **limits, "readers": results})
    sys.exit(bool(findings))


def keep(findings: list[Finding], folder: Path) -> None:
    """Write the files of each finding, and what it said."""
    for number, found in enumerate(findings):
        place = folder / found.reader / str(number)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in found.files.items():
            (place / name).write_bytes(content)
        (place / "said.txt").write_text(f"{found.kind}\n{found.detail}\n")


if __name__ == "__main__":
    main()
