"""Files of pairs in any format: text, Parquet, Arrow, scipy's .npz."""

from __future__ import annotations

import os
from pathlib import Path

from ratiorec.data.formats.columns import Columns
from ratiorec.data.interactions import Interactions
from ratiorec.errors import DataError, DataNotFoundError

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".data", ".inter")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")


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
    # Arrow is loaded with these two, and only where a file is read
    from ratiorec.data.formats.delimited import read_delimited
    from ratiorec.data.formats.tables import read_arrow, read_parquet

    path = Path(path)
    _require_file(path)
    suffix = _suffix(path)
    if suffix in TEXT_SUFFIXES:
        return read_delimited(path, columns=columns, delimiter=delimiter, header=header)
    if suffix == ".parquet":
        return read_parquet(path, columns)
    if suffix in ARROW_SUFFIXES:
        return read_arrow(path, columns)
    if suffix == ".npz":
        return _read_npz(path)
    raise _unknown_format(path)


def _suffix(path: Path) -> str:
    """The suffix of the format: the last, or the one before .gz where that is text."""
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
