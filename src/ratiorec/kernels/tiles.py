"""A pass over users × items in tiles, which makes no matrix of that size; on a CPU, or in torch.

Blocks of users are scored against tile after tile of items. A block's gradient by scores waits
until the block's total over all items is known, and then goes into the gradient by items. A few
blocks wait at a time, in buffers that are used again: nothing else is larger than the vectors.

On a CPU numpy's BLAS multiplies: torch's own uses half the width of an AMD processor's registers
and takes twice the time; elsewhere they are alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from ratiorec.kernels.blocks import cut, for_each_block, n_at_a_time
from ratiorec.shapes import ItemFactors, UserFactors


@dataclass(frozen=True)
class Tiles:
    """How many users make a block, items a tile, and how many blocks wait together at least.

    With more threads a block for each waits, as far as memory goes. The sums depend on neither:
    blocks and tiles are cut by size alone, and an item's gradient is added up by one thread at a
    time, block after block. As they stand they suit the cache of a CPU.
    """

    n_users: int = 64
    n_items: int = 2048
    n_blocks: int = 4


_MOST_WAITING = 2**28  # numbers: a GiB of them
FOR_A_GPU = Tiles(n_users=1024, n_items=16384, n_blocks=1)  # few and large


class TiledPass(ABC):
    """One pass, with its buffers; matrices have a row for every item and a column for every user.

    So a tile's rows lie together for both products with the gradient.
    """

    def __init__(self, sizes: Tiles, users: UserFactors, items: ItemFactors) -> None:
        self.users, self.items = users, items
        self.sizes = sizes
        self.tiles = cut(len(items), sizes.n_items)
        self.waiting: list[slice] = []
        self.value = users.new_empty(len(users))
        self.to_users, self.to_items = torch.empty_like(users), torch.zeros_like(items)
        self.scaled_users = torch.empty_like(users)  # what a gradient by scores is multiplied by
        entries = len(items) * min(sizes.n_users, len(users))  # of a waiting block
        n_blocks = max(sizes.n_blocks, min(n_at_a_time(), _MOST_WAITING // max(entries, 1)))
        self.n_blocks = min(n_blocks, -(-len(users) // sizes.n_users))
        self._room = users.new_empty(self.n_blocks, entries)

    def run(self) -> tuple[Tensor, UserFactors, ItemFactors]:
        """Every user's value, and the gradients."""
        blocks = cut(len(self.users), self.sizes.n_users)
        for start in range(0, len(blocks), max(1, self.n_blocks)):
            self.waiting = blocks[start : start + self.n_blocks]
            for_each_block(self.one_block_of_users, self.waiting)
            for_each_block(self._one_tile_of_items, self.tiles)
        return self.value, self.to_users, self.to_items

    @abstractmethod
    def one_block_of_users(self, block: slice) -> None:
        """Fill the block's rows of `value`, `to_users` and `scaled_users`, and its `matrix`."""

    def matrix(self, block: slice) -> Tensor:
        """Of a waiting block: its scores, then their gradient but for the factor of each user."""
        place, n_users = self.waiting.index(block), block.stop - block.start
        return front(self._room[place], (len(self.items), n_users))

    def _one_tile_of_items(self, tile: slice) -> None:
        """What the waiting blocks add to the gradient by these items."""
        for block in self.waiting:
            add_product(self.to_items[tile], self.matrix(block)[tile], self.scaled_users[block])


def front(room: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first entries of a buffer as a matrix; the last block and tile may be smaller."""
    n_rows, n_columns = shape
    return room[: n_rows * n_columns].view(n_rows, n_columns)


def multiply(left: Tensor, right: Tensor, *, out: Tensor) -> Tensor:
    """`out` = left·right, without gradients."""
    if out.device.type == "cpu":
        left.detach().numpy().dot(right.detach().numpy(), out=out.numpy())
        return out
    return torch.mm(left, right, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """`total` += left·right, without gradients."""
    if total.device.type == "cpu":
        total += torch.from_numpy(left.detach().numpy() @ right.detach().numpy())
    else:
        total.addmm_(left, right)
