"""Benchmarks by name: size, origin, and the hashes that prove a copy right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ratiorec.errors import DownloadError

LIGHTGCN_URL = (
    "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/"
    "947ca2b3b1d2d3545b114145710cb06c4e57b3d2/data"
)


@dataclass(frozen=True)
class PinnedFile:
    """A file with its SHA-256, or with its git blob id where only that was published.

    A git blob id is the SHA-1 of `blob <size>\\0` and the content: what git calls the file.
    """

    name: str
    sha256: str | None = None
    n_bytes: int | None = None
    git_blob: str | None = None

    def fault_in(self, content: bytes) -> str | None:
        """The fact that proves the content another file, or None."""
        if self.n_bytes not in (None, len(content)):
            return f"{len(content):,} bytes"
        sha256 = hashlib.sha256(content).hexdigest()
        if self.sha256 not in (None, sha256):
            return f"sha256 {sha256}"
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        if self.git_blob not in (None, blob.hexdigest()):
            return f"git blob id {blob.hexdigest()}"
        return None

    def mismatch(self, *, where: str, found: str) -> DownloadError:
        """The refusal of something else that came under this name."""
        size = "" if self.n_bytes is None else f"{self.n_bytes:,} bytes, "
        proof = f"sha256 {self.sha256}" if self.sha256 else f"git blob id {self.git_blob}"
        return DownloadError(
            f"{self.name} is cut or altered, and was not kept",
            where=where,
            found=found,
            wanted=f"{size}{proof}",
        )


@dataclass(frozen=True)
class OnTheWeb:
    """Files under `<base URL>/<benchmark>/`, by default those of the LightGCN repository."""

    files: tuple[PinnedFile, ...]


@dataclass(frozen=True)
class InAWheel:
    """Files inside a Python package, which is downloaded but never installed."""

    requirement: str
    folder: str
    files: tuple[PinnedFile, ...]


@dataclass(frozen=True)
class LocalOnly:
    """Files that no public place offers in this form."""

    files: tuple[PinnedFile, ...] = (PinnedFile("train.txt"), PinnedFile("test.txt"))


@dataclass(frozen=True)
class Generated:
    """No files: the pairs are drawn when they are asked for."""

    files: tuple[PinnedFile, ...] = ()


Origin = OnTheWeb | InAWheel | LocalOnly | Generated


@dataclass(frozen=True)
class Benchmark:
    """One data set; `train_sha256` and `test_sha256` are fingerprints of its pairs.

    A copy may hold the pairs in another order, so the fingerprints judge it where they are
    known; elsewhere each file must be the pinned one to the last byte.
    """

    name: str
    n_users: int
    n_items: int
    n_train_pairs: int
    n_test_pairs: int
    origin: Origin
    train_sha256: str | None = None
    test_sha256: str | None = None

    @property
    def how_to_get(self) -> str:
        """The command or the place by which a user gets it."""
        if isinstance(self.origin, Generated):
            return "nothing to do"
        if isinstance(self.origin, LocalOnly):
            files = " and ".join(file.name for file in self.origin.files)
            return f"put {files} into a folder {self.name} of --data-dir or $RATIOREC_DATA"
        return f"ratiorec data fetch {self.name}"


_GOWALLA = (
    PinnedFile("train.txt", git_blob="a27782bd7a1d4d0744148dc0460ea94da74763f2"),
    PinnedFile(
        "test.txt", "099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3", 1_372_559
    ),
)
_YELP = (
    PinnedFile(
        "train.txt", "1e9568725a9e833d0ac3bae01c94cd95367f73b3bb6104fd26b5f65ea5054093", 6_904_880
    ),
    PinnedFile(
        "test.txt", "9cd9b37926cd1447a06625ffa7914527573fb097c10cb0bbdb1d1b8ded3742fe", 1_986_152
    ),
)
_AMAZON_BOOK = (
    PinnedFile(
        "train.txt", n_bytes=14_125_691, git_blob="6ef55159c5f1fd7f6d86eb9ff290d0cc2854ac99"
    ),
    PinnedFile(
        "test.txt", "6250754994dd953b91b48dccdd77a73f318e0634b4757c2abfcc9d33a54ab0f5", 3_848_611
    ),
)
_ML_100K = (
    PinnedFile(
        "ml-100k.inter",
        "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
        1_979_230,
    ),
    PinnedFile(
        "ml-100k.item", "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532", 66_632
    ),
)

_ALL = (
    Benchmark(
        "gowalla",
        n_users=29_858,
        n_items=40_981,
        n_train_pairs=810_128,
        n_test_pairs=217_242,
        origin=OnTheWeb(_GOWALLA),
        train_sha256="f112a517a351fa8673b363e4575739e7095ddf4af0a9a2afe30d7ab066ca1182",
        test_sha256="1a3cedcba120d1ee1cf7b53143bab5894def8b35ca821ade63f7497ea83a449f",
    ),
    Benchmark(
        "yelp2018",
        n_users=31_668,
        n_items=38_048,
        n_train_pairs=1_237_259,
        n_test_pairs=324_147,
        origin=OnTheWeb(_YELP),
        train_sha256="ba76e48c6fe3e025ff44953efed5dbee114948a7fd4305975881c7b5a5af718c",
        test_sha256="8a8de541fc447c1a3db63f0977ccf44fe8d6e17f35e72b6f88d7122ae5565638",
    ),
    Benchmark(
        "amazon-book",
        n_users=52_643,
        n_items=91_599,
        n_train_pairs=2_380_730,
        n_test_pairs=603_378,
        origin=OnTheWeb(_AMAZON_BOOK),
    ),
    Benchmark(
        "amazon-book-75",
        n_users=52_643,
        n_items=91_599,
        n_train_pairs=1_794_414,
        n_test_pairs=603_378,
        origin=LocalOnly(),
        train_sha256="31247926151f61229f850e0f89602de3099dfdd63639b9864ec9c9f4560a1256",
        test_sha256="845a6a1d6c660b63430c52da2bfc69f83ecda440bc82dac983b416c3b6b0ab1d",
    ),
    Benchmark(
        "amazon-cds",
        n_users=43_169,
        n_items=35_648,
        n_train_pairs=604_475,
        n_test_pairs=172_951,
        origin=LocalOnly(),
        train_sha256="5dc77bbd8c061d45e1dddd62a60d8f2a181b859054e44c3c45174db73fb92f17",
        test_sha256="a0de9b464502e89350a2d8714255b64dc425534ecc5d54305f365ba1feae7cdd",
    ),
    Benchmark(
        "ml-100k",
        n_users=943,
        n_items=1_682,
        n_train_pairs=100_000,
        n_test_pairs=0,
        origin=InAWheel("recbole==1.2.1", "recbole/dataset_example/ml-100k", _ML_100K),
    ),
    Benchmark(
        "synthetic",
        n_users=1_500,
        n_items=500,
        n_train_pairs=83_927,
        n_test_pairs=20_987,
        origin=Generated(),
    ),
)
BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType({bench.name: bench for bench in _ALL})
