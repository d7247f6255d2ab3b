from __future__ import annotations

import numpy as np
import pytest

from ratiorec.config import resolve
from ratiorec.data.vocabulary import OnUnknown, Vocabulary
from ratiorec.errors import ConfigError, UnknownIdError
from ratiorec.model.query import Ids, Request, known_indices

USERS = Vocabulary(np.array(["ann", "bob", "cid"], object), "user")
ITEMS = Vocabulary(np.array([10, 20, 30]), "item")


def asked(
    user_ids: Ids,
    *,
    allow: Ids | None = None,
    deny: Ids | None = None,
    on_unknown: OnUnknown = "raise",
) -> Request:
    return resolve(user_ids, allow, deny, users=USERS, items=ITEMS, on_unknown=on_unknown)


def test_ids_become_indices_in_the_order_asked() -> None:
    request = asked(["cid", "ann", "cid"], allow=[30, 10], deny=20)
    assert request.users.tolist() == [2, 0, 2]
    assert request.user_ids.tolist() == ["cid", "ann", "cid"]
    assert request.allow is not None
    assert request.allow.tolist() == [2, 0]
    assert request.deny is not None
    assert request.deny.tolist() == [1]


def test_what_is_not_asked_is_no_limit() -> None:
    assert asked("ann")[2:] == (None, None)


def test_someone_unknown_is_refused_left_out_or_kept_without_an_index() -> None:
    with pytest.raises(UnknownIdError, match="dan"):
        asked(["ann", "dan"])
    assert asked(["dan", "bob"], on_unknown="skip").users.tolist() == [1]
    kept = asked(["dan", "bob"], on_unknown="fallback")
    assert kept.users.tolist() == [-1, 1]
    assert kept.user_ids.tolist() == ["dan", "bob"]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (["007"], ["007"]),
        (["007", 7], ["007", "7"]),
        (["1_0", " 10"], ["1_0", " 10"]),
        ([3.5], ["3.5"]),
        ([2**63, 10], [str(2**63), "10"]),
        (["7", 8.0, np.int64(9), 10], [7, 8, 9, 10]),
    ],
)
def test_an_unknown_id_is_never_turned_into_another(
    wanted: list[object], kept: list[object]
) -> None:
    users = Vocabulary(np.array([7, 10]), "user")
    request = resolve(wanted, None, None, users=users, items=ITEMS, on_unknown="fallback")
    assert request.user_ids.tolist() == kept


def test_an_unknown_item_is_refused_or_left_out() -> None:
    with pytest.raises(UnknownIdError, match="99"):
        known_indices([10, 99], ITEMS, on_unknown="raise")
    for policy in ("skip", "fallback"):
        assert known_indices([99, 30], ITEMS, on_unknown=policy).tolist() == [2]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"found: 'ignore'; wanted: one of 'raise'"):
        asked("ann", on_unknown="ignore")  # type: ignore[arg-type]
