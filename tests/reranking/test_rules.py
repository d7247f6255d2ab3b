from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.catalogue.expressions import Expression
from ratiorec.errors import ConfigError, UnknownChoiceError
from ratiorec.model.query import Query
from ratiorec.reranking.rules import MOST_RULES, Rules, named_rules, read_rules


def test_rules_that_say_the_same_are_equal_whatever_their_order_and_spelling() -> None:
    one = Rules(limits={"a": 1, "b": 2}, pins={"2": "tea", 1: 7}, boosts={"price<3.0": 1})
    other = Rules(
        limits=(("b", np.int64(2)), ("a", 1)), pins={1: 7, 2: "tea"}, boosts={"(price < 3)": 1.0}
    )
    assert one == other
    assert hash(Query(rules=one)) == hash(Query(rules=other))
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Rules(limits={"a": 1})


def test_boosts_that_turn_out_to_be_one_add_up() -> None:
    rules = Rules(boosts={"@cheap": 2, "price < 3": 1, "stock > 1": 1})
    cheap = {"cheap": Expression.parse("price < 3")}
    settled = rules.with_boosts(lambda boost: boost.with_named(cheap))
    assert settled == Rules(boosts={"price < 3": 3, "stock > 1": 1})


def test_no_rule_at_all_is_no_rules() -> None:
    assert Query(rules=Rules()) == Query()
    assert Query(rules=Rules(diversity=0.0, limits={})).rules is None


@pytest.mark.parametrize(
    ("rules", "where", "wanted"),
    [
        ({"limits": {"category": 0}}, "limits.category", "a whole number from 1"),
        ({"limits": {"category": True}}, "limits.category", "a whole number"),
        ({"limits": {"category": 2.5}}, "limits.category", "a whole number"),
        ({"limits": {" ": 2}}, "limits", "category"),
        ({"limits": 3}, "limits", "category"),
        ({"limits": "category"}, "limits", "category"),
        ({"limits": {str(n): 1 for n in range(MOST_RULES + 1)}}, "limits", "at most 100"),
        ({"apart": {"brand": 1}}, "apart.brand", "a whole number from 2 to 100"),
        ({"pins": {0: "tea"}}, "pins", "a whole number from 1"),
        ({"pins": {"first": "tea"}}, "pins", "a whole number from 1"),
        ({"pins": {1: None}}, "pins.1", "the id of an item"),
        ({"pins": {1: "tea", 2: "tea"}}, "pins", "each item once"),
        ({"pins": {1: "tea", "1": "jam"}}, "pins", "each name or place once"),
        ({"boosts": {"price >": 1}}, "boosts", "number"),
        ({"boosts": {"price > 1": float("nan")}}, "boosts.price > 1", "from -1000 to 1000"),
        ({"diversity": 1.5}, "diversity", "a number from 0 to 1"),
        ({"diversity": "much"}, "diversity", "a number from 0 to 1"),
        ({"calibration": {"category": -0.1}}, "calibration.category", "a number from 0 to 1"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(
    rules: dict[str, Any], where: str, wanted: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Rules(**rules)
    assert caught.value.where.startswith(where)
    assert wanted in caught.value.wanted


def test_a_query_takes_nothing_else_for_rules() -> None:
    with pytest.raises(ConfigError, match="these are no rules"):
        Query(rules={"limits": {"category": 3}})  # type: ignore[arg-type]


def test_a_file_holds_sets_of_rules_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        """
        [homepage]
        diversity = 0.3
        limits = {category = 3}
        pins = {1 = "tea", 5 = 42}
        boosts = {"stock > 10" = 0.5}

        [basket]
        apart = {brand = 2}
        """
    )
    found = read_rules(path)
    assert found == {
        "homepage": Rules(
            diversity=0.3, limits={"category": 3}, pins={1: "tea", 5: 42}, boosts={"stock>10": 0.5}
        ),
        "basket": Rules(apart={"brand": 2}),
    }
    assert named_rules(found, "basket", where="--rule") == found["basket"]
    with pytest.raises(UnknownChoiceError, match="did you mean homepage"):
        named_rules(found, "home", where="--rule")


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("diversity = 0.5", "[diversity]", "rules are a table"),
        ("[home]\nlimit = {category = 3}", "[home]", "did you mean limits"),
        ("[home]\nlimits = {category = 0}", "[home].limits.category", "whole number"),
        ("[home", "rules.toml", "cannot be read"),
    ],
)
def test_a_file_with_something_else_is_refused(
    tmp_path: Path, text: str, where: str, what: str
) -> None:
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(ConfigError, match=what) as caught:
        read_rules(tmp_path / "rules.toml")
    assert where in caught.value.where
