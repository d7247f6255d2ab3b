"""The unlabelled term on a GPU: two fused kernels, products on tensor cores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ratiorec.errors import ConfigError
from ratiorec.kernels.unlabelled import Unlabelled, UnlabelledTerm
from ratiorec.shapes import ItemFactors, PerItem, PerUser, UserFactors

LARGEST_BLOCK = 128  # of rows or columns; tables are padded to whole ones
BYTES_OF_SUMS = 96 * 2**20  # of all shares together
BLOCKS_TO_BEGIN = 4  # what it costs to begin a share and to add it up, in blocks of columns
_REGISTERS = 65536  # of a multiprocessor; a thread has at most 255
_MOST_REGISTERS = 255


class Tiles(NamedTuple):
    """The block of pairs of one program, and how it runs."""

    n_rows: int  # held
    n_columns: int  # streamed past
    n_warps: int
    n_stages: int  # blocks of columns that are on their way
    n_resident: int  # programs that a multiprocessor works on at a time

    @property
    def n_registers(self) -> int:
        """What a thread may use, so that so many programs are resident."""
        share = _REGISTERS // (32 * self.n_warps * self.n_resident)
        return min(_MOST_REGISTERS, share // 8 * 8)


class PassTiles(NamedTuple):
    """The tiles of both passes."""

    by_users: Tiles
    by_items: Tiles


# By what is multiplied and the largest dimension. Compiled for sm_90 by Triton 3.6, none of these
# spills a register for any link, generator and weight. With 128 rows a pass reads 0.8 GB of the
# other table from the L2 cache at 9,500 users, 40,981 items and 64 numbers, with 64 twice that;
# several resident programs let one multiply while another computes.
_TILES: Mapping[str, Mapping[int, PassTiles]] = MappingProxyType(
    {
        "fp16": {
            64: PassTiles(Tiles(128, 64, 8, 3, 2), Tiles(128, 64, 8, 3, 2)),
            128: PassTiles(Tiles(64, 64, 4, 2, 2), Tiles(64, 64, 4, 2, 2)),
            256: PassTiles(Tiles(64, 32, 4, 2, 2), Tiles(64, 32, 4, 2, 2)),
        },
        "bf16": {
            64: PassTiles(Tiles(128, 64, 8, 3, 2), Tiles(128, 64, 8, 3, 2)),
            128: PassTiles(Tiles(64, 64, 4, 2, 3), Tiles(64, 64, 4, 2, 2)),
            256: PassTiles(Tiles(64, 64, 4, 2, 2), Tiles(64, 32, 4, 2, 2)),
        },
        "tf32": {
            64: PassTiles(Tiles(64, 32, 4, 2, 4), Tiles(64, 32, 4, 2, 4)),
            128: PassTiles(Tiles(64, 32, 4, 2, 2), Tiles(64, 32, 4, 2, 2)),
            256: PassTiles(Tiles(64, 16, 4, 2, 2), Tiles(64, 32, 4, 2, 1)),
        },
        "ieee": {
            64: PassTiles(Tiles(32, 32, 4, 2, 4), Tiles(32, 32, 4, 2, 4)),
            256: PassTiles(Tiles(32, 32, 8, 2, 2), Tiles(32, 32, 8, 2, 2)),
        },
    }
)


def usual_tiles(products: str, dim: int, *, plain_weight: bool) -> PassTiles:
    """The tiles for vectors of `dim` numbers; weights that are computed take registers."""
    sizes = _TILES[products]
    tiles = sizes[min((size for size in sizes if size >= dim), default=max(sizes))]
    if plain_weight:
        return tiles
    n_resident = 2 if dim <= 128 else 1
    return PassTiles(*(_narrower(each, n_resident) for each in tiles))


def _narrower(tiles: Tiles, n_resident: int) -> Tiles:
    return tiles._replace(
        n_columns=max(16, tiles.n_columns // 2), n_resident=min(n_resident, tiles.n_resident)
    )


class Cut(NamedTuple):
    """A grid of programs: blocks of rows by shares of the columns."""

    n_blocks: int
    n_shares: int
    n_columns_each: int


def cut(n_rows: int, n_columns: int, dim: int, tiles: Tiles, *, n_processors: int) -> Cut:
    """As many shares as leave the fewest multiprocessors idle at the end.

    >>> cut(9500, 40981, 64, Tiles(128, 64, 8, 3, 2), n_processors=132)
    Cut(n_blocks=75, n_shares=7, n_columns_each=5888)
    """
    n_blocks, n_column_blocks = _blocks(n_rows, tiles.n_rows), _blocks(n_columns, tiles.n_columns)
    n_at_a_time = n_processors * tiles.n_resident
    most = max(1, min(n_column_blocks, BYTES_OF_SUMS // (4 * n_rows * dim)))

    def duration(n_shares: int) -> int:
        n_rounds = _blocks(n_blocks * n_shares, n_at_a_time)
        return n_rounds * (_blocks(n_column_blocks, n_shares) + BLOCKS_TO_BEGIN)

    n_each = _blocks(n_column_blocks, min(range(1, most + 1), key=duration))
    return Cut(n_blocks, _blocks(n_column_blocks, n_each), n_each * tiles.n_columns)


def _blocks(n: int, size: int) -> int:
    return -(-n // size)


BITS_PER_NAT = math.log2(math.e)


class Number(NamedTuple):
    """What is multiplied: a type, and how much of a float32 it keeps."""

    dtype: torch.dtype
    dropped_bits: int  # of the 23 in the fraction


class Products(NamedTuple):
    """What goes into the products; all sums are float32."""

    scores: Number
    gradients: Number
    precision: str  # what the compiler calls it where the type is float32

    @property
    def users_factor(self) -> float:
        """What users are multiplied with before; what is not rounded stays as it is."""
        return BITS_PER_NAT if self.scores.dropped_bits else 1.0


_BF16, _FP16 = Number(torch.bfloat16, 16), Number(torch.float16, 13)
_TF32, _FP32 = Number(torch.float32, 13), Number(torch.float32, 0)

# fp16 has the digits of tf32 at the speed of bf16, and range enough for vectors (65,504); what
# multiplies them in a gradient may be any power of e, and has the range of bf16
PRODUCTS: Mapping[str, Products] = MappingProxyType(
    {
        "fp16": Products(_FP16, _BF16, "ieee"),
        "bf16": Products(_BF16, _BF16, "ieee"),
        "tf32": Products(_TF32, _TF32, "tf32"),
        "ieee": Products(_FP32, _FP32, "ieee"),
    }
)


_SMALLEST_DIM = 16  # of a product on a tensor core
_ROWS = 32  # of a program of the two small kernels
_N_PROCESSORS = 2  # where there is no GPU to ask, but the interpreter


def knows(term: UnlabelledTerm) -> bool:
    """Whether there are device functions for what the term is made of."""
    from ratiorec.kernels.triton.unlabelled_kernels import LINKS, device_generator

    links = {term.link} if term.first is None else {term.link, term.first.link}
    return device_generator(term.generator) is not None and links <= LINKS.keys()


@dataclass(frozen=True)
class Triton:
    """Value and gradient in two passes over the pairs, each of them one kernel (theory: R23).

    `products` is fp16, bf16, tf32, or ieee for float32. An error in a score is as large an error
    in log r̂ where the ratio is like eˢ, so that scores far from 0 need the digits that bf16 lacks.
    Tiles that are not given are chosen by size.
    """

    products: str = "fp16"
    by_users: Tiles | None = None
    by_items: Tiles | None = None

    def __post_init__(self) -> None:
        if self.products not in PRODUCTS:
            raise ConfigError(
                "unknown kind of products",
                where="products",
                found=self.products,
                wanted=" | ".join(PRODUCTS),
            )

    def __call__(
        self, users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
    ) -> Unlabelled:
        products, usual = PRODUCTS[self.products], _usual_tiles(self.products, users, term)
        with torch.no_grad(), torch.cuda.device_of(users):  # type: ignore[no-untyped-call]
            tables = _pack(users, items, term, products)
            constants = _constants(tables, term, products)
            sums = _by_users(tables, constants, self.by_users or usual.by_users)
            value, to_users, scaled_users = _settle(
                sums, users, products.gradients, term.divisor, bound
            )
            del sums  # its memory serves the second pass
            to_items = _by_items(tables, scaled_users, constants, self.by_items or usual.by_items)
        return Unlabelled(
            value.to(users.dtype),
            to_users.to(users.dtype),
            to_items[:, : items.shape[1]].to(items.dtype).contiguous(),
        )


class _Tables(NamedTuple):
    """What the kernels read: rows of a power of two numbers, whole blocks of rows."""

    n_users: int
    n_items: int
    users: Tensor
    items: Tensor
    items_to_sum: Tensor | None  # where gradients are made of other numbers than scores
    candidates: Tensor
    first_users: Tensor | None
    first_items: Tensor | None


class _Sums(NamedTuple):
    """What the first pass gives, share by share."""

    totals: Tensor  # Z_u and S_u
    gradient: Tensor  # Q_u


def _pack(users: Tensor, items: Tensor, term: UnlabelledTerm, products: Products) -> _Tables:
    number, factor, first = products.scores, products.users_factor, term.first
    differ = products.gradients != number
    return _Tables(
        n_users=len(users),
        n_items=len(items),
        users=_packed(users, number, factor),
        items=_packed(items, number),
        items_to_sum=_packed(items, products.gradients) if differ else None,
        candidates=_padded_with_zeros(term.candidates),
        first_users=None if first is None else _packed(first.users, number, factor),
        first_items=None if first is None else _packed(first.items, number),
    )


def _packed(table: Tensor, number: Number, factor: float = 1.0) -> Tensor:
    from ratiorec.kernels.triton.unlabelled_kernels import pack

    packed = _room(table, number)
    pack[(len(packed) // _ROWS,)](
        table,
        packed,
        factor,
        *table.shape,
        *table.stride(),
        ROWS=_ROWS,
        DIM=packed.shape[1],
        DROPPED_BITS=number.dropped_bits,
    )
    return packed


def _room(table: Tensor, number: Number) -> Tensor:
    # without a GPU the kernels are interpreted, which cannot multiply 16 bits: float32 holds
    # the rounded numbers as well
    dtype = number.dtype if table.is_cuda else torch.float32
    n_rows, n_columns = table.shape
    return table.new_empty(_whole_blocks(n_rows), _padded(n_columns), dtype=dtype)


def _padded_with_zeros(candidates: PerItem) -> Tensor:
    padded = candidates.new_zeros(_whole_blocks(len(candidates)), dtype=torch.float32)
    padded[: len(candidates)] = candidates
    return padded


def _constants(tables: _Tables, term: UnlabelledTerm, products: Products) -> dict[str, Any]:
    """What the kernels of both passes are compiled for."""
    from ratiorec.kernels.triton.unlabelled_kernels import LINKS, device_generator

    first = tables.first_users
    return {
        "DIM": tables.users.shape[1],
        "FIRST_DIM": None if first is None else first.shape[1],
        "FACTOR": BITS_PER_NAT / products.users_factor,
        "PRECISION": products.precision,
        "LINK": LINKS[term.link],
        "GENERATOR": device_generator(term.generator),
        "EXPONENT": term.generator.exponent,
        "RATIO_POWER": float(term.ratio_power),
        "FIRST_LINK": None if term.first is None else LINKS[term.first.link],
    }


def _by_users(tables: _Tables, constants: dict[str, Any], tiles: Tiles) -> _Sums:
    from ratiorec.kernels.triton.unlabelled_kernels import by_users

    n_users, n_items, dim = tables.n_users, tables.n_items, constants["DIM"]
    grid = _cut(tables, n_users, n_items, tiles)
    sums = _Sums(
        totals=tables.candidates.new_empty(grid.n_shares, 2, n_users),
        gradient=tables.candidates.new_empty(grid.n_shares, n_users, dim),
    )
    by_users[(grid.n_blocks, grid.n_shares)](
        tables.users,
        tables.items,
        tables.items_to_sum,
        tables.candidates,
        tables.first_users,
        tables.first_items,
        *sums,
        n_users,
        n_items,
        grid.n_columns_each,
        **constants,
        **_launch(tiles),
    )
    return sums


def _settle(
    sums: _Sums, users: Tensor, number: Number, divisor: float | None, bound: PerUser
) -> tuple[Tensor, Tensor, Tensor]:
    """R±_u, its gradient by users, and the packed users times g_u/Z_u."""
    from ratiorec.kernels.triton.unlabelled_kernels import settle

    value = torch.empty_like(sums.totals[0, 0])
    to_users = value.new_empty(users.shape)
    scaled_users = _room(users, number)
    settle[(len(scaled_users) // _ROWS,)](
        *sums,
        users,
        bound.contiguous(),
        value,
        to_users,
        scaled_users,
        1.0 if divisor is None else float(divisor),
        *users.shape,
        *users.stride(),
        len(sums.gradient),
        SELF_NORMALISED=divisor is None,
        ROWS=_ROWS,
        DIM=scaled_users.shape[1],
        DROPPED_BITS=number.dropped_bits,
    )
    return value, to_users, scaled_users


def _by_items(
    tables: _Tables, scaled_users: Tensor, constants: dict[str, Any], tiles: Tiles
) -> Tensor:
    from ratiorec.kernels.triton.unlabelled_kernels import by_items

    n_users, n_items, dim = tables.n_users, tables.n_items, constants["DIM"]
    grid = _cut(tables, n_items, n_users, tiles)
    sums = tables.candidates.new_empty(grid.n_shares, n_items, dim)
    by_items[(grid.n_blocks, grid.n_shares)](
        tables.items,
        tables.users,
        scaled_users,
        tables.candidates,
        tables.first_items,
        tables.first_users,
        sums,
        n_items,
        n_users,
        grid.n_columns_each,
        **constants,
        **_launch(tiles),
    )
    return sums[0] if grid.n_shares == 1 else sums.sum(0)


def _cut(tables: _Tables, n_rows: int, n_columns: int, tiles: Tiles) -> Cut:
    device = tables.users.device
    n_processors = _N_PROCESSORS
    if device.type == "cuda":
        n_processors = torch.cuda.get_device_properties(device).multi_processor_count
    return cut(n_rows, n_columns, tables.users.shape[1], tiles, n_processors=n_processors)


def _launch(tiles: Tiles) -> dict[str, int]:
    return {
        "ROWS": tiles.n_rows,
        "COLUMNS": tiles.n_columns,
        "num_warps": tiles.n_warps,
        "num_stages": tiles.n_stages,
        "maxnreg": tiles.n_registers,
    }


def _usual_tiles(products: str, users: Tensor, term: UnlabelledTerm) -> PassTiles:
    dim = users.shape[1] if term.first is None else max(users.shape[1], term.first.users.shape[1])
    # any other power of the ratio takes a logarithm, and registers for it
    powers = {term.ratio_power, term.generator.exponent or 0}
    return usual_tiles(products, dim, plain_weight=term.first is None and powers <= {0, 1, 2})


def _padded(dim: int) -> int:
    return max(_SMALLEST_DIM, 1 << (dim - 1).bit_length())


def _whole_blocks(n_rows: int) -> int:
    return -(-n_rows // LARGEST_BLOCK) * LARGEST_BLOCK
