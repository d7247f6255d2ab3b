"""Steps of one model by several processes, over two orders of magnitude of size.

    python -m ratiorec_lab.studies.rank_scaling
    python -m ratiorec_lab.studies.rank_scaling --pairs 2000,20000 --ranks 1,2

Strong scaling: data of one size, however many ranks share them. Weak scaling: every rank brings as
many users with their pairs and as many users of a batch, over the same items. Pairs are random
with long tails, 20 to a user. Seconds are the least of a few steps without the first; the share of
them spent on other ranks has the waiting for them in it, and where ranks share cores that is most
of it. Operations, bytes sent and bytes of tables are those of the rank with the most.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ratiorec.machine import usable_cores
from ratiorec_lab.studies.study import parser, tell
from ratiorec_lab.together.hosts import run_alone, run_ranks
from ratiorec_lab.together.watched import MIB, Found, Job, found_by

STRONG, WEAK = "strong", "weak"
PAIRS_OF_A_USER, PAIRS_OF_AN_ITEM = 20, 40
USERS_IN_A_BATCH = 512  # of strong scaling; of weak scaling a quarter of them for every rank


def main() -> None:
    """One start of processes for each number of ranks, which do all sizes in turn."""
    options = parser(__doc__)
    options.add_argument("--pairs", default="20000,200000,2000000", help="of strong scaling")
    options.add_argument("--ranks", default="1,2,4")
    options.add_argument("--dimension", type=int, default=32)
    options.add_argument("--steps", type=int, default=5)
    asked = options.parse_args()
    sizes = [int(n) for n in asked.pairs.split(",")]
    runs = []
    for n_ranks in map(int, asked.ranks.split(",")):
        kinds = [(kind, n_pairs) for kind in (STRONG, WEAK) for n_pairs in sizes]
        jobs = [job_of(*kind, n_ranks, asked.dimension, asked.steps) for kind in kinds]
        found = found_by(run_alone if n_ranks == 1 else partial(run_ranks, n_ranks), jobs)
        runs += [
            {"scaling": kind, "ranks": n_ranks, "size": job.data, **summary(one)}
            for (kind, _), job, one in zip(kinds, jobs, found, strict=True)
        ]
    told = {"cores": usable_cores(), "dimension": asked.dimension, "steps": asked.steps}
    tell(told | {"runs": runs})


def job_of(kind: str, n_pairs: int, n_ranks: int, dimension: int, n_steps: int) -> Job:
    """Steps on data of one size; that of weak scaling is a quarter for every rank."""
    share = n_ranks / 4 if kind == WEAK else 1
    size = {
        "users": round(share * n_pairs / PAIRS_OF_A_USER),
        "items": n_pairs // PAIRS_OF_AN_ITEM,
        "pairs": round(share * n_pairs),
    }
    preset = (
        f"dregn-cf:encoder.dimension={dimension}:batches.min_steps_per_epoch=1"
        f":batches.n_users={round(share * USERS_IN_A_BATCH)}"
    )
    return Job(size, preset, n_steps)


def summary(found: list[Found]) -> dict[str, Any]:
    """The fastest step as the first rank saw it, and what the busiest rank did in one."""
    steps = found[0]["steps"][1:]
    sent = [sum(step["n_bytes"] for step in one["steps"][1:]) / len(steps) for one in found]
    fastest = min(steps, key=lambda step: float(step["seconds"]))
    return {
        "seconds_per_step": round(fastest["seconds"], 5),
        "share_talking": round(fastest["talking"] / fastest["seconds"], 4),
        "mb_sent_per_step": round(max(sent) / MIB, 4),
        "operations_per_step": max(one["operations_per_step"] for one in found),
        "tables_and_optimizer_mb": round(max(sum(one["bytes"].values()) for one in found) / MIB, 3),
    }


if __name__ == "__main__":
    main()
