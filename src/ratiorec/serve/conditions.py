"""What a request filters and boosts by is settled before its ranking, condition by condition."""

from __future__ import annotations

from collections.abc import Iterator

from ratiorec.catalogue.columns import Texts
from ratiorec.catalogue.conditions import Condition, leaves
from ratiorec.catalogue.expressions import Expression
from ratiorec.model.artifact import Artifact
from ratiorec.model.query import Query
from ratiorec.reranking.rules import pairs
from ratiorec.serve.models import Served
from ratiorec.serve.ranking import RankingQueue

_AT_ONCE = 2**17  # values that are looked at within the ranking: some 10 ms where they are texts
_LONG = 2**21  # texts beyond which a request counts as a long one


async def settle(queue: RankingQueue, model: Served, query: Query) -> None:
    """Find and remember the items that the conditions of a query keep, unless they are known.

    Other requests go between two conditions.
    """
    artifact = model.artifact
    pending = _pending(artifact, query)
    n_conditions = sum(one.n_conditions for one in pending)
    if n_conditions * len(artifact.items) > _AT_ONCE:
        is_long = _n_of_texts(artifact, pending) * len(artifact.items) > _LONG
        await queue.steps(_steps(artifact, query), n_conditions + 1, is_long=is_long)


def _pending(artifact: Artifact, query: Query) -> list[Expression]:
    """The expressions of a query, without names, of which it is not known what they keep."""
    asked = [query.filter] if isinstance(query.filter, Expression) else []
    if query.rules is not None and not artifact.shelf.has_shift(pairs(query.rules.boosts)):
        asked += query.rules.conditions
    whole = [one.with_named(artifact.filters.named) for one in asked]
    return [one for one in whole if not artifact.filters.remembers(one)]


def _n_of_texts(artifact: Artifact, expressions: list[Expression]) -> int:
    """How many conditions go through texts; ids and titles, which the table need not have, are."""
    columns = artifact.item_table.columns
    return sum(
        isinstance(leaf, Condition) and isinstance(columns.get(leaf.column), Texts | None)
        for one in expressions
        for leaf in leaves(one.root)
    )


def _steps(artifact: Artifact, query: Query) -> Iterator[None]:
    if query.rules is not None:
        yield from artifact.shelf.shift_in_steps(pairs(query.rules.boosts))
    if isinstance(query.filter, Expression):  # last, so that it is still remembered
        yield from artifact.filters.kept_in_steps(query.filter)
