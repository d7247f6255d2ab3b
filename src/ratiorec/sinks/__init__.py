"""Sinks: where lists for many users go (a Parquet or CSV file, SQLite, PostgreSQL).

A `Job` is a query about many users; `write_lists` ranks it block by block into a sink. Each block
is there whole or not at all, and a job that was interrupted goes on after its last block. A
`Dataset` is a folder that the workers of an engine fill (`ratiorec.engines`).
"""

from ratiorec.sinks.address import sink_of
from ratiorec.sinks.csv_file import CsvFile
from ratiorec.sinks.dataset import Dataset
from ratiorec.sinks.job import Block, Job, Sink, Tally, write_lists
from ratiorec.sinks.parquet import ParquetFile
from ratiorec.sinks.parts import FileOfParts
from ratiorec.sinks.places import place_of
from ratiorec.sinks.postgres import Postgres
from ratiorec.sinks.sqlite import Sqlite

__all__ = [
    "Block",
    "CsvFile",
    "Dataset",
    "FileOfParts",
    "Job",
    "ParquetFile",
    "Postgres",
    "Sink",
    "Sqlite",
    "Tally",
    "place_of",
    "sink_of",
    "write_lists",
]
