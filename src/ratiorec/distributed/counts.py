"""What a training by several processes holds, sends and does, counted from the code of `shards`.

It needs no torch, so that a plan can be made anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ratiorec.encoders.settings import LightGCN
from ratiorec.errors import ConfigError, require_range
from ratiorec.losses.softmax import Softmax
from ratiorec.settings import Settings, UserBatches

Kind = Literal["cpu", "cuda"]
Bytes = dict[str, int]
"""Bytes by what they hold."""
Work = dict[str, float]
"""Work of a rank in a step, by kind; a `PlannedDevice` has a rate for each."""

FLOAT = INT = 4
LONG = 8
_TILE_USERS, _TILE_ITEMS, _BLOCKS = 96, 2048, 2  # of the tiled backends, on a CPU
_TRITON_SUMS = 2 * 96 * 2**20  # of the unlabelled term on a GPU, at most
_TRITON_CHUNK = 2**23 * 2  # probabilities of the softmax in 16 bits
_TABLES_OF_ADAM = 2
LARGEST_INDEX = 2**31 - 1  # indices are of 32 bits


@dataclass(frozen=True)
class SharedTraining:
    """A training by `n_ranks` processes; what is counted is the largest share of any of them.

    Pairs are taken to be spread evenly over users and items, which for items is the worst case: a
    batch then has the most candidates.
    """

    n_users: int
    n_items: int
    n_pairs: int
    dimension: int
    n_layers: int
    n_ranks: int
    batch_size: int
    loss: str  # the name of a loss on batches of users
    normalize: bool = False
    self_loops: bool = False

    @classmethod
    def of(cls, settings: Settings, **sizes: int) -> SharedTraining:
        """The training of these settings at these sizes.

        Raises:
            ConfigError: A size is too large, there are more processes than users, or more pairs
                than places for them.
        """
        encoder, batches = settings.encoder, settings.batches
        assert isinstance(encoder, LightGCN)
        assert isinstance(batches, UserBatches)
        n_users, n_ranks = sizes["n_users"], sizes["n_ranks"]
        for where, size in (("--users", n_users), ("--items", sizes["n_items"])):
            require_range(
                where, size, at_least=1, below=LARGEST_INDEX, what="more than can be numbered"
            )
        if n_ranks > n_users:
            raise ConfigError(
                "there are fewer users than processes",
                where="--n",
                found=f"{n_ranks:,} processes for {n_users:,} users",
                wanted=f"{n_users:,} or fewer",
            )
        most = n_users * sizes["n_items"]
        if sizes["n_pairs"] > most:
            raise ConfigError(
                "more pairs than users and items can make",
                where="--pairs",
                found=f"{sizes['n_pairs']:,}",
                wanted=f"{most:,} or fewer",
            )
        return cls(
            **sizes,
            dimension=encoder.dimension,
            n_layers=encoder.n_layers,
            batch_size=batches.batch_size(min(n_users, sizes["n_pairs"])),
            loss=settings.risk.name,
            normalize=encoder.normalize,
            self_loops=encoder.self_loops,
        )

    @property
    def n_steps(self) -> int:
        """Batches in an epoch."""
        return -(-min(self.n_users, self.n_pairs) // self.batch_size)

    @property
    def own_users(self) -> int:
        """Users of a rank; the last may have fewer."""
        return -(-self.n_users // self.n_ranks)

    @property
    def own_items(self) -> int:
        """Rows of the items' table that a rank has."""
        return -(-self.n_items // self.n_ranks)

    @property
    def own_pairs(self) -> int:
        """Pairs of a rank's users."""
        return -(-self.n_pairs * self.own_users // self.n_users)

    @property
    def own_batch(self) -> int:
        """Users of a batch that are a rank's."""
        return -(-self.batch_size // self.n_ranks)

    @property
    def own_positives(self) -> int:
        """Pairs of these users."""
        return round(self.own_batch * self.n_pairs / self.n_users)

    @property
    def n_candidates(self) -> int:
        """Items that any user of a batch has."""
        n_drawn = self.batch_size * self.n_pairs / self.n_users
        missed: float = (1 - 1 / self.n_items) ** n_drawn
        return max(1, round(self.n_items * (1 - missed)))

    @property
    def n_scored(self) -> int:
        """Items that a user of the batch is scored with."""
        return self.n_items if self.loss == Softmax.name else self.n_candidates

    @property
    def own_table(self) -> int:
        """Numbers in a rank's rows of both tables."""
        return (self.own_users + self.own_items) * self.dimension

    @property
    def all_items(self) -> int:
        """Numbers in the gathered table of items, of equal parts."""
        return self.own_items * self.n_ranks * self.dimension

    # ---------------------------------------------------------------- what is exchanged

    @property
    def bytes_sent(self) -> int:
        """What a rank sends in a step, as `Ranks.n_bytes` counts it."""
        return self.bytes_of_tables + self.bytes_of_marks + 2 * FLOAT * self._n_totals

    @property
    def bytes_of_tables(self) -> int:
        """Of vectors, between devices: both passes gather and scatter, in layers and at the end."""
        rows = (self.n_ranks - 1) * self.own_items * self.dimension
        return FLOAT * rows * (4 * self.n_layers + 2)

    @property
    def bytes_of_marks(self) -> int:
        """Of which items came up, between hosts."""
        return 2 * self.n_items

    @property
    def n_messages(self) -> int:
        """How often ranks have to wait for each other in a step."""
        return 4 * self.n_layers + 2 + 1 + self._n_totals

    @property
    def _n_totals(self) -> int:
        """Numbers that are added up: the loss, and of the softmax what its weights sum to."""
        return 2 if self.loss == Softmax.name else 1

    # ---------------------------------------------------------------- what is held

    def graph(self, kind: Kind) -> int:
        """The rows and columns of Â of a rank's users, and the weights of its loops."""
        values, columns = FLOAT * self.own_pairs, INT * self.own_pairs
        loops = FLOAT * (self.own_users + self.own_items)
        if not self.n_layers:
            return 0
        if kind == "cpu":  # the columns of one direction are the pairs themselves
            return 2 * values + columns + loops + INT * (self.own_users + self.n_items)
        starts = INT * (self.own_users + 1 + self.n_items + 1)
        return 2 * (values + columns) + loops + starts

    def tables(self) -> Bytes:
        """What stays on the device from the first step to the last."""
        own = FLOAT * self.own_table
        return {"tables": own, "optimiser": _TABLES_OF_ADAM * own}

    def batch(self) -> int:
        """The tensors of a batch."""
        per_user, per_candidate, per_positive = LONG + FLOAT, LONG + 2 * FLOAT, 2 * LONG
        return (
            per_user * self.own_batch
            + per_candidate * self.n_candidates
            + per_positive * self.own_positives
        )

    def host(self) -> Bytes:
        """What every process has in the memory of the host: it reads all pairs, and keeps them."""
        pairs = INT * self.n_pairs + LONG * (self.n_users + 1)
        ids = LONG * (self.n_users + self.n_items)  # of integers; text takes ten times as much
        own = LONG * (2 * self.own_users + 1 + 2 * self.n_items)  # places, and degrees
        everyone = 2 * LONG * self.n_users  # who has pairs, and the order of an epoch
        dealing = (3 * LONG + 2) * self.n_items + 4 * LONG * self.own_positives
        return {
            "pairs": pairs,
            "ids": ids,
            "degrees and order of users": own + everyone,
            "dealing a batch": dealing,
        }

    def joining(self) -> int:
        """What the first process takes once more at the end, when it puts the model together."""
        vectors = self.n_users * self.dimension
        return FLOAT * (2 * vectors + self.n_items * self.dimension)

    def buffers(self, kind: Kind) -> Bytes:
        """What the most expensive moment of a step takes beyond what stays.

        `gathered items` are tables of all items, whole or as parts of sums.
        """
        moments = (
            self._scoring(kind),
            self._gradient_of_items(kind),
            self._normalizing(),
            self._propagating(kind),
        )
        return max(moments, key=lambda moment: sum(moment.values()))

    @property
    def _directions(self) -> int:
        """What cosines keep for the way back: the vectors, and two numbers of each."""
        rows = self.own_users + self.own_items
        return self.own_table + 2 * rows if self.normalize else 0

    def _scattering(self, kind: Kind) -> int:
        """Beyond the sums themselves: padded and sent copies, and the own rows."""
        padded = self.all_items if self.n_items % self.n_ranks else 0
        sent = self.all_items if kind == "cpu" and self.n_ranks > 1 else 0  # gloo's own
        return padded + sent + self.own_items * self.dimension

    def _propagating(self, kind: Kind) -> Bytes:
        """The way back through the layers, beside the gradients of the penalty."""
        table, users = self.own_table, self.own_users * self.dimension
        sums = self.n_items * self.dimension
        before = table if self.n_layers > 1 else 0
        copied = self.all_items if kind == "cpu" else 0  # what gloo receives into
        again = 1 if kind == "cpu" else 2  # torch's product on a GPU holds its result twice
        gather = self.all_items + max(copied, again * users)
        scatter = users + max(again * sums, sums + self._scattering(kind))
        if not self.n_layers:
            return {"gradients": 2 * FLOAT * table}
        layer = before + (0 if gather > scatter else users)
        rest = gather if gather > scatter else scatter - users
        return {
            "gradients": 2 * FLOAT * table,
            "layers": FLOAT * (table + layer),
            "gathered items": FLOAT * rest,
        }

    def _normalizing(self) -> Bytes:
        """The way back from cosines, beside the gradients of the penalty and what was kept."""
        if not self.normalize:
            return {}
        users, items = self.own_users * self.dimension, self.own_items * self.dimension
        # of the larger table five: its gradient, by vectors, and what that by lengths is made of
        here = 5 * max(users, items) + min(users, items)
        return {"gradients": FLOAT * (self.own_table + self._directions + here)}

    def _gradient_of_items(self, kind: Kind) -> Bytes:
        """The gradient of all items, which becomes a sum over ranks."""
        whole, users = self.n_items * self.dimension, self.own_users * self.dimension
        listed = self.n_scored * self.dimension
        positives = self.own_positives * self.dimension
        adding = listed + (listed if self.n_scored == self.n_items else 0) + positives
        items = whole + max(adding, self._scattering(kind))
        return {
            "gradients": FLOAT * (self.own_table + users + self._directions),
            "gathered items": FLOAT * items,
        }

    def _scoring(self, kind: Kind) -> Bytes:
        """The loss, whose gradient by vectors is known with its value."""
        batch, scored = self.own_batch * self.dimension, self.n_scored * self.dimension
        copied = scored if self.n_scored < self.n_items or self.loss != Softmax.name else batch
        on_gpu = 0 if kind == "cpu" else (batch + scored) * FLOAT // 2  # copies in 16 bits
        positives = 2 * self.own_positives * self.dimension if kind == "cpu" else 0
        return {
            "gradients": FLOAT * self._directions,
            "gathered items": FLOAT * self.all_items,
            "scores and positives": FLOAT * (copied + scored + 3 * batch + positives)
            + FLOAT * 12 * self.own_positives
            + self._tiles(kind)
            + on_gpu,
        }

    def _tiles(self, kind: Kind) -> int:
        if kind == "cuda":
            return _TRITON_CHUNK if self.loss == Softmax.name else _TRITON_SUMS
        n_users = min(_TILE_USERS, self.own_batch)
        n_blocks = min(_BLOCKS, -(-self.own_batch // _TILE_USERS))
        rooms = 0 if self.loss == Softmax.name else 3 * min(_TILE_ITEMS, self.n_scored)
        return FLOAT * n_blocks * n_users * (self.n_scored + rooms)

    # ---------------------------------------------------------------- what is done

    def work(self) -> Work:
        """The work of a rank in a step, in numbers or pairs that are touched."""
        scored = float(self.own_batch) * self.n_scored
        table, everything = float(self.own_table), float(self.all_items)
        n_layers = self.n_layers
        layers = 2 * (4 + 7 * n_layers) * table  # both ways: begin, add up, divide
        whole = (2 * (4 * n_layers + 2) + 3) * everything
        return {
            "products": scored * self.dimension,
            f"{self.loss} of pairs": scored,
            "neighbours": 4.0 * n_layers * self.own_pairs * self.dimension,
            "rows": 10 * table + layers + whole,
            "positives": float(self.own_positives) * self.dimension,
            "dealt pairs": float(self.own_positives),
            "items to deal": float(self.n_items),
            "steps": 1.0,
        }
