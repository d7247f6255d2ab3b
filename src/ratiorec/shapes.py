"""One name per tensor axis, for signatures; tests check them, production does not.

users       rows of a user table, or the users of a batch
items       rows of an item table, or the candidates of a batch
positives   the labelled pairs of a batch, listed one after another
pairs       labelled pairs that were drawn one by one, not user by user
drawn       the unlabelled items drawn for each of them
nodes       users and items of the graph in one table, users first
dim         the dimension of an embedding
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

UserFactors = Float[Tensor, "users dim"]
ItemFactors = Float[Tensor, "items dim"]
NodeFactors = Float[Tensor, "nodes dim"]
PerUser = Float[Tensor, " users"]
PerItem = Float[Tensor, " items"]
PerPositive = Float[Tensor, " positives"]
UserIndex = Int[Tensor, " users"]
ItemIndex = Int[Tensor, " items"]
PositiveIndex = Int[Tensor, " positives"]
PairIndex = Int[Tensor, " pairs"]
DrawnIndex = Int[Tensor, "pairs drawn"]
Scalar = Float[Tensor, ""]


class Embeddings(NamedTuple):
    """One vector for every user and every item; the score s(u,i) is their inner product."""

    users: UserFactors
    items: ItemFactors
