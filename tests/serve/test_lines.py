from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.serve.models import Lines

LINES = Lines.of([["Tea", "green"], ["teapot"], ["iced tea", "TEA"], []])

SHORT = st.text(alphabet="aAbß\n\x1f ", max_size=4)


def folded(text: str) -> str:
    return text.casefold().replace("\n", " ").replace("\x1f", " ")


def test_a_word_can_be_the_query_begin_with_it_or_have_it_in_it() -> None:
    assert list(LINES.equal_to("tea")) == [0, 2]
    assert list(LINES.beginning_with("TEA")) == [0, 1, 2]
    assert list(LINES.containing("ee")) == [0]


def test_a_query_does_not_reach_from_one_word_or_line_into_the_next() -> None:
    for query in ("teagreen", "greentea", "tea\x1fgreen", "pot\n", "green\x1f\n\x1ftea"):
        assert list(LINES.containing(query)) == []


def test_no_lines_have_nothing() -> None:
    assert list(Lines.of([]).containing("")) == []


@given(st.lists(st.lists(SHORT, min_size=1, max_size=3), max_size=6), SHORT)
def test_one_text_has_what_a_look_at_each_word_finds(lines: list[list[str]], query: str) -> None:
    searched, wanted = Lines.of(lines), folded(query)
    words = [[folded(word) for word in line] for line in lines]
    assert list(searched.equal_to(query)) == [k for k, w in enumerate(words) if wanted in w]
    begin = [k for k, w in enumerate(words) if any(x.startswith(wanted) for x in w)]
    assert list(searched.beginning_with(query)) == begin
    inside = [k for k, w in enumerate(words) if any(wanted in x for x in w)]
    assert list(searched.containing(query)) == inside


@pytest.mark.parametrize("query", ["", "1"])
def test_a_search_goes_no_further_than_it_is_asked(query: str) -> None:
    many = Lines.of([str(number)] for number in range(1000))
    cut = Lines(many.text[: many.text.index("112")], many.starts)
    assert list(islice(cut.containing(query), 3)) == list(islice(many.containing(query), 3))
