"""What this machine gives: operations of a large matrix product, bytes of a large copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ratiorec_lab.bench.conditions import Effort
from ratiorec_lab.bench.timing import Times, Way, Work, once, timed

_ON_CARD = 4  # a card's product and copy must be larger to take long enough


class Stage(NamedTuple):
    """Operations, and bytes that must come from memory or go there; the two may overlap."""

    n_operations: float
    n_bytes: float


@dataclass(frozen=True)
class Floor:
    """What cannot be done without, in stages of which each needs what the one before has made."""

    stages: tuple[Stage, ...] = ()

    @classmethod
    def of(cls, *, n_operations: float = 0.0, n_bytes: float = 0.0) -> Floor:
        """A single stage."""
        return cls((Stage(n_operations, n_bytes),))

    @property
    def n_operations(self) -> float:
        return sum(stage.n_operations for stage in self.stages)

    @property
    def n_bytes(self) -> float:
        return sum(stage.n_bytes for stage in self.stages)

    def times(self, n: float) -> Floor:
        """The same n times over."""
        return Floor(tuple(Stage(n * a, n * b) for a, b in self.stages))

    def then(self, other: Floor) -> Floor:
        """This, and after it the other."""
        return Floor(self.stages + other.stages)


@dataclass(frozen=True)
class Ceilings:
    """Rates measured beside the cases, in the same rounds.

    `products` has one rate for each precision of a product; sums are in float32 in all of them.
    """

    products: Mapping[str, float]
    bytes_per_second: float

    @property
    def operations_per_second(self) -> float:
        """The fastest product: a floor must lie below whatever is possible."""
        return max(self.products.values())

    def seconds(self, floor: Floor) -> float:
        """The time of a floor: of operations and bytes of a stage the longer one counts.

        >>> Ceilings({"float32": 10.0}, 5.0).seconds(Floor.of(n_operations=20, n_bytes=15))
        3.0
        """
        rates = self.operations_per_second, self.bytes_per_second
        return sum(max(stage[0] / rates[0], stage[1] / rates[1]) for stage in floor.stages)

    def to_json(self) -> dict[str, Any]:
        """The rates in plain types."""
        return {
            "operations_per_second": _rounded(self.operations_per_second),
            "bytes_per_second": _rounded(self.bytes_per_second),
            "products": {name: _rounded(rate) for name, rate in self.products.items()},
        }


class Gauge:
    """The work that finds the ceilings of a device, to be timed among the cases.

    On a processor with all threads that torch has when this is made, whatever the cases use.
    """

    def __init__(self, device: torch.device, effort: Effort) -> None:
        self._device = device
        self._n_threads = torch.get_num_threads()
        scale = _ON_CARD if device.type == "cuda" else 1
        self._n_rows = scale * effort.product_size
        precisions = [torch.float32] + [torch.bfloat16] * (device.type == "cuda")
        self._squares = {
            str(dtype).removeprefix("torch."): torch.randn(
                self._n_rows, self._n_rows, device=device
            ).to(dtype)
            for dtype in precisions
        }
        self._outputs = {name: torch.empty_like(square) for name, square in self._squares.items()}
        # ones, since memory of zeros that nobody has written to is not there yet
        self._source = torch.ones(scale * effort.copied_bytes // 4, device=device)
        self._target = torch.ones_like(self._source)
        self._pauses: dict[str, list[float]] = {}

    def ways(self) -> dict[str, Way]:
        """To be timed in turns with the cases."""
        works = {self._product(name): self._multiplied(name) for name in self._squares}
        works[self._copy] = once(lambda: self._target.copy_(self._source))
        return {name: Way(work, self._all_threads, self._device) for name, work in works.items()}

    def __call__(self) -> None:
        """Time everything once, in a pause of a long run."""
        for name, way in self.ways().items():
            self._pauses.setdefault(name, []).append(timed(way))

    def ceilings(self, times: Mapping[str, Times] | None = None) -> Ceilings:
        """The rates, by these times or by those of the pauses."""
        if times is None:
            times = {name: Times(tuple(rounds)) for name, rounds in self._pauses.items()}
        n_operations, n_bytes = 2 * self._n_rows**3, 2 * self._source.nbytes
        return Ceilings(
            {name: n_operations / times[self._product(name)].median for name in self._squares},
            n_bytes / times[self._copy].median,
        )

    def _product(self, precision: str) -> str:
        return f"{precision} product on {self._device}"

    @property
    def _copy(self) -> str:
        return f"copy on {self._device}"

    def _multiplied(self, precision: str) -> Work:
        square, output = self._squares[precision], self._outputs[precision]
        return once(lambda: torch.mm(square, square, out=output))

    @contextmanager
    def _all_threads(self) -> Iterator[None]:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(self._n_threads)
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)


def _rounded(rate: float) -> float:
    return float(f"{rate:.4g}")
