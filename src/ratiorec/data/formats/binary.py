"""Binary files of pairs: Parquet, Arrow, and sparse matrices in .npz.

Their parsers are native code, and the files come from anywhere. So a file is parsed first in a
process of its own, where a crash is no more than an exit code; sizes are compared with the memory
that is left before anything is taken; and what was parsed is validated before it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ratiorec.data.formats.files import Columns, Positions
from ratiorec.data.formats.merging import Weighting
from ratiorec.data.formats.reading import BadRows, require_memory, require_memory_for_rows
from ratiorec.data.formats.tables import (
    interactions_from_columns,
    require_same_columns,
    values_of_arrow,
)
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, RatiorecError, require_extra

if TYPE_CHECKING:
    import pyarrow as pa

TRUST = "RATIOREC_TRUST_FILES"
"""Set to 1, files are not parsed in a process of their own first."""

_ROWS_AT_ONCE = 1 << 20  # the text of so many rows is in memory, all others only as codes
SPARSE_MATRIX = "a sparse matrix"


def read_parquet(
    paths: Sequence[Path], columns: Columns, weighting: Weighting, *, bad: BadRows, origin: str
) -> Interactions:
    """Pairs of Parquet files."""
    return _read_tables("Parquet", paths, columns, weighting, bad, origin)


def read_arrow(
    paths: Sequence[Path], columns: Columns, weighting: Weighting, *, bad: BadRows, origin: str
) -> Interactions:
    """Pairs of Arrow files or streams."""
    return _read_tables("Arrow", paths, columns, weighting, bad, origin)


def read_npz(path: Path) -> Interactions:
    """Pairs of a sparse matrix as `scipy.sparse.save_npz` writes it."""
    require_survived(SPARSE_MATRIX, [path], Columns())
    return Interactions.from_csr(_parsed(SPARSE_MATRIX, path, Columns()))


def whole_table(
    paths: Sequence[Path], format_name: str, *, origin: str
) -> tuple[list[str], list[pa.ChunkedArray]]:
    """The names and the values of all columns of Parquet or Arrow files, the parts of one table."""
    require_extra("pyarrow", "arrow", where=origin)
    require_survived(format_name, paths, None)
    parts: list[_Loaded] = []
    for path in paths:
        parts.append(_parsed(format_name, path, None))
        require_same_columns(parts[0].names, parts[-1].names, str(path), paths[0])
    names = parts[0].names
    return list(names.values()), [_joined([part.columns.pop(at) for part in parts]) for at in names]


class _Loaded(NamedTuple):
    """The columns in need of one file by role, their names, and an event column left unused."""

    columns: dict[str, pa.ChunkedArray]
    names: dict[str, str]
    unused_event: str | None


def _read_tables(
    format_name: str,
    paths: Sequence[Path],
    columns: Columns,
    weighting: Weighting,
    bad: BadRows,
    origin: str,
) -> Interactions:
    require_extra("pyarrow", "arrow", where=origin)
    require_survived(format_name, paths, columns)
    parts: list[dict[str, pa.ChunkedArray]] = []
    names: dict[str, str] = {}
    for path in paths:
        loaded: _Loaded = _parsed(format_name, path, columns)
        names = require_same_columns(names, loaded.names, str(path), paths[0])
        parts.append(loaded.columns)
    ends = np.cumsum([len(part["user"]) for part in parts])
    require_memory_for_rows(int(ends[-1]), where=origin)
    values = {
        role: values_of_arrow(_joined([part[role] for part in parts]), role) for role in names
    }

    def place(row: int) -> str:
        part = int(np.searchsorted(ends, row, side="right"))
        before = int(ends[part - 1]) if part else 0
        return f"{paths[part]}, row {row - before + 1} (the first is row 1)"

    return interactions_from_columns(
        values,
        origin=origin,
        names=names,
        bad=bad,
        place=place,
        weighting=weighting,
        unused_event=loaded.unused_event,
    )


# A process that may crash


def require_survived(format_name: str, paths: Sequence[Path], columns: Columns | None) -> None:
    """Refuse files at which the parser crashes, by letting another process parse them first.

    An error there is not told: this process will meet it, and say more.
    """
    is_python = sys.executable and not getattr(sys, "frozen", False)
    if os.environ.get(TRUST, "") not in ("", "0") or not is_python:
        return
    wanted = None if columns is None else asdict(columns)
    asked = {"format": format_name, "columns": wanted, "paths": [str(p) for p in paths]}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"from {__name__} import parse_all; parse_all()"],
            input=json.dumps(asked).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
    except OSError:  # no process may be started here; validation must be enough
        return
    if done.returncode not in (0, 1):
        n_begun = len(done.stdout.splitlines())
        raise DataError(
            f"the file cannot be read as {format_name}: its parser crashes",
            where=str(paths[max(n_begun, 1) - 1]),
            found=f"a process that ended with {_ending(done.returncode)}",
            wanted=_wanted(format_name),
        )


def parse_all() -> None:
    """Parse the files that standard input names: the work of the process that may crash."""
    asked = json.load(sys.stdin)
    columns = None if asked["columns"] is None else Columns(**asked["columns"])
    for path in asked["paths"]:
        print(flush=True)  # a line for each file that was begun
        with contextlib.suppress(Exception):
            _parsed(asked["format"], Path(path), columns)


def _ending(returncode: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(-returncode).name
    return f"exit code {returncode}"


def _parsed(format_name: str, path: Path, columns: Columns | None) -> Any:
    """What a file holds; whatever its parser says against it is told as a fault of the file."""
    try:
        return _PARSERS[format_name](path, columns)
    except (RatiorecError, ImportError, MemoryError):
        raise
    except Exception as error:  # damage makes parsers raise all kinds of errors
        said = (str(error).splitlines() or [""])[0][:200]
        raise DataError(
            f"the file cannot be read as {format_name}",
            where=str(path),
            found=said or type(error).__name__,
            wanted=_wanted(format_name),
        ) from error


def _wanted(format_name: str) -> str:
    is_npz = format_name == SPARSE_MATRIX
    return "a file written by scipy.sparse.save_npz" if is_npz else f"a complete {format_name} file"


# Tables


def _joined(chunks: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    """One column of all parts, in the type that holds them all."""
    import pyarrow as pa

    if len({chunk.type for chunk in chunks}) > 1:  # say int32 and int64
        try:
            names = pa.concat_tables(
                [pa.table({"": chunk}) for chunk in chunks], promote_options="permissive"
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                "the parts have columns of different types",
                where="parts",
                found=", ".join(sorted({str(chunk.type) for chunk in chunks})),
                wanted="one type in all parts",
            ) from error
        return names.column(0)
    return pa.chunked_array([piece for chunk in chunks for piece in chunk.chunks], chunks[0].type)


def _parquet_columns(path: Path, columns: Columns | None) -> _Loaded:
    """The columns in need, text as codes: never all the text at once."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    require_memory_for_rows(metadata.num_rows, where=str(path))
    schema = metadata.schema.to_arrow_schema()
    positions = _positions(columns, schema.names, path)
    wanted = [schema.names[position] for position in positions.values()]
    texts = [name for name in wanted if _is_text(schema.field(name).type)]
    # a file may repeat one long text in a few bytes: as codes it stays as short
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        batches = file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=wanted)
        found = _collect(batches, schema, positions, where=str(path))
        return _Loaded(*found, _unused_event(columns, schema.names, positions))


