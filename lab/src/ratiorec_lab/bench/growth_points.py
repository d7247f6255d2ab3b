"""Moved to `growth_lines`."""

from ratiorec_lab.bench.growth_lines import AXES as AXES
