"""Losses: what training minimises, on batches of users or of pairs (the paper says risk).

A loss is one file of this folder: a frozen dataclass with a name, whose fields are its settings
and whose call is its value. Settings must load without torch, so a loss imports torch inside its
functions and leaves heavy sums to `ratiorec.kernels`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from ratiorec.shapes import Embeddings, Scalar


class Loss(ABC):
    """What training minimises; a subclass is a frozen dataclass and may come from anywhere.

    `name` stands for the loss in settings and saved models. `needs` says what it is called with:
    batches of "users" with all their positives, or of "pairs" with sampled negatives. A loss that
    `uses_weights` counts a pair by its weight in the batch. One that `supports_cuda_graph` never
    waits for the device (`.item()`, a boolean index), and ignores candidates with inclusion 0 and
    positives whose row lies behind the last user: then a GPU replays recorded steps of one shape.
    One that `adds_up_over_users` gives what the users listed in a batch add to the mean over the
    whole of it (`Batch.mean`), so that processes may share a batch.
    """

    name: ClassVar[str]
    needs: ClassVar[Literal["users", "pairs"]] = "users"
    uses_weights: ClassVar[bool] = False
    supports_cuda_graph: ClassVar[bool] = False
    adds_up_over_users: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, embeddings: Embeddings, batch: Any) -> Scalar:
        """The loss of a batch, given the vectors of its users, row by row, and of all items."""


def losses() -> dict[str, type[Loss]]:
    """Every loss in this folder, by its name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    here = (cls for cls in Loss.__subclasses__() if cls.__module__.startswith(f"{__name__}."))
    return {cls.name: cls for cls in sorted(here, key=lambda cls: cls.name)}
