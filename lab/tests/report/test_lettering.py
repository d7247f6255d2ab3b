from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ratiorec_lab.report.lettering import shorten, text_width, wrap


@given(text=st.text(max_size=60), room=st.floats(20, 300))
def test_a_shortened_text_fits_its_room(text, room):
    assert text_width(shorten(text, 12, room).strip(), 12) <= room


def test_a_text_that_fits_is_left_alone():
    assert shorten("recall", 12, 1000) == "recall"


@given(text=st.text("abW ", max_size=80), room=st.floats(20, 300), n_lines=st.integers(1, 3))
def test_wrapped_lines_are_few_and_fit(text, room, n_lines):
    lines = wrap(text, 12, room, n_lines=n_lines)
    assert len(lines) <= n_lines
    assert all(text_width(line.strip(), 12) <= room for line in lines)


def test_wide_scripts_take_more_room_than_latin():
    assert text_width("東京", 12) > text_width("ab", 12)
