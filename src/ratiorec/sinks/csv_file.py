"""A CSV file: UTF-8, a header, commas, quotes where a cell needs them; nothing but numpy."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ratiorec.files import atomic_write
from ratiorec.scorers.table import Recommendations, csv_header, csv_lines
from ratiorec.sinks.parts import FileOfParts


@dataclass(frozen=True)
class CsvFile(FileOfParts):
    """One CSV file; each part has the header too, so that it is a CSV file by itself."""

    part_suffix = ".csv"

    def write_part(self, handle: BinaryIO, lists: Recommendations) -> None:
        handle.writelines(csv_lines(lists.columns()))

    def ranks(self, part: Path) -> NDArray[np.int64]:
        with part.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file, strict=True)
        if any(len(row) != len(header) for row in rows) or not _ends_in_a_newline(part):
            raise ValueError(f"{part} is cut short")
        return np.array([row[header.index("rank")] for row in rows], np.int64)

    def join(self, handle: BinaryIO, parts: Sequence[Path]) -> None:
        for number, part in enumerate(parts):
            with part.open("rb") as rows:
                if number:
                    rows.seek(_header_bytes(part))  # the header stands once
                shutil.copyfileobj(rows, handle)

    def write_at_once(self, lists: Recommendations) -> None:
        with atomic_write(self.path) as handle:
            self.write_part(handle, lists)


def _header_bytes(part: Path) -> int:
    """The length of the header, in which names may have line ends."""
    with part.open(newline="", encoding="utf-8") as file:
        return len(csv_header(next(csv.reader(file, strict=True))))


def _ends_in_a_newline(part: Path) -> bool:
    with part.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"
