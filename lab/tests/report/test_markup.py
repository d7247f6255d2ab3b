from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from ratiorec_lab.report.markup import escape, tag

# Any code point at all, among them lone surrogates and control characters.
ANY_TEXT = st.text(st.integers(0, 0x10FFFF).map(chr))


@given(text=ANY_TEXT)
def test_any_text_stays_well_formed_as_content_and_as_attribute(text):
    element = ET.fromstring(tag("p", escape(text), title=text).encode())
    assert list(element) == []
    assert set(element.attrib) == {"title"}


def test_a_script_in_a_text_is_only_text():
    assert escape("<script>") == "&lt;script&gt;"


def test_a_quote_does_not_end_an_attribute():
    assert tag("p", title='" onload="x') == '<p title="&quot; onload=&quot;x"></p>'


def test_an_attribute_that_is_none_is_left_out():
    assert tag("p", class_=None, id="a") == '<p id="a"></p>'


def test_a_number_is_written_with_few_digits():
    assert tag("p", x=1 / 3) == '<p x="0.33"></p>'
