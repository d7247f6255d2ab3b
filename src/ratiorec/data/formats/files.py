"""Pairs from a file, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratiorec.data.formats.columns import Columns, Positions
from ratiorec.data.formats.delimited import read_delimited
from ratiorec.data.formats.tables import PairTable
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, DataNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa


TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".data", ".inter")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")

_ROWS_AT_ONCE = 1 << 20  # the text of so many rows is in memory, all others only as codes


def read(
    path: str | os.PathLike[str],
    *,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    delimiter: str | None = None,
    header: bool | None = None,
) -> Interactions:
    """Read the pairs of a file.

    The suffix says the format: .csv, .tsv, .txt, .dat, .data and RecBole's .inter (each also
    with .gz behind), .parquet, Arrow's .arrow, .feather and .ipc, or a scipy sparse matrix
    in .npz.

    Args:
        path: The file.
        columns: Which column is what; the usual names are found without it. A text file
            without header holds user and item, then weight and timestamp where they fit.
        delimiter: What stands between the cells of a text file, found out when not given.
        header: Whether a text file begins with column names, found out when not given.

    Raises:
        DataError: The file, or a row of it, cannot be used.
    """
    path = Path(path)
    _require_file(path)
    suffix = _suffix(path)
    if suffix in TEXT_SUFFIXES:
        return read_delimited(path, columns=columns, delimiter=delimiter, header=header)
    if suffix == ".parquet":
        return _read_table(path, columns, "Parquet", _parquet_columns)
    if suffix in ARROW_SUFFIXES:
        return _read_table(path, columns, "Arrow", _arrow_columns)
    if suffix == ".npz":
        return _read_npz(path)
    raise _unknown_format(path)


def _suffix(path: Path) -> str:
    """What says the format: the last suffix, or the one before .gz where that is text."""
    *before, last = ["", *(suffix.lower() for suffix in path.suffixes)]
    return before[-1] if last == ".gz" and before[-1] in TEXT_SUFFIXES else last


def _unknown_format(path: Path) -> DataError:
    known = (*TEXT_SUFFIXES, ".parquet", *ARROW_SUFFIXES, ".npz")
    return DataError(
        "unknown file format",
        where=str(path),
        found=f"the suffix {_suffix(path)!r}",
        wanted=f"one of {', '.join(known)}; text may be gzipped (.csv.gz)",
    )


def _require_file(path: Path) -> None:
    if not path.exists():
        raise DataNotFoundError(
            "no such file",
            where=str(path),
            found="nothing at this path",
            wanted="a file with pairs",
        )
    if not path.is_file():
        raise DataError(
            "this is not a file",
            where=str(path),
            found="a folder" if path.is_dir() else "a device or pipe",
            wanted="a file; a folder in LightGCN form is read by read_lightgcn",
        )
    if not path.stat().st_size:
        raise DataError(
            "the file is empty", where=str(path), found="0 bytes", wanted="rows of pairs"
        )


def _read_table(
    path: Path,
    columns: Columns,
    format_name: str,
    load: Callable[[Path, Columns], tuple[Positions, dict[int, pa.ChunkedArray]]],
) -> Interactions:
    import pyarrow as pa

    try:
        positions, loaded = load(path, columns)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(
            f"the file cannot be read as {format_name}",
            where=str(path),
            found=str(error).splitlines()[0][:200],
            wanted=f"a complete {format_name} file",
        ) from error
    return PairTable(
        user=loaded[positions.user],
        item=loaded[positions.item],
        weight=None if positions.weight is None else loaded[positions.weight],
        timestamp=None if positions.timestamp is None else loaded[positions.timestamp],
        origin=str(path),
        place=lambda row: f"{path}, row {row + 1} (the first is row 1)",
    ).interactions()


def _parquet_columns(path: Path, columns: Columns) -> tuple[Positions, dict[int, pa.ChunkedArray]]:
    """The columns in need, text as codes: never all the text at once."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        positions = columns.among(names, where=str(path))
        wanted = [position for position in positions if position is not None]
        batches = file.iter_batches(
            batch_size=_ROWS_AT_ONCE, columns=[names[position] for position in wanted]
        )
        return positions, _collect(batches, file.schema_arrow, wanted)


def _arrow_columns(path: Path, columns: Columns) -> tuple[Positions, dict[int, pa.ChunkedArray]]:
    """The columns in need of an Arrow file or stream."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        positions = columns.among(reader.schema.names, where=str(path))
        wanted = [position for position in positions if position is not None]
        batches = (
            (reader.get_batch(number) for number in range(reader.num_record_batches))
            if is_file
            else iter(reader)
        )
        return positions, _collect(batches, reader.schema, wanted)


def _collect(batches: Any, schema: pa.Schema, wanted: list[int]) -> dict[int, pa.ChunkedArray]:
    import pyarrow as pa

    names = [schema.names[position] for position in wanted]
    chunks: dict[int, list[pa.Array]] = {position: [] for position in wanted}
    for batch in batches:
        for position, name in zip(wanted, names, strict=True):
            chunks[position].append(_as_codes(batch.column(name)))
    kinds = {position: _as_codes(pa.array([], schema.types[position])).type for position in wanted}
    return {position: pa.chunked_array(chunks[position], kinds[position]) for position in wanted}


def _as_codes(chunk: pa.Array) -> pa.Array:
    import pyarrow.types as types

    is_text = types.is_string(chunk.type) or types.is_large_string(chunk.type)
    return chunk.dictionary_encode() if is_text else chunk


def _read_npz(path: Path) -> Interactions:
    import zipfile

    import scipy.sparse

    try:
        matrix = scipy.sparse.load_npz(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            "the file cannot be read as a sparse matrix",
            where=str(path),
            found=str(error).splitlines()[0][:200] if str(error) else type(error).__name__,
            wanted="a file written by scipy.sparse.save_npz",
        ) from error
    return Interactions.from_csr(matrix)
