"""The unlabelled term in one pass over blocks of users, tile by tile of candidates.

A block's gradient by scores waits until the block's Z_u is known, and then goes into both
gradients. A few blocks wait at a time, in buffers that are used again: nothing else is larger than
the vectors themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ratiorec.blocks import cut, for_each_block
from ratiorec.risk.fused.execution import Unlabelled
from ratiorec.risk.fused.term import UnlabelledTerm, unlabelled_weight
from ratiorec.shapes import ItemFactors, PerUser, UserFactors


@dataclass(frozen=True)
class Tiled:
    """How many users make a block, candidates a tile, and how many blocks wait together.

    The sums do not depend on the number of threads: blocks and tiles are cut by size alone, and
    a candidate's gradient is added up by one thread at a time, block after block.
    """

    n_users: int = 64
    n_items: int = 2048
    n_blocks: int = 4

    @torch.no_grad()
    def __call__(
        self, users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
    ) -> Unlabelled:
        work = _Pass(self, users, items, term, bound)
        blocks = cut(len(users), self.n_users)
        for waiting in cut(len(blocks), self.n_blocks):
            work.waiting = blocks[waiting]
            for_each_block(work.one_block_of_users, work.waiting)
            for_each_block(work.one_tile_of_items, work.tiles)
        return Unlabelled(work.value, work.to_users, work.to_items)


class _Pass:
    """One pass, with its buffers; matrices have a row for every item and a column for every user.

    So a tile's rows lie together for both products with the gradient.
    """

    def __init__(
        self,
        sizes: Tiled,
        users: UserFactors,
        items: ItemFactors,
        term: UnlabelledTerm,
        bound: PerUser,
    ) -> None:
        self.users, self.items, self.term, self.bound = users, items, term, bound
        self.sizes = sizes
        self.tiles = cut(len(items), sizes.n_items)
        self.waiting: list[slice] = []
        self.value = users.new_empty(len(users))
        self.to_users, self.to_items = torch.empty_like(users), torch.zeros_like(items)
        self._scaled_users = torch.empty_like(users)  # g_u/Z_u · e_u
        n_blocks = min(sizes.n_blocks, -(-len(users) // sizes.n_users))
        n_users, n_items = min(sizes.n_users, len(users)), min(sizes.n_items, len(items))
        self._gradients = users.new_empty(n_blocks, len(items) * n_users)
        self._rooms = users.new_empty(n_blocks, 3, n_items * n_users)

    def one_block_of_users(self, block: slice) -> None:
        """R±_u, its gradient by users, and by scores but for the factor g_u/Z_u."""
        place = self.waiting.index(block)
        users, gradient = self.users[block], self._gradient(place)
        total_weight, total_loss = users.new_zeros(2, len(users))
        to_users = torch.zeros_like(users)
        for tile in self.tiles:
            items, at_tile = self.items[tile], gradient[tile]
            torch.mm(items, users.T, out=at_tile)
            weight, loss = self._differentiate(at_tile, block, tile, self._rooms[place])
            total_weight += weight
            total_loss += loss
            to_users.addmm_(at_tile.T, items)
        normaliser = self.term.normaliser(total_weight)
        value = torch.div(total_loss, normaliser, out=self.value[block])
        share = (value > self.bound[block]) / (len(self.users) * normaliser)  # g_u/Z_u
        torch.mul(to_users, share.unsqueeze(-1), out=self.to_users[block])
        torch.mul(users, share.unsqueeze(-1), out=self._scaled_users[block])

    def one_tile_of_items(self, tile: slice) -> None:
        """What the waiting blocks add to the gradient by these items."""
        for place, block in enumerate(self.waiting):
            self.to_items[tile].addmm_(self._gradient(place)[tile], self._scaled_users[block])

    def _differentiate(
        self, scores: Tensor, block: slice, tile: slice, rooms: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Σ w⁻ and Σ w⁻ℓ± of the tile; w⁻ℓ±′link′ takes the place of the scores (theory: R4)."""
        term = self.term
        for_ratio, for_slope, spare = (_front(room, scores.shape) for room in rooms)
        ratio, slope = term.link.with_slope(scores, out=(for_ratio, for_slope))
        weight = unlabelled_weight(
            term.candidates[tile].unsqueeze(-1),
            ratio,
            power=term.ratio_power,
            first=self._first_ratio(block, tile, spare),
            out=scores,
        )
        total_weight = weight.sum(0)
        loss = term.generator.unlabelled_loss(ratio, out=spare)
        total_loss = torch.mul(weight, loss, out=spare).sum(0)
        weight.mul_(term.generator.unlabelled_slope(ratio, out=spare)).mul_(slope)
        return total_weight, total_loss

    def _first_ratio(self, block: slice, tile: slice, room: Tensor) -> Tensor | None:
        first = self.term.first
        if first is None:
            return None
        scores = torch.mm(first.items[tile], first.users[block].T, out=room)
        return first.link.ratio(scores, out=room)

    def _gradient(self, place: int) -> Tensor:
        """Of a waiting block: all items by the block's users."""
        block = self.waiting[place]
        return _front(self._gradients[place], (len(self.items), block.stop - block.start))


def _front(room: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first entries of a buffer as a matrix; the last block and tile may be smaller."""
    n_rows, n_columns = shape
    return room[: n_rows * n_columns].view(n_rows, n_columns)


CACHE_SIZED = Tiled()
LARGE = Tiled(n_users=1024, n_items=16384, n_blocks=1)  # a graphics card wants few, large tiles


def tiled(
    users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
) -> Unlabelled:
    """In tiles that suit the device."""
    suited = CACHE_SIZED if users.device.type == "cpu" else LARGE
    return suited(users, items, term, bound)
