"""A model that would not fit into the memory is refused before any of it is taken."""

from __future__ import annotations

from ratiorec.errors import MemoryBudgetError


def require_memory(
    n_bytes: float, *, memory_mb: float, solver: str, n_items: int, instead: str
) -> None:
    """Refuse a solver whose peak would exceed the budget.

    Raises:
        MemoryBudgetError: `n_bytes` are more than `memory_mb`.
    """
    if n_bytes > memory_mb * 2**20:
        raise MemoryBudgetError(
            f"{solver} would need {n_bytes / 2**30:,.1f} GiB of memory",
            where=f"solver {solver}",
            found=f"a budget of {memory_mb / 2**10:,.1f} GiB for {n_items:,} items",
            wanted=f"{n_bytes / 2**30:,.1f} GiB or more, or {instead}",
        )
