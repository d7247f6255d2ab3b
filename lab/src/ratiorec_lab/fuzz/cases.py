"""Cases: files that a reader is given, mutated from valid ones or made up by Hypothesis."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from ratiorec_lab.fuzz.mutation import NUMBERS, WORDS, mutated

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Files = dict[str, bytes]
"""The files of one case by name; a reader of single files has one."""


@dataclass(frozen=True)
class Source:
    """Where the cases of one reader come from.

    Args:
        seeds: Valid files.
        made_up: Files that Hypothesis puts together, well-formed or nearly.
        inside: Other ways to mutate: inside a packing, so that its checksums stay right.
    """

    seeds: Callable[[], list[Files]]
    made_up: Callable[[], SearchStrategy[Files]]
    inside: Callable[[Files, random.Random], Files] | None = None

    def cases(self, n: int, *, seed: int) -> Iterator[Files]:
        """So many cases: a third made up, the rest mutated."""
        made_up = drawn(self.made_up(), n // 3, seed=seed)
        yield from made_up
        yield from itertools.islice(self._mutants(random.Random(seed)), n - len(made_up))

    def _mutants(self, rng: random.Random) -> Iterator[Files]:
        seeds = self.seeds()
        contents = [content for files in seeds for content in files.values()]
        while True:
            files = rng.choice(seeds)
            if self.inside is not None and rng.random() < 0.5:
                yield self.inside(files, rng)
                continue
            name = rng.choice(list(files))
            yield {**files, name: mutated(files[name], contents, rng)}


def drawn(strategy: SearchStrategy[Files], n: int, *, seed: int) -> list[Files]:
    """At most so many examples, always the same for a seed."""
    import hypothesis

    found: list[Files] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(n, 1),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(files: Files) -> None:
        found.append(files)

    collect()
    return found[:n]


# Text

_HEADERS = ("user,item", "user_id,item_id,rating,timestamp", "uid\tiid", "user;item;event", "a,b")
_ROWS = [
    ("ann", "x", "1.5", "2024-05-01"),
    ("bob", "y", "2", "2024-05-02T10:00:00Z"),
    ('"c, d"', '"x""y"', "0", "2024-05-03"),
    ("ann", "z", "3", "1714980000"),
    ("7", "3.0", "1e3", "2024-05-05"),
]


def _text(delimiter: str, *, header: str | None, times: bool, n_columns: int = 4) -> bytes:
    rows = [row if times else (*row[:3], str(n)) for n, row in enumerate(_ROWS)]
    lines = [delimiter.join(row[:n_columns]) for row in rows * 3]
    return "".join(f"{line}\n" for line in ([header] if header else []) + lines).encode()


def _csv_seeds() -> list[Files]:
    usual = "user_id,item_id,rating,timestamp"
    return [
        {"p.csv": _text(",", header=usual, times=False)},
        {"p.csv": _text(",", header=usual, times=True).replace(b"\n", b"\r\n")},
        {"p.csv": _text(";", header="user;item", times=False, n_columns=2)},
        {"p.csv": _text("::", header=None, times=False)},
        {"p.csv": b"\xef\xbb\xbf" + _text("|", header="user|item|event", times=False, n_columns=3)},
        {"p.csv": b"".join(b"%d,%d\n" % (n % 7, n * n % 11) for n in range(40))},
    ]


def _tsv_seeds() -> list[Files]:
    return [{"p.tsv": files["p.csv"].replace(b",", b"\t")} for files in _csv_seeds()]


def _inter_seeds() -> list[Files]:
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    numbers = b"".join(b"%d\t%d\t%d\t%d.0\n" % (n % 5, n % 9, n % 4, 10**9 + n) for n in range(30))
    return [
        {"p.inter": _text("\t", header=header, times=False)},
        {"p.inter": header.encode() + b"\n" + numbers},
        {"p.inter": b"user_id:token\titem_id_list:token_seq\n1\t2 3 4\n2\t3\n"},
    ]


def _packed_seeds() -> list[Files]:
    return [{"p.csv.gz": gzip.compress(files["p.csv"], mtime=0)} for files in _csv_seeds()]


def _inside_gzip(files: Files, rng: random.Random) -> Files:
    ((name, content),) = files.items()
    inner = mutated(gzip.decompress(content), [], rng) if rng.random() < 0.9 else bytes(2**24)
    return {name: gzip.compress(inner, mtime=0)}


def _cells() -> SearchStrategy[bytes]:
    from hypothesis import strategies as st

    return st.one_of(
        st.sampled_from(WORDS),
        st.integers().map(lambda number: b"%d" % number),
        st.floats().map(lambda number: repr(number).encode()),
        st.datetimes().map(lambda moment: moment.isoformat().encode()),
        st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.binary(max_size=6),
        st.sampled_from([b"ann", b"bob", b"x", b"1", b"2", b"1.0"]),
    )


def _texts(
    name: str,
    packed: Callable[[bytes], bytes] = bytes,
    headers: Sequence[str] = ("", *_HEADERS),
) -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    def joined(
        header: str, rows: list[list[bytes]], delimiter: bytes, end: bytes, quoted: bool
    ) -> Files:
        def cell(content: bytes) -> bytes:
            return b'"' + content.replace(b'"', b'""') + b'"' if quoted else content

        lines = [header.encode(), *(delimiter.join(map(cell, row)) for row in rows)]
        return {name: packed(end.join(lines))}

    return st.integers(1, 5).flatmap(
        lambda n_columns: st.builds(
            joined,
            st.sampled_from(headers),
            st.lists(
                st.one_of(
                    st.lists(_cells(), min_size=n_columns, max_size=n_columns),
                    st.lists(_cells(), min_size=1, max_size=6),
                ),
                max_size=12,
            ),
            st.sampled_from([b",", b"\t", b";", b"|", b"::", b" "]),
            st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"]),
            st.booleans(),
        )
    )


# Tables of items

_ITEMS = "item_id,title,price,genres,about"
_ITEM_ROWS = [
    ('1,"Alien, ""1979""",9.5,Horror|Sci-Fi,"In space', 'no one hears you"'),
    ("2,Up,,Comedy|Animation,true", ""),
    ("3.0,Heat,1e3,Crime,\u00e9t\u00e9", ""),
    ("007,Brazil,true,Sci-Fi;Comedy,NULL", ""),
]


