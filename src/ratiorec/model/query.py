"""Queries: the options of a request for lists, and their form in the indices of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.expressions import Expression
from ratiorec.catalogue.filters import Filters
from ratiorec.data.vocabulary import OnUnknown, Vocabulary
from ratiorec.errors import ConfigError, require_range, unknown_choice
from ratiorec.reranking.rules import Rules
from ratiorec.scorers import Indices, Scorer
from ratiorec.scorers.scorer import UserItems

Ids = Iterable[Any] | str | int


class QueryOptions(TypedDict, total=False):
    """The fields of a `Query`, for functions that take them as keyword arguments."""

    k: int
    exclude_seen: bool
    allow: Ids | None
    deny: Ids | None
    on_unknown: OnUnknown
    memory_mb: float
    rules: Rules | None
    filter: str | Expression | None
    attributes: Sequence[str]
    max_cold: int | None


@dataclass(frozen=True)
class Query:
    """Options of a request for lists: the same in Python, on the command line, in bulk, by HTTP.

    Attributes:
        k: Items in a list, at most.
        exclude_seen: Leave out the items a user has interacted with in training.
        allow: List only these items.
        deny: List none of these items, even if allowed.
        on_unknown: What to do about an unknown id: "raise"; "skip", leave it out; or "fallback",
            give an unknown user the items with most users, the score being how many that are.
            Unknown items in `allow` follow the same word; those in `deny` are never listed anyway.
        memory_mb: The memory that ranking may use.
        rules: What else is wanted of a list: limits, pins, boosts, diversity, calibration.
        filter: List only items of which this expression over their attributes is true, such as
            `kind in ["tea", "jam"] and price < 50`.
        attributes: Columns of the item table to give with each listed item; ("all",) for all.
        max_cold: Items in a list, at most, that are there by their content alone, as nobody has
            had them; where it is left, a tenth of its places (of k, or of all items where these are
            fewer), but one at least.
    """

    k: int = 20
    exclude_seen: bool = True
    allow: Ids | None = None
    deny: Ids | None = None
    on_unknown: OnUnknown = "raise"
    memory_mb: float = 512
    rules: Rules | None = None
    filter: str | Expression | None = None
    attributes: Sequence[str] = ()
    max_cold: int | None = None

    def __post_init__(self) -> None:
        require_range("k", self.k, at_least=1, what="k must be positive")
        require_range("memory_mb", self.memory_mb, above=0, what="ranking needs memory")
        if self.max_cold is not None:
            _check_max_cold(self.max_cold)
        _check_policy(self.on_unknown)
        _check_rules(self.rules)
        if not self.rules:  # none at all are equal to no rules
            object.__setattr__(self, "rules", None)
        for name in ("allow", "deny"):  # as tuples: read once, and equal where the ids are
            ids = getattr(self, name)
            object.__setattr__(self, name, None if ids is None else tuple(_listed(ids)))
        named = [self.attributes] if isinstance(self.attributes, str) else self.attributes
        object.__setattr__(self, "attributes", tuple(dict.fromkeys(named)))
        if isinstance(self.filter, str):
            object.__setattr__(self, "filter", Expression.parse(self.filter))

    @classmethod
    def of(cls, query: Query | int | None = None, **options: Unpack[QueryOptions]) -> Query:
        """A query with these options changed; a number alone is k.

        >>> Query.of(Query(k=5), exclude_seen=False) == Query.of(5, exclude_seen=False)
        True
        """
        if isinstance(query, Query):
            return replace(query, **options)
        if query is None:
            return cls(**options)
        return cls(query, **options)  # type: ignore[misc]  # k twice is refused, as it should be

    def most_cold(self, length: int) -> int:
        """Cold items, at most, in a list of so many places."""
        return max(1, length // 10) if self.max_cold is None else self.max_cold

    def resolve(self, user_ids: Ids, *, users: Vocabulary, filters: Filters) -> ResolvedQuery:
        """The query in indices; an unknown user is refused, left out, or kept as -1."""
        items = filters.items
        wanted = _listed(user_ids)
        found = users.indices(wanted, on_unknown=self.on_unknown)
        if self.on_unknown == "skip":
            found = found[found >= 0]
        # a list of what is sold out always has items that a model has never seen
        policies: tuple[tuple[Ids | None, OnUnknown], ...] = (
            (self.allow, self.on_unknown),
            (self.deny, "skip"),
        )
        allow, deny = (
            None if ids is None else known_indices(ids, items, on_unknown=policy)
            for ids, policy in policies
        )
        if self.filter is not None:
            assert isinstance(self.filter, Expression)
            kept = filters.kept(self.filter)
            allow = kept if allow is None else np.intersect1d(kept, allow)
        ids = users.ids[found] if (found >= 0).all() else _as_ids(wanted, users)
        described = filters.table.asked_for(self.attributes, where="attributes")
        return ResolvedQuery(found, ids, allow, deny, described)


class ResolvedQuery(NamedTuple):
    """Users, their ids, the allowed and denied items, as indices, and what is given with each item.

    A user of -1 is unknown, and -2 - j is one of whom only attributes are known: the j-th of `new`.
    """

    users: Indices
    user_ids: NDArray[Any]
    allow: Indices | None
    deny: Indices | None
    attributes: Attributes
    new: Scorer | None = None


def resolve_histories(
    histories: Iterable[Ids], *, items: Vocabulary, on_unknown: OnUnknown
) -> UserItems:
    """Histories in indices, each sorted and without repeats.

    An unknown item is refused, or left out under either other policy; a history without any item
    is refused with it, and empty under the others.
    """
    _check_policy(on_unknown)
    rows = [_history(ids, items, place, on_unknown) for place, ids in enumerate(histories)]
    indptr = np.cumsum([0, *map(len, rows)])
    return UserItems(indptr, np.concatenate([np.zeros(0, np.int32), *rows]))


def _history(ids: Ids, items: Vocabulary, place: int, on_unknown: OnUnknown) -> NDArray[np.int32]:
    if isinstance(ids, str | int | np.integer):
        raise ConfigError(
            "a history is a list of items",
            where=f"histories[{place}]",
            found=repr(ids),
            wanted=f"[{ids!r}], or [[…]] for one user with several items",
        )
    found = np.unique(known_indices(ids, items, on_unknown=on_unknown))
    if on_unknown == "raise" and not len(found):
        raise ConfigError(
            "a history is empty",
            where=f"histories[{place}]",
            found="no item",
            wanted='one item or more, on_unknown="skip" for no list, or "fallback" for what is '
            "popular",
        )
    return found.astype(np.int32)


def known_indices(ids: Ids, vocabulary: Vocabulary, *, on_unknown: OnUnknown) -> Indices:
    """The indices of ids; an unknown one is refused, or left out under either other policy."""
    found = vocabulary.indices(_listed(ids), on_unknown=on_unknown)
    return found[found >= 0]


def _listed(ids: Ids) -> Any:
    """The ids as a list or an array; a lone one is a list of one and text is not taken apart."""
    if isinstance(ids, str | int | np.integer):
        return [ids]
    return ids if isinstance(ids, np.ndarray) else list(ids)


def _as_ids(wanted: Sequence[Any], users: Vocabulary) -> NDArray[Any]:
    """Ids that may be unknown, as numbers where all are numbers of this vocabulary, else as text.

    Text that only resembles a number stays text: «007» is not the user 7.
    """
    natives = [users.native(identifier) for identifier in wanted]
    if users.ids.dtype == np.int64 and all(_is_int64(identifier) for identifier in natives):
        return np.array(natives, np.int64)
    return np.array([str(identifier) for identifier in natives], object)


def _is_int64(identifier: Any) -> bool:
    return type(identifier) is int and -(2**63) <= identifier < 2**63


def _check_rules(rules: Any) -> None:
    if not isinstance(rules, Rules | None):
        raise ConfigError(
            "these are no rules",
            where="rules",
            found=repr(rules),
            wanted='Rules(…), as Rules(limits={"category": 3})',
        )


def _check_max_cold(max_cold: Any) -> None:
    if not isinstance(max_cold, int | np.integer) or max_cold < 0:
        raise ConfigError(
            "no such number of cold items",
            where="max_cold",
            found=repr(max_cold),
            wanted="a whole number, 0 or more, or None for a tenth of the list",
        )


def _check_policy(on_unknown: str) -> None:
    if on_unknown not in get_args(OnUnknown):
        what = "no such policy for unknown ids"
        raise unknown_choice(what, on_unknown, get_args(OnUnknown), where="on_unknown")
