"""A Parquet file with a row group for each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import require_extra
from ratiorec.scorers.table import Recommendations, write_parquet
from ratiorec.sinks.parts import FileOfParts

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class ParquetFile(FileOfParts):
    """One Parquet file; its parts are Arrow files, which say themselves whether they are whole."""

    part_suffix = ".arrow"

    def __post_init__(self) -> None:  # refused before anything is ranked
        require_extra("pyarrow", "arrow", where=self.where)

    def write_part(self, handle: BinaryIO, lists: Recommendations) -> None:
        import pyarrow

        table = lists.to_arrow()
        options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
        with pyarrow.ipc.new_file(handle, table.schema, options=options) as writer:
            writer.write_table(table)

    def ranks(self, part: Path) -> NDArray[np.int64]:
        ranks: NDArray[np.int64] = _read(part)["rank"].to_numpy()
        return ranks

    def join(self, handle: BinaryIO, parts: Sequence[Path]) -> None:
        from pyarrow import parquet

        with parquet.ParquetWriter(handle, _read(parts[0]).schema) as writer:
            for part in parts:
                writer.write_table(_read(part))

    def write_at_once(self, lists: Recommendations) -> None:
        write_parquet([lists], self.path)


def _read(part: Path) -> pyarrow.Table:
    import pyarrow

    with pyarrow.OSFile(str(part)) as file:
        return pyarrow.ipc.open_file(file).read_all()
