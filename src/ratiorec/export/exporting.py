"""Export of a model into a folder or a database, held against exact search on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from ratiorec import __version__
from ratiorec.export.arrays import NumpyArrays, ParquetTables
from ratiorec.export.faiss_index import Faiss
from ratiorec.export.low_rank import DIMENSIONS
from ratiorec.export.onnx_graph import Onnx
from ratiorec.export.pgvector import Pgvector
from ratiorec.export.vectors import ExportTrial, Judge, Measured, Vectors
from ratiorec.files import refuse_foreign, sha256_of, whole_folder, write_json
from ratiorec.model.artifact import Artifact
from ratiorec.scorers.topk import Progress

HEADER = "export.json"
FORMAT = "ratiorec-export"


def require_replaceable(folder: str | Path) -> None:
    """Refuse a place in which there is anything but an export, and nothing else, of ours."""
    refuse_foreign(folder, "an export", _foreign)


def _foreign(folder: Path) -> str | None:
    """What a folder holds that its header does not list, or a header that is not ours."""
    own = {HEADER}
    try:
        match json.loads((folder / HEADER).read_bytes()):
            case {"format": "ratiorec-export", "files": dict(files)}:
                own |= files.keys()
            case _:
                return f"an {HEADER} that is not ours"
    except FileNotFoundError:
        pass
    except (ValueError, RecursionError):
        return f"an {HEADER} that is no JSON"
    others = {file.name for file in folder.iterdir()} - own
    return f"other files, such as {min(others)}" if others else None


class FolderForm(Protocol):
    """A form that is a folder of files."""

    name: ClassVar[str]

    def write(self, vectors: Vectors, judge: Judge, folder: Path) -> Measured:
        """Write all files into an empty folder, which is thrown away if this raises."""
        ...


FORMS: Mapping[str, FolderForm] = MappingProxyType(
    {form.name: form for form in (Faiss(), ParquetTables(), NumpyArrays(), Onnx())}
)
"""The forms that are folders, by name."""


@dataclass(frozen=True)
class Exported:
    """What was exported, where it is, and which share of the exact lists it finds."""

    form: str
    measured: Measured
    vectors: str
    k: int
    n_users: int
    n_bytes: int
    paths: tuple[str, ...] = ()
    place: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `sample` is how many users the recall was measured on."""
        return {
            "form": self.form,
            "settings": dict(self.measured.settings),
            "vectors": self.vectors,
            "recall": self.measured.recall,
            "k": self.k,
            "sample": self.n_users,
            "bytes": self.n_bytes,
            "paths": list(self.paths),
            **self.place,
        }


def export(
    model: Artifact,
    form: FolderForm,
    folder: str | Path,
    *,
    trial: ExportTrial | None = None,
    dimension: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write a model into a folder, new or in place of an export, whole or not at all.

    Raises:
        ConfigError: The vectors or the index find too little.
        MissingExtraError: The library that writes the form is not installed.
        StorageError: There is something else in that place, or the system could not write.
    """
    require_replaceable(folder)
    vectors, judge = _judged(model, trial or ExportTrial(), dimension, progress)
    require_replaceable(folder)  # the exact lists may have taken minutes
    with whole_folder(folder) as temporary:
        measured = form.write(vectors, judge, temporary)
        files = sorted(temporary.iterdir())
        header = _header(form.name, measured, vectors, judge)
        header["files"] = {
            file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in files
        }
        write_json(temporary / HEADER, header)
        n_bytes = sum(file.stat().st_size for file in temporary.iterdir())
    names = (*(file.name for file in files), HEADER)
    paths = tuple(str(Path(folder) / name) for name in names)
    return Exported(form.name, measured, vectors.kind, judge.k, len(judge.users), n_bytes, paths)


def export_to_postgres(
    model: Artifact,
    url: str,
    table: str = "items",
    *,
    trial: ExportTrial | None = None,
    dimension: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write the item vectors of a model into a table of PostgreSQL, with an index of pgvector.

    Raises:
        ConfigError: The URL or the table cannot be, or the vectors or the index find too little.
        MissingExtraError: The driver is not installed.
        StorageError: The database refused; the table that stood there before still stands.
    """
    target = Pgvector.at(url, table)
    vectors, judge = _judged(model, trial or ExportTrial(), dimension, progress)
    measured, n_bytes = target.write(vectors, judge)
    place = target.postgres.describe()
    return Exported(
        "pgvector", measured, vectors.kind, judge.k, len(judge.users), n_bytes, (), place
    )


def _judged(
    model: Artifact, trial: ExportTrial, dimension: int | None, progress: Progress | None
) -> tuple[Vectors, Judge]:
    """The vectors and what to hold them against; approximate ones grow until they find enough."""
    vectors = Vectors.of(model, dimension=dimension, k=trial.k, progress=progress)
    judge = trial(vectors)
    if vectors.exact:
        return vectors, judge
    found = judge.exact_lists(judge.vectors, vectors.items)
    for longer in DIMENSIONS[1:] if dimension is None else ():
        is_longest = vectors.dimension == min(vectors.n_users, vectors.n_items)
        if is_longest or judge.recall(found) >= judge.min_recall:
            break
        vectors = Vectors.of(model, dimension=longer, k=trial.k, progress=progress)
        judge = replace(judge, vectors=vectors.users(judge.users))
        found = judge.exact_lists(judge.vectors, vectors.items)
    judge.first_that_reaches([({"search": "exact", "dimension": vectors.dimension}, found)])
    return vectors, judge


def _header(form: str, measured: Measured, vectors: Vectors, judge: Judge) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": 1,
        "ratiorec": __version__,
        "form": form,
        "settings": dict(measured.settings),
        "vectors": vectors.kind,
        "recall": measured.recall,
        "k": judge.k,
        "sample": len(judge.users),
        "n_users": vectors.n_users,
        "n_items": vectors.n_items,
        "dimension": vectors.dimension,
    }
