"""Every preset on MovieLens-100K, by the command a user would give, and how long it takes in all.

    python -m ratiorec_lab.studies.compare_all
    python -m ratiorec_lab.studies.compare_all --data synthetic --presets popularity,dre-mf

Prints what `ratiorec compare --json` printed, the seconds of the whole command, and which of the
learned presets do not beat `popularity` in nDCG@20 on the test part.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from ratiorec_lab.studies.study import parser, tell


def main() -> None:
    """Compare, and say who falls short of popularity."""
    options = parser(__doc__)
    options.add_argument("--data", default="ml-100k")
    options.add_argument("--presets", default="all")
    asked = options.parse_args()
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
    tell(
        {
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
    )


if __name__ == "__main__":
    main()
