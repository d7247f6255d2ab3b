"""Pairs from files, frames and matrices."""

from ratiorec.data.sources.columns import Columns
from ratiorec.data.sources.files import read
from ratiorec.data.sources.lightgcn import read_lightgcn, write_lightgcn

__all__ = ["Columns", "read", "read_lightgcn", "write_lightgcn"]
