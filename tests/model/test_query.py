from __future__ import annotations

from typing import Any, Unpack, get_type_hints

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Numbers
from ratiorec.catalogue.filters import Filters
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError, UnknownIdError
from ratiorec.model.query import Ids, Query, QueryOptions, ResolvedQuery, known_indices

USERS = Vocabulary(np.array(["ann", "bob", "cid"], object), "user")
ITEMS = Vocabulary(np.array([10, 20, 30]), "item")
FILTERS = Filters(ITEMS, Attributes(3, {"price": Numbers(np.array([1.0, 2.0, 3.0]))}))


def resolved(user_ids: Ids, **options: Unpack[QueryOptions]) -> ResolvedQuery:
    return Query(**options).resolve(user_ids, users=USERS, filters=FILTERS)


def test_options_as_keywords_are_the_fields_of_a_query() -> None:
    assert get_type_hints(QueryOptions) == get_type_hints(Query)


def test_a_number_alone_is_k_and_options_change_a_query() -> None:
    assert Query.of() == Query()
    assert Query.of(7) == Query(k=7)
    assert Query.of(Query(k=7, exclude_seen=False), k=3) == Query(k=3, exclude_seen=False)
    with pytest.raises(TypeError, match="k"):
        Query.of(7, k=3)


def test_ids_to_allow_and_deny_are_read_once_and_compare_by_value() -> None:
    query = Query(allow=iter([1, 2]), deny=np.array([3]))
    assert (query.allow, query.deny) == ((1, 2), (3,))
    assert query == Query(allow=[1, 2], deny=(3,))
    assert hash(query) == hash(Query(allow=[1, 2], deny=3))
    assert Query(allow="tea").allow == ("tea",)
    assert Query(deny=[]) != Query()


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"k": 0}, "k"),
        ({"memory_mb": 0}, "memory_mb"),
        ({"memory_mb": float("nan")}, "memory_mb"),
        ({"memory_mb": float("inf")}, "memory_mb"),
        ({"on_unknown": "ignore"}, "on_unknown"),
    ],
)
def test_what_cannot_be_is_refused_when_the_query_is_made(
    options: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError, match=f"where: {where};"):
        Query(**options)
    with pytest.raises(ConfigError, match=f"where: {where};"):
        Query.of(Query(), **options)


def test_ids_become_indices_in_the_order_asked() -> None:
    found = resolved(["cid", "ann", "cid"], allow=[30, 10], deny=20)
    assert found.users.tolist() == [2, 0, 2]
    assert found.user_ids.tolist() == ["cid", "ann", "cid"]
    assert found.allow is not None
    assert found.allow.tolist() == [2, 0]
    assert found.deny is not None
    assert found.deny.tolist() == [1]


def test_what_is_not_asked_is_no_limit() -> None:
    found = resolved("ann")
    assert (found.allow, found.deny, found.new) == (None, None, None)


def test_someone_unknown_is_refused_left_out_or_kept_without_an_index() -> None:
    with pytest.raises(UnknownIdError, match="dan"):
        resolved(["ann", "dan"])
    assert resolved(["dan", "bob"], on_unknown="skip").users.tolist() == [1]
    kept = resolved(["dan", "bob"], on_unknown="fallback")
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
    found = Query(on_unknown="fallback").resolve(wanted, users=users, filters=FILTERS)
    assert found.user_ids.tolist() == kept


def test_an_unknown_item_is_refused_or_left_out() -> None:
    with pytest.raises(UnknownIdError, match="99"):
        known_indices([10, 99], ITEMS, on_unknown="raise")
    for policy in ("skip", "fallback"):
        assert known_indices([99, 30], ITEMS, on_unknown=policy).tolist() == [2]


def test_a_filter_joins_the_allowed_items() -> None:
    assert resolved([], filter="price > 1").allow.tolist() == [1, 2]
    assert resolved([], filter="price > 1", allow=[30, 10]).allow.tolist() == [2]
    assert resolved([], filter="price > 5").allow.tolist() == []


def test_queries_with_one_filter_in_two_spellings_are_equal() -> None:
    assert Query(filter="price > 1.0") == Query(filter="(price>1)")
    assert hash(Query(filter="price > 1.0")) == hash(Query(filter="(price>1)"))
    with pytest.raises(ConfigError, match="the filter cannot be read"):
        Query(filter="price >")


def test_attributes_are_equal_however_they_are_named() -> None:
    assert Query(attributes="price") == Query(attributes=["price", "price"])
    assert Query(attributes=("all",)) == Query(attributes="all") != Query()