def _item_seeds() -> list[Files]:
    text = "".join(f"{chr(10).join(filter(None, row))}\n" for row in _ITEM_ROWS)
    table = pa.table(
        {
            "sku": [f"s{n}" for n in range(24)],
            "name": pa.array(["Alien", None, "Up"] * 8),
            "price": pa.array([1.5, None, 3.0, 1e300] * 6),
            "tags": pa.array([["a", "b"], [], None, ["c"]] * 6),
            "kind": pa.array(["tea", "jam"] * 12).dictionary_encode(),
            "vector": pa.array([[1.0, 2.0]] * 24),
        }
    )
    return [
        {"p.csv": f"{_ITEMS}\n{text}".encode()},
        {"p.csv": f"{_ITEMS}\n{text}".replace(",", "\t").replace("\n", "\r\n").encode()},
        {
            "p.csv": b"sku;stock;when\n"
            + b"".join(b"s%d;%d;2024-05-01\n" % (n, n) for n in range(30))
        },
        {"p.parquet": _parquet(table)},
        {"p.parquet": _parquet(table, compression="none", use_dictionary=False)},
        {"p.feather": _arrow(table, compression=None, is_stream=False)},
    ]


def _made_items() -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    headers = ("item_id,title,price,genres", "id,name", "sku;stock;price", "item_id,item,Item")
    return st.one_of(
        _texts("p.csv", headers=headers),
        _made_tables("p.parquet", _write_parquet),
        _made_tables("p.feather", _write_arrow),
    )


# Parquet and Arrow


