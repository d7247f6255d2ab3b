"""What every execution of the unlabelled term takes and gives."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ratiorec.risk.fused.term import UnlabelledTerm
from ratiorec.shapes import ItemFactors, PerUser, UserFactors


class Unlabelled(NamedTuple):
    """The term of every user, and the gradient of Σ_u g_u R±_u (theory: R23).

    g_u is 1/|U_B| where R±_u is above its bound and 0 elsewhere: the clamp is known as soon as
    the value is, so value and gradient need not be two calls.
    """

    value: PerUser  # R±_u
    to_users: UserFactors
    to_items: ItemFactors


class Execution(Protocol):
    """A way to compute the term; none keeps anything for a backward pass."""

    def __call__(
        self, users: UserFactors, items: ItemFactors, term: UnlabelledTerm, bound: PerUser
    ) -> Unlabelled:
        """R±_u, and its gradient where it is above `bound`."""
