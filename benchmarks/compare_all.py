"""Every preset on MovieLens-100K, by the command a user would give, and how long it takes in all.

    python benchmarks/compare_all.py
    python benchmarks/compare_all.py --data synthetic --presets popularity,dre-mf

Prints what `ratiorec compare --json` printed, the seconds of the whole command, and which of the
learned presets do not beat `popularity` in nDCG@20 on the test part.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--presets", default="all")
    asked = parser.parse_args()
    command = ["compare", asked.data, "--presets", asked.presets, "--device", "cpu", "--json"]
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ratiorec.cli", *command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    figures = {line["preset"]: line["test"] for line in found["results"]}
    bar = (figures.get("popularity") or {}).get("ndcg@20")
    report = {
        "seconds_in_all": round(time.perf_counter() - started, 1),
        "not_run": [name for name, test in figures.items() if test is None],
        "not_above_popularity": [
            name
            for name, test in figures.items()
            if name != "popularity" and test and bar is not None and test["ndcg@20"] <= bar
        ],
        "command": " ".join(["ratiorec", *command]),
        "comparison": found,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