def _tables() -> list[pa.Table]:
    ids = pa.array(["ann", "bob", "cy", "ann", None, "é"] * 4)
    moments = pa.array(range(24), pa.timestamp("us", tz="UTC"))
    text = {"user_id": pa.array([f"u{n % 7}" for n in range(24)]), "item_id": ids.fill_null("dan")}
    numbers = {"user_id": pa.array(range(24), pa.int32()), "item_id": pa.array(range(24, 48))}
    more = {"rating": pa.array([n / 3 for n in range(24)]), "timestamp": moments}
    categories = {name: column.dictionary_encode() for name, column in text.items()}
    days = pa.array(range(24), pa.date32())
    return [
        pa.table(text),
        pa.table(text | more),
        pa.table(numbers | more),
        pa.table(categories | {"timestamp": days}),
        pa.table({"user_id": ids, "item_id": numbers["item_id"].cast(pa.decimal128(20, 0))}),
        pa.table(
            {"user_id": text["user_id"].cast(pa.large_string()), "item_id": ids.cast("binary")}
        ),
        pa.table(
            {"user_id": pa.array([bytes(15) + bytes([n]) for n in range(24)], pa.binary(16))}
        ).append_column("item_id", ids.cast(pa.string_view())),
    ]


def _parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=10, **options)
    return bytes(sink.getvalue())


def _arrow(table: pa.Table, *, compression: str | None, is_stream: bool) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=10)
    return bytes(sink.getvalue())


def _parquet_seeds() -> list[Files]:
    ways: tuple[dict[str, Any], ...] = (
        {"compression": "none"},
        {"compression": "snappy", "data_page_version": "2.0"},
        {"compression": "zstd", "use_dictionary": False},
    )
    without_views = _tables()[:-1]  # some versions of pyarrow cannot write them
    return [{"p.parquet": _parquet(table, **way)} for table in without_views for way in ways]


def _arrow_seeds() -> list[Files]:
    ways: tuple[tuple[str | None, bool], ...] = ((None, False), (None, True), ("lz4", False))
    return [
        {"p.feather": _arrow(table, compression=compression, is_stream=is_stream)}
        for table in _tables()
        for compression, is_stream in (*ways, ("zstd", True))
    ]


def _columns() -> SearchStrategy[pa.Array]:
    import datetime as dt

    from hypothesis import strategies as st

    def of(kind: pa.DataType, values: SearchStrategy[Any]) -> SearchStrategy[pa.Array]:
        lists = st.lists(st.one_of(st.none(), values, values), min_size=4, max_size=4)
        return lists.map(lambda found: pa.array(found, kind))

    texts, whole = st.text(max_size=5), st.integers(-(2**63), 2**63 - 1)
    moments = st.integers(-(2**62), 2**62)
    small = st.integers(0, 100)
    plain = st.one_of(
        *(of(kind, texts) for kind in (pa.string(), pa.large_string(), pa.string_view())),
        *(of(kind, st.binary(max_size=5)) for kind in (pa.binary(), pa.large_binary())),
        of(pa.binary(16), st.binary(min_size=16, max_size=16)),
        of(pa.int64(), whole),
        of(pa.uint64(), st.integers(0, 2**64 - 1)),
        of(pa.int8(), st.integers(-128, 127)),
        of(pa.float64(), st.floats()),
        of(pa.float32(), st.floats(width=32)),
        of(pa.float16(), st.floats(width=16).map(np.float16)),
        of(pa.bool_(), st.booleans()),
        of(pa.decimal128(38, 5), st.decimals(-(10**9), 10**9, places=3)),
        of(pa.date32(), st.integers(-(2**31), 2**31 - 1)),
        of(pa.date64(), st.integers(-(10**9), 10**9).map(lambda day: day * 86_400_000)),
        *(
            of(pa.timestamp(unit, tz=zone), moments)
            for unit in ("s", "ms", "us", "ns")
            for zone in (None, "UTC", "Europe/Berlin")
        ),
        of(pa.time64("us"), st.integers(0, 86_399_999_999)),
        of(pa.duration("s"), moments),
        of(pa.month_day_nano_interval(), st.just((1, 2, 3))),
        of(pa.list_(pa.int64()), st.lists(whole, max_size=2)),
        of(pa.struct({"a": pa.int64()}), st.just({"a": 1})),
        of(pa.map_(pa.string(), pa.int64()), st.just([("a", 1)])),
        st.just(pa.nulls(4)),
        st.lists(small, min_size=4, max_size=4).map(pa.array),
        st.dates(dt.date(1970, 1, 1)).map(lambda day: pa.array([day] * 4)),
    )
    return st.one_of(
        plain,
        plain.map(_as_dictionary),
        of(pa.string(), texts).map(lambda ids: pa.array(ids).dictionary_encode()),
    )


