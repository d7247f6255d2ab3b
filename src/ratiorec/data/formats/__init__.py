"""Formats: pairs from files, data frames and sparse matrices."""

from ratiorec.data.formats.files import Columns, read
from ratiorec.data.formats.lightgcn_text import read_lightgcn, write_lightgcn

__all__ = ["Columns", "read", "read_lightgcn", "write_lightgcn"]
