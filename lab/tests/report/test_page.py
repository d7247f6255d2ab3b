from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratiorec.errors import StorageError
from ratiorec_lab.report import page as page_module
from ratiorec_lab.report.charts import Series, line_chart
from ratiorec_lab.report.page import (
    Columns,
    Estimate,
    Figure,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Section,
    Table,
    html,
    render,
    write,
)

CHART = line_chart([Series("a", [1, 2], [1, 2])], title="T", x_label="x", y_label="y")


def a_page(word: str = "word") -> Page:
    table = Table([word, "n"], [[word, 1]], word)
    group = Section(word, [Listing(word, [(word, ""), (word, word)], numbered=True)])
    return Page(
        word,
        word,
        [
            Section(word, [Paragraph(word), KeyValues({word: word, "n": 1200})]),
            Section(word, [table, Figure(CHART, word, table)]),
            Section(word, [Columns([group, Figure(CHART), Listing(word, [])])]),
        ],
        footer=word,
    )


def parse(text: str) -> ET.Element:
    # The head is written so that a page is XML too; the doctype is of no use to the parser.
    return ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_headings_begin_with_one_and_never_skip_a_level() -> None:
    root = parse(render(a_page()))
    levels = [int(e.tag[1]) for e in root.iter() if re.fullmatch("h[1-6]", e.tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_a_page_names_its_language_its_title_and_its_sections_in_order() -> None:
    page = Page("A & B", "", [Section(f"part {k}", []) for k in range(3)])
    root = parse(render(page))
    assert root.get("lang") == "en-GB"
    assert root.findtext("head/title") == "A & B"
    assert [e.text for e in root.iter("h2")] == ["part 0", "part 1", "part 2"]
    sections = [(f"#{e.attrib['id']}", e.findtext("h2")) for e in root.iter("section")]
    for contents in root.iter("nav"):  # one is for wide screens, one for narrow
        assert [(e.attrib["href"], e.text) for e in contents.iter("a")] == sections


@settings(max_examples=20, deadline=None)
@given(word=st.text(st.integers(0, 0x10FFFF).map(chr), min_size=1))
def test_whatever_the_words_a_page_is_well_formed(word: str) -> None:
    root = parse(render(a_page(f"x{word}")))
    assert [child.tag for child in root] == ["head", "body"]


@pytest.mark.parametrize("word", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "&lt;"])
def test_whatever_the_words_there_is_no_element_more(word: str) -> None:
    plain, strange = render(a_page()), render(a_page(word))
    assert [e.tag for e in parse(strange).iter()] == [e.tag for e in parse(plain).iter()]
    assert parse(strange).findtext("body/header/h1") == word


def test_a_page_refers_to_nothing_outside() -> None:
    text = render(a_page())
    assert not re.search(r"https?:|@import|src=|<link|<script|url\(", text)
    assert all(link.startswith("#") for link in re.findall(r'href="(.*?)"', text))
    policies = [e.get("content", "") for e in parse(text).iter("meta") if e.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_a_figure_stands_on_a_card_with_its_caption_and_its_numbers_closed() -> None:
    root = parse(str(html(Figure(CHART, "a caption", Table(["a"], [["b"]], "C")), card=True)))
    assert root.get("class") == "card"
    assert root.find("figure/svg") is not None
    assert root.findtext("figure/figcaption") == "a caption"
    details = root.find("details")
    assert details is not None
    assert details.get("open") is None
    assert details.findtext("summary") == "The numbers"
    assert details.find("div/table") is not None


def test_blocks_side_by_side_are_cards() -> None:
    root = parse(str(html(Columns([Section("a", []), Listing("b", []), Figure(CHART)]))))
    assert root.get("class") == "columns"
    assert [card.get("class") for card in root] == ["card"] * 3


def test_a_ranking_is_an_ordered_list_and_a_history_is_not() -> None:
    ranking = parse(str(html(Listing("r", [("a.b_c", "1.5")], numbered=True))))
    assert ranking.tag == "div"
    (line,) = ranking.iter("li")
    assert "".join(line.itertext()) == "a.b_c1.5"
    assert ranking.find("ol") is not None
    assert parse(str(html(Listing("h", [("a", "")])))).find("ul") is not None
    assert "nothing" in html(Listing("h", []))


@pytest.mark.parametrize(("value", "text"), [(29858, "29,858"), ("0 & 1", "0 & 1"), (0.5, "0.5")])
def test_figures_and_facts_stand_under_their_names(value: float | str, text: str) -> None:
    for in_lines in (False, True):
        root = parse(str(html(KeyValues({"a": value}, in_lines=in_lines), card=True)))
        assert (root.findtext("div/dt"), root.findtext("div/dd")) == ("a", text)


def table(*rows: list[object], **more: object) -> ET.Element:
    return parse(str(html(Table(["m", "n"], rows, "C", **more))))  # type: ignore[arg-type]


def best(root: ET.Element) -> list[str]:
    cells = [cell for cell in root.iter("td") if "best" in cell.get("class", "")]
    return ["".join(cell.itertext()) for cell in cells]


def test_headers_have_a_scope_and_the_keyboard_reaches_a_table_that_scrolls() -> None:
    root = table(["a", 0.1], ["b", 0.2])
    assert [e.get("scope") for e in root.iter("th")] == ["col", "col", "row", "row"]
    assert (root.get("class"), root.get("tabindex"), root.get("aria-label")) == ("scroll", "0", "C")


def test_a_column_of_numbers_is_set_to_the_right_and_words_are_not() -> None:
    root = parse(str(html(Table(["m", "w", "n"], [["a", "x", 1], ["b", "y", np.int64(20)]], "C"))))
    assert [e.get("class") for e in root.iter("td")] == [None, "number", None, "number"]
    assert [e.get("class") for e in root.iter("th")] == [None, None, "number", None, None]


def test_the_best_value_of_a_column_is_marked() -> None:
    rows = [["a", 0.1], ["b", 0.3], ["c", math.nan], ["d", None]]
    assert best(table(*rows, highest=[1])) == ["0.3000 (best)"]
    assert best(table(*rows, lowest=[1])) == ["0.1000 (best)"]
    assert len(best(table(["a", 1], ["b", 1], highest=[1]))) == 2


def test_nothing_is_best_alone_or_unasked() -> None:
    assert best(table(["a", 0.1], highest=[1])) == []
    assert best(table(["a", 0.1], ["b", 0.2])) == []


def test_estimates_compare_by_value_and_show_their_interval() -> None:
    rows = [["a", Estimate(0.2, 0.1, 0.9)], ["b", Estimate(0.3, 0.2, 0.4)]]
    assert best(table(*rows, highest=[1])) == ["0.3000 0.2000 to 0.4000 (best)"]


def test_a_table_without_rows_says_so_and_a_ragged_row_is_refused() -> None:
    assert "no rows" in "".join(table().itertext())
    with pytest.raises(ValueError, match="row 1 of «C» has 1 cells"):
        table(["x", 1], ["y"])


def test_a_page_is_written_as_it_is_rendered(tmp_path: Path) -> None:
    write(a_page("Größe"), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert text == render(a_page("Größe"))
    assert text.endswith("</html>\n")


def test_a_failure_leaves_the_old_report_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")
    monkeypatch.setattr(page_module, "render", lambda page: "\ud800")
    with pytest.raises(UnicodeEncodeError):
        write(a_page(), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="missing"):
        write(a_page(), tmp_path / "missing" / "report.html")
