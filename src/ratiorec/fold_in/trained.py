"""What of a model training has made, and what has come in since: kept in its card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ratiorec.errors import ModelError
from ratiorec.fold_in.choice import Rule
from ratiorec.fold_in.density_ratio import UserRisk


class Trained(NamedTuple):
    """How many items and pairs training had; the items are the first ones."""

    n_items: int
    n_pairs: int

    @classmethod
    def read(cls, card: Mapping[str, Any], *, n_items: int, n_pairs: int) -> Trained:
        """From the card of a model that has so many items and pairs now.

        Raises:
            ModelError: The card holds numbers that cannot be.
        """
        since = _number(card, "pairs_since", 0, most=n_pairs)
        return cls(_number(card, "trained_items", n_items, most=n_items), n_pairs - since)

    def written(
        self, card: Mapping[str, Any], rule: Rule | None, *, n_pairs: int
    ) -> dict[str, Any]:
        """The card of the model when it has so many pairs, with the ridge that training told."""
        since = {"pairs_since": n_pairs - self.n_pairs, "trained_items": self.n_items}
        ridge = {"fold_in": rule.kept_ridge()} if isinstance(rule, UserRisk) else {}
        return {**card, **since, **ridge}


def _number(card: Mapping[str, Any], name: str, otherwise: int, *, most: int) -> int:
    found = card.get(name, otherwise)
    if type(found) is not int or not 0 <= found <= most:
        raise ModelError(
            "the card of the model holds what cannot be",
            where=f"{name} in the card of the model",
            found=repr(found),
            wanted=f"a whole number from 0 to {most:,}",
        )
    return found
