"""Benchmarks of five pairs, and a machine on which none is to be found."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.data.registry import Benchmark, InAWheel, LocalOnly, OnTheWeb, PinnedFile
from ratiorec.data.vocabulary import Vocabulary

TRAIN, TEST = b"0 0 1\n1 2 3\n2 4\n", b"0 2\n1 0\n"
INTER = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t2\t5\t100\n3\t1\t1\t90\n"
ITEM = (
    "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
    "1\tDémo, Le\t1999\tDrama\n2\tOther\t1954\tComedy Drama\n3\tUnseen\t2000\tDrama\n"
).encode()


def fingerprint(pairs: list[tuple[int, int]]) -> str:
    users, items = zip(*pairs, strict=True)
    return Interactions.from_indices(
        Vocabulary.dense(3, kind="user"), Vocabulary.dense(5, kind="item"), users, items
    ).sha256


def pin(name: str, content: bytes) -> PinnedFile:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return PinnedFile(name, hashlib.sha256(content).hexdigest(), len(content), blob)


TINY = Benchmark(
    "tiny",
    n_users=3,
    n_items=5,
    n_train_pairs=5,
    n_test_pairs=2,
    origin=OnTheWeb((pin("train.txt", TRAIN), pin("test.txt", TEST))),
    train_sha256=fingerprint([(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]),
    test_sha256=fingerprint([(0, 2), (1, 0)]),
)
BYTES_ONLY = replace(TINY, name="bytes-only", train_sha256=None, test_sha256=None)
LOCAL = replace(TINY, name="local", origin=LocalOnly(TINY.origin.files))
MOVIES = Benchmark(
    "movies",
    n_users=2,
    n_items=2,
    n_train_pairs=2,
    n_test_pairs=0,
    origin=InAWheel(
        "ratiorec-tiny-movies==1.0",
        "tiny/movies",
        (pin("movies.inter", INTER), pin("movies.item", ITEM)),
    ),
)
REGISTRY: Mapping[str, Benchmark] = {b.name: b for b in (TINY, BYTES_ONLY, LOCAL, MOVIES)}


def hide_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the environment, the cache and the working folder."""
    monkeypatch.delenv("RATIOREC_DATA", raising=False)
    monkeypatch.delenv("RATIOREC_BENCHMARK_URL", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def put(folder: Path, train: bytes = TRAIN, test: bytes = TEST) -> Path:
    """A folder in LightGCN form."""
    folder.mkdir(parents=True)
    (folder / "train.txt").write_bytes(train)
    (folder / "test.txt").write_bytes(test)
    return folder
