"""Run a benchmark and keep what it printed, with command, machine, versions and commit.

python benchmarks/record.py graph_memory       # results/bench-graph_memory.json
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

from ratiorec.files import write_json
from ratiorec.machine import commit, describe_machine, versions

HERE = Path(__file__).parent


def main(name: str, *arguments: str) -> None:
    started_from = commit()
    script = HERE / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    result = json.loads(done.stdout)
    record = {
        "target": f"bench {name}",
        "result": result,
        "machine": describe_machine(result.get("device", "cpu")),
        "versions": versions(),
        "commit": started_from,
        "command": shlex.join(["python", f"benchmarks/{name}.py", *arguments]),
    }
    write_json(HERE.parent / "results" / f"bench-{name}.json", record)
    print(done.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