def _arrow_columns(path: Path, columns: Columns | None) -> _Loaded:
    """The columns in need of an Arrow file or stream.

    The file is not mapped into memory: a read beyond its end would end the process.
    """
    import pyarrow as pa

    with _arrow_reader(path) as (schema, _):
        positions = _positions(columns, schema.names, path)
    options = pa.ipc.IpcReadOptions(included_fields=sorted(positions.values()))
    with _arrow_reader(path, options) as (_, batches):
        found = _collect(batches, schema, positions, where=str(path))
        return _Loaded(*found, _unused_event(columns, schema.names, positions))


def _positions(columns: Columns | None, names: Sequence[str], path: Path) -> Positions:
    """The position of each role, or of every column under its number where all are wanted."""
    if columns is not None:
        return columns.among(names, where=str(path))
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise DataError(
            "two columns have one name", where=str(path), found=repr(twice), wanted="each name once"
        )
    return {str(place): place for place in range(len(names))}


def _unused_event(
    columns: Columns | None, names: Sequence[str], positions: Positions
) -> str | None:
    return None if columns is None else columns.unused_event(names, positions)


@contextlib.contextmanager
def _arrow_reader(path: Path, options: Any = None) -> Iterator[tuple[pa.Schema, Any]]:
    """The schema of all columns, and the batches."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        open_reader = pa.ipc.open_file if is_file else pa.ipc.open_stream
        reader = open_reader(source, options=options)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        yield reader.schema, batches


def _collect(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, positions: Positions, *, where: str
) -> tuple[dict[str, pa.ChunkedArray], dict[str, str]]:
    """The column of each role, validated batch by batch, and its name."""
    import pyarrow as pa

    names = {role: schema.names[position] for role, position in positions.items()}
    chunks: dict[str, list[pa.Array]] = {role: [] for role in positions}
    n_rows = 0
    for batch in batches:
        n_rows += batch.num_rows
        require_memory_for_rows(n_rows, where=where)
        batch.validate(full=True)  # offsets and codes may point anywhere
        for role, name in names.items():
            chunks[role].append(_as_codes(batch.column(name)))
    columns = {
        role: pa.chunked_array(chunks[role] or [_as_codes(pa.array([], schema.types[position]))])
        for role, position in positions.items()
    }
    return columns, names


def _as_codes(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary_encode() if _is_text(chunk.type) else chunk


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


# Sparse matrices


def _sparse_matrix(path: Path, columns: Columns | None) -> Any:
    """The matrix of a file, once its arrays are as large as they say and fit each other."""
    import scipy.sparse

    require_memory(_bytes_of_arrays(path), where=str(path), found="arrays of that size")
    matrix = scipy.sparse.load_npz(path)
    if matrix.format in ("csr", "csc", "bsr"):
        matrix.check_format(full_check=True)  # else scipy would follow any index
    require_memory_for_rows(matrix.nnz, where=str(path))
    return matrix.tocoo()


def _bytes_of_arrays(path: Path) -> int:
    """The memory that the arrays of a file ask for, by their headers, which must not lie."""
    from numpy.lib import format as npy

    headers: dict[tuple[int, int], Callable[[Any], tuple[tuple[int, ...], bool, Any]]] = {
        (1, 0): npy.read_array_header_1_0,
        (2, 0): npy.read_array_header_2_0,
    }
    total = 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                shape, _, kind = headers[npy.read_magic(file)](file)
                n_bytes = prod(shape) * kind.itemsize
                if n_bytes != member.file_size - file.tell():
                    raise ValueError(
                        f"{member.filename} says {n_bytes:,} bytes of values "
                        f"and has {member.file_size - file.tell():,}"
                    )
            total += n_bytes
    return total


_PARSERS: dict[str, Callable[[Path, Columns | None], Any]] = {
    "Parquet": _parquet_columns,
    "Arrow": _arrow_columns,
    SPARSE_MATRIX: _sparse_matrix,
}
