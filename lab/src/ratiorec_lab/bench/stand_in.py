"""Moved to `random_data`."""

from ratiorec_lab.bench.random_data import random_model as random_model
from ratiorec_lab.bench.random_data import random_pairs as random_pairs
