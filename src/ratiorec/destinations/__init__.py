"""Where lists for many users go: a Parquet file, SQLite, PostgreSQL.

A `Job` is what is asked of a model; `write_lists` ranks it block by block into a destination.
Each block is there whole or not at all, and a job that was interrupted goes on after its last
block.
"""

from ratiorec.destinations.address import destination_of
from ratiorec.destinations.job import Job
from ratiorec.destinations.parquet import ParquetFile
from ratiorec.destinations.postgres import Postgres
from ratiorec.destinations.protocol import Block, Destination, Tally
from ratiorec.destinations.sqlite import Sqlite
from ratiorec.destinations.writing import write_lists

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
