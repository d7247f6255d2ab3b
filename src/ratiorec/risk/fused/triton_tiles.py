"""How the two passes are cut into blocks and shared out over the multiprocessors of a card."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

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
