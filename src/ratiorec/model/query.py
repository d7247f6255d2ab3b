"""A question in the outside world's ids, as the indices that ranking works with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ratiorec.data.vocabulary import OnUnknown, Vocabulary
from ratiorec.errors import ConfigError
from ratiorec.scorers import Indices
from ratiorec.scorers.user_items import UserItems

Ids = Iterable[Any] | str | int


class Request(NamedTuple):
    """Who is asked about (-1 is someone unknown), under which ids, and what may be listed."""

    users: Indices
    user_ids: NDArray[Any]
    allow: Indices | None
    deny: Indices | None


def resolve(
    user_ids: Ids,
    allow: Ids | None,
    deny: Ids | None,
    *,
    users: Vocabulary,
    items: Vocabulary,
    on_unknown: OnUnknown,
) -> Request:
    """The request in indices; an unknown user is refused, left out, or kept as -1."""
    _check_policy(on_unknown)
    wanted = _listed(user_ids)
    found = users.indices(wanted, on_unknown=on_unknown)
    if on_unknown == "skip":
        found = found[found >= 0]
    return Request(
        found,
        users.ids[found] if (found >= 0).all() else _as_ids(wanted, users),
        None if allow is None else known_indices(allow, items, on_unknown=on_unknown),
        None if deny is None else known_indices(deny, items, on_unknown=on_unknown),
    )


def resolve_histories(
    histories: Iterable[Ids], *, items: Vocabulary, on_unknown: OnUnknown
) -> UserItems:
    """Histories in indices, each sorted and without repeats.

    An unknown item is refused, or left out under either other policy; a history without any item
    is refused with it, and empty under the others.

    Raises:
        ConfigError: A history is no list, or an empty one.
        UnknownIdError: An item is unknown.
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
    _check_policy(on_unknown)
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


def _check_policy(on_unknown: str) -> None:
    if on_unknown not in get_args(OnUnknown):
        raise ConfigError(
            "no such policy for unknown ids",
            where="on_unknown",
            found=repr(on_unknown),
            wanted="one of " + ", ".join(map(repr, get_args(OnUnknown))),
        )
