"""Exact top-k in blocks of users, under a memory budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ratiorec.errors import ConfigError, require_range
from ratiorec.machine import usable_cores
from ratiorec.scorers import FloatMatrix, Indices, Scorer
from ratiorec.scorers.scorer import Narrowable, Pairs, pairs_of

Progress = Callable[[int, int], None]
"""Told how many rows are done, and of how many."""
Pick = Callable[[Indices, FloatMatrix], "TopK"]
"""Makes the lists of users from their scores, -inf for items that may not be listed."""

_LOWEST = np.finfo(np.float32).min
_CACHED_BYTES = 2**23  # a block of scores about this large is still in the cache when it is ranked
_BYTES_PER_SCORE = 5  # the float32 score and one byte of a mask over the block
_BYTES_PER_RANK = 72  # indices, scores and sorting order of what may be among the k best
_MOST_THREADS = 8
_FEW = 0.1  # of the items: taking an item out of its tile costs as much as scoring several


class TopK(NamedTuple):
    """The k best items of each row, best first; filled up with -1 and -inf."""

    items: Indices
    scores: FloatMatrix


def top_k(scores: FloatMatrix, k: int) -> TopK:
    """The k largest scores of each row, exactly; ties go to the smaller index, -inf is left out.

    >>> top_k(np.array([[1, 3, 3, -np.inf]], np.float32), 2).items
    array([[1, 2]])
    """
    n_rows, n_items = scores.shape
    best = TopK(np.full((n_rows, k), -1, np.int64), np.full((n_rows, k), -np.inf, np.float32))
    bound = _lower_bound(scores, min(k, n_items))
    rows, items = np.divmod(np.flatnonzero(scores >= bound[:, None]), max(n_items, 1))
    values = scores[rows, items]
    if len(rows) > 4 * best.items.size:
        few = _without_late_ties(rows, values == bound[rows], k)
        rows, items, values = rows[few], items[few], values[few]
    order = np.lexsort((-values, rows))  # stable, so that equal scores stay in order of the items
    rows, items, values = rows[order], items[order], values[order]
    ranks = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = ranks < k
    best.items[rows[kept], ranks[kept]] = items[kept]
    best.scores[rows[kept], ranks[kept]] = values[kept]
    return best


def _lower_bound(scores: FloatMatrix, k: int) -> NDArray[np.float32]:
    """A bound for each row that at least k scores reach, if k of them are above -inf.

    The items fall into groups; k of the groups have a maximum that is at least the k-th largest
    maximum, so the k-th largest score is no smaller. Finding the maxima is one pass over memory.
    """
    n_rows, n_items = scores.shape
    group = min(64, n_items // (4 * k)) if k else 0
    if group < 2:
        return np.full(n_rows, _LOWEST)
    n_groups = n_items // group
    # neighbours lie in different groups, so that one vector instruction serves many groups
    maxima = scores[:, : group * n_groups].reshape(n_rows, group, n_groups).max(axis=1)
    bound: NDArray[np.float32] = np.partition(maxima, n_groups - k, axis=1)[:, n_groups - k]
    return np.maximum(bound, _LOWEST)


def _without_late_ties(rows: Indices, tied: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """Candidates without those that follow k others of the same, smallest score in their row."""
    n_tied = np.cumsum(tied)
    first = np.searchsorted(rows, rows)
    rank: Indices = n_tied - (n_tied[first] - tied[first])
    return ~tied | (rank <= k)


class Ranking(NamedTuple):
    """The best items of each user, best first; filled up with -1 and -inf."""

    users: Indices
    items: Indices
    scores: FloatMatrix

    @classmethod
    def of(cls, blocks: Iterable[Ranking], users: Indices, k: int) -> Ranking:
        """The ranking of all these users, of whom consecutive blocks are given."""
        items = np.empty((len(users), k), np.int64)
        scores = np.empty((len(users), k), np.float32)
        done = 0
        for block in blocks:
            rows = slice(done, done + len(block.users))
            items[rows], scores[rows] = block.items, block.scores
            done = rows.stop
        return cls(users, items, scores)


class Cap(NamedTuple):
    """At most so many of the items from `first` on in a list."""

    first: int
    most: int

    def among(self, items: Indices) -> Cap:
        """The same for a part of the items, ascending."""
        return self._replace(first=int(np.searchsorted(items, self.first)))

    def apply(self, scores: FloatMatrix) -> None:
        """Leave the best of these items in each row, and -inf for the others; in place."""
        capped = scores[:, self.first :]
        if capped.shape[1] <= self.most:
            return
        best = top_k(capped, self.most)
        rows, places = np.nonzero(best.items >= 0)
        capped[...] = -np.inf
        capped[rows, best.items[rows, places]] = best.scores[rows, places]


@dataclass(frozen=True)
class Exact:
    """Ranks every item for every user, block by block, inside `memory_mb`.

    The result does not depend on the memory, nor on the number of threads (by default as many
    as there are cores, at most 8). With a `cap` lists are the best that hold to it.
    """

    k: int = 20
    exclude_seen: bool = True
    memory_mb: float = 512
    n_threads: int | None = None
    cap: Cap | None = None

    def __post_init__(self) -> None:
        require_range("k", self.k, at_least=1, what="k must be positive")
        n_threads = 1 if self.n_threads is None else self.n_threads
        require_range("n_threads", n_threads, at_least=1, what="n_threads must be positive")

    def __call__(
        self,
        scorer: Scorer,
        users: Indices,
        *,
        seen: Pairs | None = None,
        allow: Indices | None = None,
        deny: Indices | None = None,
        progress: Progress | None = None,
    ) -> Ranking:
        """The ranking of all the users at once."""
        blocks = self.stream(scorer, users, seen=seen, allow=allow, deny=deny, progress=progress)
        return Ranking.of(blocks, users, self.k)

    def stream(
        self,
        scorer: Scorer,
        users: Indices,
        *,
        seen: Pairs | None = None,
        allow: Indices | None = None,
        deny: Indices | None = None,
        pick: Pick | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Ranking]:
        """The ranking in consecutive blocks of users; `allow` without `deny` may be listed.

        Lists are the k best items, or what `pick` makes of the scores.
        Where few items may be, no other is scored if the scorer can do that.
        """
        hidden = seen if self.exclude_seen else None
        blocked = blocked_items(scorer.n_items, allow, deny)
        narrow = self._narrowed(scorer, None if allow is None else blocked, is_picked=bool(pick))
        if narrow is not None:
            blocked = None
        scorer, few, cap = narrow or (scorer, None, self.cap)
        n_rows, n_threads = self._block_size(scorer.n_items)
        n_threads = min(n_threads, -(-len(users) // n_rows))
        blocks = (users[start : start + n_rows] for start in range(0, len(users), n_rows))
        buffers: SimpleQueue[FloatMatrix] = SimpleQueue()
        for _ in range(n_threads):
            buffers.put(np.empty((min(n_rows, len(users)), scorer.n_items), np.float32))

        def rank(block: Indices) -> Ranking:
            buffer = buffers.get()
            try:
                scores = scorer.scores(block, out=buffer[: len(block)])
                if hidden is not None:
                    rows, items = pairs_of(hidden, block)
                    scores[(rows, items) if few is None else few.places(rows, items)] = -np.inf
                if blocked is not None:
                    np.copyto(scores, -np.inf, where=blocked)
                if cap is not None:
                    cap.apply(scores)
                best = top_k(scores, self.k) if pick is None else pick(block, scores)
                if few is not None:
                    best = best._replace(items=few.named(best.items))
                return Ranking(block, *best)
            finally:
                buffers.put(buffer)

        done = 0
        for ranking in _in_order(rank, blocks, n_threads):
            done += len(ranking.users)
            if progress is not None:
                progress(done, len(users))
            yield ranking

    def _narrowed(
        self, scorer: Scorer, blocked: NDArray[np.bool_] | None, *, is_picked: bool
    ) -> tuple[Scorer, FewItems | None, Cap | None] | None:
        """What scores the few items that are not blocked alone, where that is less work."""
        few = None if blocked is None else few_items(scorer, blocked)
        if few is None:
            return None
        if is_picked:  # rules know items by their places among all
            return AmongAll(few, scorer.n_items), None, self.cap
        return few, few, self.cap and self.cap.among(few.items)

    def _block_size(self, n_items: int) -> tuple[int, int]:
        """Users in a block and blocks at a time: what stays in the cache, inside the budget."""
        row_bytes = _BYTES_PER_SCORE * n_items + _BYTES_PER_RANK * self.k
        n_affordable = int(self.memory_mb * 2**20) // row_bytes
        if n_affordable < 1:
            raise ConfigError(
                "the memory budget is too small to rank the items for one user",
                where="memory_mb",
                found=f"{self.memory_mb:g}",
                wanted=f"{row_bytes / 2**20:.3g} or more for {n_items:,} items and k = {self.k:,}",
            )
        n_threads = min(self.n_threads or n_cores(), max(1, n_affordable // 8))
        n_rows = min(max(8, _CACHED_BYTES // row_bytes), n_affordable // n_threads)
        return n_rows - n_rows % 8 or n_rows, n_threads  # scorers work on eight users at a time


def blocked_items(
    n_items: int, allow: Indices | None, deny: Indices | None
) -> NDArray[np.bool_] | None:
    """A mask of the items that may not be listed: all but `allow`, and those in `deny`."""
    if allow is None and deny is None:
        return None
    blocked = np.full(n_items, allow is not None)
    if allow is not None:
        blocked[allow] = False
    if deny is not None:
        blocked[deny] = True
    return blocked


def _in_order(
    work: Callable[[Indices], Ranking], blocks: Iterable[Indices], n_threads: int
) -> Iterator[Ranking]:
    """Work on several blocks at once (numpy lets go of the interpreter), results in order."""
    if n_threads <= 1:
        yield from map(work, blocks)
        return
    waiting: deque[Future[Ranking]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(work, block))
                if len(waiting) > 2 * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # the reader may have stopped early
            for future in waiting:
                future.cancel()


def n_cores() -> int:
    """The cores this process may use; beyond a few, memory is what limits ranking."""
    return min(usable_cores(), _MOST_THREADS)


@dataclass(frozen=True, eq=False)
class FewItems:
    """A scorer of some items alone, and which of all items they are, ascending."""

    scorer: Scorer
    items: Indices

    @property
    def n_users(self) -> int:
        return self.scorer.n_users

    @property
    def n_items(self) -> int:
        return len(self.items)

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        return self.scorer.scores(users, out=out)

    def places(self, rows: Indices, items: NDArray[np.int32]) -> tuple[Indices, Indices]:
        """Pairs of rows and items by the places of the items; without those that are not here."""
        places = np.searchsorted(self.items, items)
        is_here = np.append(self.items, -1)[places] == items
        return rows[is_here], places[is_here]

    def named(self, places: Indices) -> Indices:
        """The items at these places; -1 stays what it is."""
        found: Indices = np.append(self.items, -1)[places]
        return found


@dataclass(frozen=True, eq=False)
class AmongAll:
    """The scores of few items in their places among all, -inf for those that are not scored."""

    few: FewItems
    n_items: int

    @property
    def n_users(self) -> int:
        return self.few.n_users

    def scores(self, users: Indices, *, out: FloatMatrix | None = None) -> FloatMatrix:
        if out is None:
            out = np.empty((len(users), self.n_items), np.float32)
        out.fill(-np.inf)
        out[:, self.few.items] = self.few.scores(users)
        return out


def few_items(scorer: Scorer, blocked: NDArray[np.bool_]) -> FewItems | None:
    """The scorer of the items that are not blocked, where that is less work than all items."""
    if not isinstance(scorer, Narrowable):
        return None
    items = np.flatnonzero(~blocked)
    if len(items) > _FEW * scorer.n_items:
        return None
    few = scorer.for_items(items)
    return None if few is None else FewItems(few, items)
