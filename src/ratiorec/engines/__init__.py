"""Engines: who ranks the blocks of a bulk job, one process or the workers of a cluster.

An `Engine` maps a `Work` over tasks and hands back what came of each, in any order;
`spread_lists` lets one fill a dataset.
"""

from ratiorec.engines.cluster import RayCluster
from ratiorec.engines.spread import Engine, OneProcess, RankParts, Spread, Work, spread_lists

__all__ = ["Engine", "OneProcess", "RankParts", "RayCluster", "Spread", "Work", "spread_lists"]
