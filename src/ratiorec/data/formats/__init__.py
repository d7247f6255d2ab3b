"""Formats: pairs from files, data frames and sparse matrices."""

from ratiorec.data.formats.files import Columns, read
from ratiorec.data.formats.lightgcn_text import read_lightgcn, write_lightgcn
from ratiorec.data.formats.reading import Reading
from ratiorec.data.formats.sql import read_sql

__all__ = ["Columns", "Reading", "read", "read_lightgcn", "read_sql", "write_lightgcn"]
