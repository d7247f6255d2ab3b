"""Where lists for many users go: a Parquet file, SQLite, PostgreSQL.

A `Job` is what is asked of a model; `write_lists` ranks it block by block into a destination.
Each block is there whole or not at all, and a job that was interrupted goes on after its last
block.
"""

from ratiorec.sinks.address import destination_of
from ratiorec.sinks.job import Job, write_lists
from ratiorec.sinks.parquet import ParquetFile
from ratiorec.sinks.postgres import Postgres
from ratiorec.sinks.sink import Block, Destination, Tally
from ratiorec.sinks.sqlite import Sqlite

__all__ = [
    "Block",
    "Destination",
    "Job",
    "ParquetFile",
    "Postgres",
    "Sqlite",
    "Tally",
    "destination_of",
    "write_lists",
]
