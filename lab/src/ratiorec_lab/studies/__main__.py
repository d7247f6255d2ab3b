"""Runs a study and keeps what it printed, with command, machine, versions and commit.

python -m ratiorec_lab.studies graph_memory       # results/bench-graph_memory.json

A study of one data set, or of a part of its question, has these in the name of its record:
results/bench-blend_ablation-gowalla-last.json. One that keeps a record of its own is only run.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from ratiorec.files import write_json
from ratiorec.machine import commit
from ratiorec_lab.bench.case import provenance


def main(name: str, *arguments: str) -> None:
    """Write the record into the folder `results` of the place where this is started."""
    started_from = commit()
    module = f"ratiorec_lab.studies.{name}"
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    print(done.stdout)
    result = json.loads(done.stdout)
    if "target" in result:  # compare_all, which goes on with its record
        return
    record = {
        "target": f"bench {name}",
        "result": result,
        **provenance(
            device=result.get("device", "cpu"),
            command=shlex.join(["python", "-m", module, *arguments]),
            commit=started_from,
        ),
    }
    parts = (name, result.get("dataset"), result.get("part"))
    write_json(Path("results", f"bench-{'-'.join(filter(None, parts))}.json"), record)


if __name__ == "__main__":
    main(*sys.argv[1:])