def _as_dictionary(column: pa.Array) -> pa.Array:
    """The column by a dictionary with an entry more, unused, and a null for a value."""
    places = pa.array([0, 3, None, 1], pa.int8())
    return pa.DictionaryArray.from_arrays(places, column)


def _made_tables(name: str, written: Callable[[pa.Table, int], bytes]) -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    usual = ["user", "item", "timestamp", "rating"]
    names = st.one_of(
        st.just(usual), st.just(usual), st.permutations([*usual, "event", "user", "text"])
    )

    def made(columns: list[pa.Array], names: list[str], way: int) -> Files:
        try:
            return {name: written(pa.table(columns, names=names[: len(columns)]), way)}
        except (pa.ArrowException, ValueError, OSError):
            return {name: b""}  # a table that this format cannot hold

    return st.builds(made, st.lists(_columns(), min_size=2, max_size=4), names, st.integers(0, 3))


def _write_parquet(table: pa.Table, way: int) -> bytes:
    return _parquet(table, compression=("none", "snappy", "zstd", "gzip")[way])


def _write_arrow(table: pa.Table, way: int) -> bytes:
    return _arrow(table, compression=(None, "lz4", "zstd", None)[way], is_stream=way % 2 == 1)


# Sparse matrices


def _npz_seeds() -> list[Files]:
    pairs = scipy.sparse.random_array((9, 11), density=0.2, rng=np.random.default_rng(0))
    made = []
    for kind, compressed in itertools.product(("csr", "csc", "coo", "bsr", "dia"), (True, False)):
        file = io.BytesIO()
        scipy.sparse.save_npz(file, pairs.asformat(kind), compressed=compressed)
        made.append({"p.npz": file.getvalue()})
    return made


def _members(content: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: Files) -> Files:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return {"p.npz": file.getvalue()}


def _inside_npz(files: Files, rng: random.Random) -> Files:
    """Arrays changed under checksums that fit: values, shapes, types, or a missing array."""
    members = _members(files["p.npz"])
    name = rng.choice(list(members))
    if rng.random() < 0.1:
        del members[name]
    elif rng.random() < 0.4:
        members[name] = mutated(members[name], list(members.values()), rng)
    else:
        array = np.lib.format.read_array(io.BytesIO(members[name]))
        members[name] = _npy(_changed(array, rng))
    return _zipped(members)


def _changed(array: Any, rng: random.Random) -> Any:
    if array.dtype.kind in "SU" or not array.size:
        kinds = [b"csr", b"coo", b"dia", b"bsr", b"xyz", b"\xff", "csr", 5, [b"csr"] * 2]
        return np.array(rng.choice(kinds))
    way = rng.randrange(4)
    if way == 0:
        types = ("i1", "u8", "f2", "f8", "c16", "?", "S3", "M8[s]", ">i4")
        return array.astype(rng.choice(types))
    if way == 1:
        return np.resize(array, rng.choice([(0,), (1,), (2, 3), (50,), ()]))
    changed = array.copy()
    with np.errstate(all="ignore"):
        place = rng.randrange(array.size)
        changed.flat[place] = np.array(rng.choice(NUMBERS)).astype(array.dtype)
    return changed


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    return file.getvalue()


