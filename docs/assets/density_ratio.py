"""Draws density-ratio.svg: the shares and ratios of the shop in Get started, by its own rules.

python docs/assets/density_ratio.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "ratiorec", "svg.fonttype": "none", "font.size": 11})

import matplotlib.pyplot as plt  # noqa: E402 - after the backend

KINDS = {"tea": "#00796b", "coffee": "#b0bec5", "bread": "#cfd8dc", "cheese": "#90a4ae"}
N = 15


def main() -> None:
    """The picture, beside this file."""
    within = [(2 * (N - place) + 1) / N**2 for place in range(1, N + 1)]  # the smaller of two draws
    shares = [(0.85 if kind == "tea" else 0.05) * share for kind in KINDS for share in within]
    colours = [colour for colour in KINDS.values() for _ in within]
    catalogue = 1 / len(shares)
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
    above.bar(range(len(shares)), shares, color=colours)
    above.axhline(catalogue, color="#d84315", linestyle="--")
    above.text(
        len(shares) - 0.5, catalogue * 1.15, "share of the catalogue", ha="right", color="#d84315"
    )
    above.set_ylabel("share of purchases")
    above.set_title("What a tea drinker chooses, and what there is", loc="left")
    below.bar(range(len(shares)), [share / catalogue for share in shares], color=colours)
    below.axhline(1, color="#d84315", linestyle="--")
    below.text(len(shares) - 0.5, 1.2, "1: as often as by chance", ha="right", color="#d84315")
    below.set_ylabel("density ratio")
    below.set_xticks([N * place + N / 2 - 0.5 for place in range(len(KINDS))], list(KINDS))
    below.tick_params(axis="x", length=0)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("density-ratio.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
