"""Expressions: a plain evaluator, row by row, agrees with the masks of columns."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers, Tags, Texts
from ratiorec.catalogue.expressions import (
    DEEPEST,
    MOST_CHARACTERS,
    MOST_CONDITIONS,
    MOST_CONTAINS,
    MOST_VALUES,
    Expression,
)
from ratiorec.errors import ConfigError
from support.random_expressions import COLUMNS, random_expression, random_table


def test_200_random_expressions_equal_brute_force() -> None:
    rng = random.Random(0)
    n_true = 0
    for _ in range(200):
        table = random_table(rng)
        text, truth = random_expression(rng, COLUMNS)
        expression = Expression.parse(text)
        expected = [truth(row) for row in table.rows(range(table.n_rows))]
        assert expression.mask(table).tolist() == expected, text
        again = Expression.parse(str(expression))
        assert again == expression, text
        assert str(again) == str(expression)
        n_true += sum(expected)
    assert 2000 < n_true < 6000  # neither all nor nothing


def mask(text: str) -> list[bool]:
    texts = np.array(["Green tea", None, "jam"], object)
    table = Attributes(
        3,
        {
            "price": Numbers(np.array([10, np.nan, 60.0])),
            "kind": Categories.of(["tea", None, "jam"]),
            "labels": Tags.of([["organic", "fair"], [], ["fair"]]),
            "title": Texts(texts),
        },
    )
    return Expression.parse(text).mask(table).tolist()


def test_missing_values_answer_no_comparison_and_not_is_plain() -> None:
    assert mask("price != 10") == [False, False, True]
    assert mask("not price = 10") == [False, True, True]
    assert mask('kind not in ["tea"]') == [False, False, True]
    assert mask('not title contains "TEA"') == [False, True, True]


def test_and_binds_before_or_and_not_before_both() -> None:
    assert mask('price < 0 and price < 0 or kind == "tea"') == [True, False, False]
    assert mask('price < 0 and (price < 0 or kind == "tea")') == [False, False, False]
    assert mask('not price < 50 and kind == "jam"') == [False, False, True]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=1.50", "a == 1.5"),
        ("a in [3, 1, 3]", "a in [1, 3]"),
        ('a in ["x"]', 'a == "x"'),
        ('NOT(a = true) OR b = FALSE', "not a == 1 or b == 0"),
        ("(a > 1 and (b > 1 and c > 1))", "a > 1 and b > 1 and c > 1"),
        ("a > 1 and (b > 1 or c > 1)", "a > 1 and (b > 1 or c > 1)"),
        ("`a``b` is missing and @sale", "`a``b` is missing and @sale"),
        ('t has all ["x"]', 't has "x"'),
    ],
)  # fmt: skip
def test_an_expression_has_one_form(text: str, canonical: str) -> None:
    assert str(Expression.parse(text)) == canonical
    assert Expression.parse(canonical) == Expression.parse(text)


@pytest.mark.parametrize(
    ("text", "place", "found", "wanted"),
    [
        ("", 1, "the end", "the name of a column"),
        ("price", 6, "the end", "not in, has, contains or is"),
        ("price <", 8, "the end", "a number, or a text"),
        ('price < "x"', 9, "at the ^ in price < ^", "only numbers are larger"),
        ("price < 5 kind", 11, "'kind'", '"and" or "or"'),
        ("(price < 5", 11, "the end", 'a closing ")"'),
        ('kind = "tea', 8, "'\"'", 'a closing "'),
        ("kind in 5", 9, "'5'", 'as ["tea", "jam"]'),
        ('kind in ["a", 5]', 15, "'5'", "numbers alone"),
        ('kind in ["a" "b"]', 14, "'\"b\"'", '"," or "]"'),
        ("kind contains 5", 15, "'5'", "a text in quotes"),
        ("labels has any [5]", 16, "'['", "a list of texts"),
        ("price is 5", 10, "'5'", '"missing" or "not missing"'),
        ("price not 5", 11, "'5'", '"in" after "not"'),
        ("in < 5", 1, "'in'", "a name like this in `"),
        ("price < 5 && kind", 11, "'&'", "one of =="),
        ("price < 1.2.3", 9, "'1'", "a number such as"),
        ("price < 1e999", 9, "'1e999'", "a number"),
        ("@5", 2, "'5'", "the name of a filter"),
        ("price.__class__ <", 18, "the end", "a number"),
    ],
)
def test_what_is_no_expression_is_refused_by_its_place(
    text: str, place: int, found: str, wanted: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Expression.parse(text)
    assert caught.value.what == "the filter cannot be read"
    assert caught.value.where == f"filter, character {place}"
    assert found in caught.value.found
    assert wanted in caught.value.wanted


@pytest.mark.parametrize(
    ("text", "found", "wanted"),
    [
        ("prise < 5", "prise, at the ^ in ^prise < 5", "kind, labels, title; did you mean price?"),
        ('price == "x"', 'price == "x", and price is of the kind number', "with numbers"),
        ("kind == 5", "kind == 5, and kind is of the kind category", "texts in quotes"),
        ("price < 5 and labels > 5", "labels > 5, and labels is of the kind tags", 'has "…"'),
        ('title has "tea"', "of the kind text", 'contains "…"'),
        ('price contains "5"', "of the kind number", "<=, >, >=, in"),
        ("@in_stock", "in_stock, at the ^ in ^@in_stock", "one; this has none"),
    ],
)
def test_what_a_table_cannot_answer_is_refused(text: str, found: str, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mask(text)
    assert caught.value.where.startswith("filter, character ")
    assert found in caught.value.found
    assert wanted in caught.value.wanted


def test_what_is_too_large_is_refused_and_what_is_just_not_is_read() -> None:
    bounds = {
        "x" * MOST_CHARACTERS + " > 1": "4,004 characters",
        "(" * DEEPEST + "a > 1" + ")" * DEEPEST: "33 levels of parentheses and not",
        "not " * 3000 + "a": "12,001 characters",
        "not " * DEEPEST + "a > 1": "33 levels of parentheses and not",
        " or ".join(["a>1"] * (MOST_CONDITIONS + 1)): "501 conditions",
        " or ".join(["a>1"] * 300): None,
        " or ".join(['a contains "x"'] * (MOST_CONTAINS + 1)): "33 conditions with contains",
        "a in [" + ",".join(["1"] * (MOST_VALUES + 1)) + "]": "1,001 values",
        "a in [" + ",".join(["1"] * MOST_VALUES) + "]": None,
        "(a > 1 or b > 1 and " * (DEEPEST - 1) + "c > 1" + ")" * (DEEPEST - 1): None,
    }
    for text, found in bounds.items():
        if found is None:
            assert Expression.parse(str(Expression.parse(text))) == Expression.parse(text)
            continue
        with pytest.raises(ConfigError, match="too large") as caught:
            Expression.parse(text)
        assert found in caught.value.found


def test_names_of_expressions_are_replaced_and_their_conditions_count() -> None:
    cheap, tea = Expression.parse("price < 50"), Expression.parse('kind == "tea" or kind == "jam"')
    both = Expression.parse("@cheap and not @tea").with_named({"cheap": cheap, "tea": tea})
    assert str(both) == 'price < 50 and not (kind == "tea" or kind == "jam")'
    many = Expression.parse(" and ".join(["a > 1"] * 300))
    with pytest.raises(ConfigError, match="600 conditions"):
        Expression.parse("@many or not @many").with_named({"many": many})
    with pytest.raises(ConfigError, match="did you mean cheap"):
        Expression.parse("@chaep").with_named({"cheap": cheap})