def _made_npz() -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    numbers = st.lists(st.one_of(st.integers(-2, 6), st.sampled_from(NUMBERS)), max_size=8)
    kinds = st.sampled_from(["i4", "i8", "f4", "f8", "u1"])

    def array(values: list[int], kind: str) -> bytes:
        with np.errstate(all="ignore"):
            return _npy(np.array(values, np.float64).astype(kind, casting="unsafe"))

    arrays = st.builds(array, numbers, kinds)
    shapes = st.one_of(
        numbers.map(lambda values: _npy(np.array(values, np.int64))),
        st.just(_npy(np.array([3, 4]))),
        st.just(_header((2**40,), "<i8")),
    )
    formats = st.sampled_from([b"csr", b"csc", b"coo", b"bsr", b"dia"]).map(
        lambda name: _npy(np.array(name))
    )
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    members = st.fixed_dictionaries(
        {"format.npy": formats, "shape.npy": shapes},
        optional={
            f"{name}.npy": st.one_of(arrays, arrays, st.just(_header((2**31,), "<f8")))
            for name in names
        },
    )
    return members.map(_zipped)


def _header(shape: tuple[int, ...], kind: str) -> bytes:
    """The start of an array that is far larger than what follows."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": kind}
    )
    return file.getvalue() + bytes(64)


# LightGCN text


def _lightgcn_seeds() -> list[Files]:
    train = b"".join(
        b"%d %s\n" % (user, b" ".join(b"%d" % i for i in range(user + 1))) for user in range(6)
    )
    ids = b"org_id remap_id\n" + b"".join(b"u%d %d\n" % (n, n) for n in range(6))
    return [
        {"train.txt": train},
        {"train.txt": train, "test.txt": b"0 5\n1 4 5\n"},
        {"train.txt": train, "test.txt": b"0 5\n", "user_list.txt": ids, "item_list.txt": ids},
    ]


def _made_lightgcn() -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    tokens = st.one_of(
        st.integers(0, 12).map(lambda n: b"%d" % n),
        st.sampled_from([*WORDS, *(b"%d" % n for n in NUMBERS)]),
    )
    lines = st.lists(st.lists(tokens, max_size=5).map(b" ".join), max_size=8)
    text = st.builds(
        lambda end, lines: end.join(lines), st.sampled_from([b"\n", b"\r\n", b"\n\n"]), lines
    )
    ids = text.map(lambda lines: b"org_id remap_id\n" + lines)
    return st.fixed_dictionaries(
        {"train.txt": text},
        optional={"test.txt": text, "user_list.txt": ids, "item_list.txt": ids},
    )


# Settings


def _toml_seeds() -> list[Files]:
    texts = (
        'preset = "dregn-cf"\n[encoder]\ndimension = 8\n[training]\nl2 = 0.03\nepochs = 3\n',
        'preset = "ease"\n[solver]\nkind = "ease"\n',
        'preset = "softmax"\nrisk = "softmax"\n[training]\npatience = 3\n',
        'preset = "dregn-cf"\nrisk = {kind = "density-ratio", upper_bound = "inf"}\n',
        'preset = "auto"\n',
    )
    return [{"p.toml": text.encode()} for text in texts]


def _made_toml() -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    from ratiorec.config import to_table
    from ratiorec.presets import PRESETS

    paths = sorted({path for settings in PRESETS.values() for path in _paths(to_table(settings))})
    values = st.one_of(
        st.sampled_from(["0", "-1", "1e308", "nan", "inf", "true", '""', '"kind"', "[]", "{}"]),
        st.sampled_from(["[1, [2]]", "{a = 1}", "2024-05-01", "9" * 400, '"\\u0000"', '"custom"']),
        st.integers().map(str),
        st.floats().map(repr),
        st.text(max_size=6).map(lambda text: json.dumps(text)),
    )
    lines = st.lists(
        st.builds(lambda p, v: f"{p} = {v}", st.sampled_from(paths), values), max_size=4
    )
    presets = st.sampled_from([*(f'"{name}"' for name in PRESETS), "1", "[]", '"auto"', "{a = 1}"])
    return st.builds(
        lambda preset, lines: {
            "p.toml": "\n".join([f"preset = {preset}", *lines]).encode("utf-8", "replace")
        },
        presets,
        lines,
    )


def _paths(table: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield before + name
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")


# Model folders

MODEL_HEADER, MODEL_ARRAYS = "model.json", "arrays.safetensors"


def _model_seeds() -> list[Files]:
    from ratiorec_lab.fuzz.small_models import saved_files, small_models

    return [saved_files(model) for model in small_models()]


def _inside_model(files: Files, rng: random.Random) -> Files:
    """A header or arrays changed in their own terms, under checksums that the child mends."""
    from safetensors.numpy import load, save

    header, arrays = json.loads(files[MODEL_HEADER]), load(files[MODEL_ARRAYS])
    if rng.random() < 0.5:
        place = header
        while True:
            name = rng.choice(list(place))
            if not isinstance(place[name], dict) or not place[name] or rng.random() < 0.3:
                break
            place = place[name]
        odd: tuple[Any, ...] = (
            None,
            -1,
            0,
            2**40,
            1e300,
            "",
            "text",
            [],
            {},
            [1, "a"],
            True,
            "ease",
            "int64",
        )
        if rng.random() < 0.2:
            del place[name]
        else:
            place[name] = rng.choice(odd)
    else:
        name = rng.choice(sorted(arrays))
        if rng.random() < 0.1:
            del arrays[name]
        else:
            arrays[name] = _changed_plain(arrays[name], rng)
    return {
        MODEL_HEADER: json.dumps(header).encode(),
        MODEL_ARRAYS: save({name: np.ascontiguousarray(array) for name, array in arrays.items()}),
    }


def _changed_plain(array: Any, rng: random.Random) -> Any:
    way = rng.randrange(4)
    if way == 0:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(("i1", "u8", "f2", "f8", "?", "i8", "i4")))
    if way == 1 or not array.size:
        shapes: list[tuple[int, ...]] = [
            (0,),
            (1,),
            (2, 3),
            (50,),
            (0, 5),
            (3, 0),
            (2**27, 0),
            (2**50, 0),
        ]
        shape = rng.choice(shapes)
        return np.zeros(shape, array.dtype) if 0 in shape else np.resize(array, shape)
    changed = array.copy()
    with np.errstate(all="ignore"):
        odd = (
            rng.choice((*NUMBERS, float("nan"), float("inf")))
            if array.dtype.kind == "f"
            else rng.choice(NUMBERS)
        )
        changed.flat[rng.randrange(array.size)] = np.array(odd).astype(array.dtype)
    return changed


def _made_models() -> SearchStrategy[Files]:
    """Arrays of any shape, type and place under the names that a model has."""
    from hypothesis import strategies as st

    def twice(files: Files, seed: int) -> Files:
        rng = random.Random(seed)
        return _inside_model(_inside_model(files, rng), rng)

    return st.builds(twice, st.sampled_from(_model_seeds()), st.integers(0, 2**32))


# HTTP bodies

ADDRESSES = ("POST /v1/recommend", "POST /v1/why", "POST /v1/admin/reload")


_EXPRESSION = '(kind in ["tea", "jam"] or not price < 5e1) and title contains "th" and @cheap'
_RULES = {
    "limits": {"kind": 2},
    "apart": {"kind": 2},
    "pins": {"1": "item3"},
    "boosts": {"price > 3 and kind is not missing": -0.5},
    "diversity": 0.3,
    "calibration": {"kind": 0.5},
}


def _body_seeds() -> list[Files]:
    bodies = (
        (ADDRESSES[0], {"users": ["user1", "user2"], "k": 3}),
        (ADDRESSES[0], {"histories": [["item1"], ["item2", "item3"]], "on_unknown": "skip"}),
        (ADDRESSES[0], {"users": ["user3"], "allow": ["item1"], "deny": [], "exclude_seen": False}),
        (ADDRESSES[0], {"users": ["user1"], "filter": _EXPRESSION, "rules": _RULES}),
        (ADDRESSES[0], {"histories": [["item1"]], "visitor": "v", "diversity": 0.5, "k": 5}),
        (ADDRESSES[1], {"history": ["item1", "item2"], "item": "item4"}),
    )
    return [
        {"p.http": f"{address}\n".encode() + json.dumps(body).encode()} for address, body in bodies
    ]


def _inside_body(files: Files, rng: random.Random) -> Files:
    address, _, body = files["p.http"].partition(b"\n")
    return {"p.http": address + b"\n" + mutated(body, [], rng)}


def _made_bodies() -> SearchStrategy[Files]:
    from hypothesis import strategies as st

    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(["user1", "item1", "item2", "raise", "skip", "fallback", 10**400, ""]),
        st.sampled_from([_EXPRESSION, "@cheap", "@x", "price >", "all", "kind", 0.5]),
    )
    values = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        ),
        max_leaves=8,
    )
    ids = st.lists(st.sampled_from(["item1", "item2", "item3", "user1", "other", 3]), max_size=4)
    fields = (
        "users",
        "histories",
        "k",
        "exclude_seen",
        "allow",
        "deny",
        "on_unknown",
        *("filter", "rules", "diversity", "attributes", "max_cold", "variant", "visitor"),
        "history",
        "item",
        "x",
    )
    rules = st.dictionaries(
        st.sampled_from([*_RULES, "x"]),
        st.one_of(
            scalars,
            st.dictionaries(st.sampled_from(["kind", "price", "1", "price > 3", "x"]), scalars),
        ),
    )
    bodies = st.dictionaries(
        st.sampled_from(fields),
        st.one_of(values, ids, st.lists(ids, max_size=3), rules),
        max_size=5,
    )

    fitting = st.fixed_dictionaries(
        {"users": st.lists(st.sampled_from(["user1", "user2", "user3"]), min_size=1, max_size=3)},
        optional={
            "k": st.integers(1, 20),
            "filter": st.sampled_from([_EXPRESSION, "@cheap", "price > 3"]),
            "rules": st.just(_RULES),
            "diversity": st.floats(0, 1),
        },
    )

    def request(address: str, body: Any) -> Files:
        return {"p.http": f"{address}\n".encode() + json.dumps(body).encode()}

    any_body = st.one_of(bodies, bodies, fitting, values)
    return st.builds(request, st.sampled_from(ADDRESSES), any_body)


SOURCES: dict[str, Source] = {
    "csv": Source(_csv_seeds, lambda: _texts("p.csv")),
    "tsv": Source(_tsv_seeds, lambda: _texts("p.tsv")),
    "gz": Source(_packed_seeds, lambda: _texts("p.csv.gz", gzip.compress), _inside_gzip),
    "inter": Source(_inter_seeds, lambda: _texts("p.inter")),
    "parquet": Source(_parquet_seeds, lambda: _made_tables("p.parquet", _write_parquet)),
    "arrow": Source(_arrow_seeds, lambda: _made_tables("p.feather", _write_arrow)),
    "items": Source(_item_seeds, _made_items),
    "npz": Source(_npz_seeds, _made_npz, _inside_npz),
    "lightgcn": Source(_lightgcn_seeds, _made_lightgcn),
    "toml": Source(_toml_seeds, _made_toml),
    "model": Source(_model_seeds, _made_models, _inside_model),
    "http": Source(_body_seeds, _made_bodies, _inside_body),
}
"""The cases of each reader, by its name."""


def named(names: Sequence[str]) -> dict[str, Source]:
    """The sources of these readers; all where none is named."""
    return {name: SOURCES[name] for name in names or SOURCES}
