from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from ratiorec.errors import StorageError
from ratiorec_lab.report import page as page_module
from ratiorec_lab.report.charts import Series, line_chart
from ratiorec_lab.report.page import (
    Columns,
    Details,
    Entry,
    Facts,
    Figure,
    Group,
    KeyValues,
    Listing,
    Page,
    Paragraph,
    Section,
    Table,
    render,
    write,
)


def a_page(word: str = "word") -> Page:
    chart = line_chart([Series(word, [1, 2], [1, 2])], title=word, x_label=word, y_label=word)
    group = Group(word, Listing(word, [word, Entry(word, word, word)], numbered=True))
    return Page(
        word,
        word,
        [
            Section(word, Paragraph(word), KeyValues({word: word, "n": 1200})),
            Section(word, Table([word, "n"], [[word, 1]], word), Figure(chart, word)),
            Section(word, Columns([group, Figure(chart), Listing(word, [])])),
        ],
        footer=word,
    )


def parse(page: Page) -> ET.Element:
    # The head is written so that a page is XML too; the doctype is of no use to the parser.
    return ET.fromstring(render(page).removeprefix("<!DOCTYPE html>\n"))


def test_a_page_is_well_formed():
    assert [child.tag for child in parse(a_page())] == ["head", "body"]


def test_headings_begin_with_one_and_never_skip_a_level():
    levels = [int(e.tag[1]) for e in parse(a_page()).iter() if re.fullmatch("h[1-6]", e.tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_a_page_names_its_language_and_its_title():
    root = parse(a_page("A & B"))
    assert root.get("lang") == "en-GB"
    assert root.findtext("head/title") == "A & B"


@pytest.mark.parametrize("word", ["<script>alert(1)</script>", '"><img src=x onerror=y>'])
def test_whatever_the_words_there_is_no_element_more(word):
    # As long as the other, because a chart lays its names out by their length.
    plain, strange = parse(a_page("x" * len(word))), parse(a_page(word))
    assert [e.tag for e in strange.iter()] == [e.tag for e in plain.iter()]
    assert "<script" not in render(a_page(word))


def test_the_contents_lead_to_every_section():
    root = parse(a_page())
    links = [e.attrib["href"] for e in root.iter("a")]
    assert links == [f"#{e.attrib['id']}" for e in root.iter("section")]
    assert len(set(links)) == 3


def test_a_page_refers_to_nothing_outside():
    text = render(a_page())
    assert not re.search(r"https?:|@import|src=|<link|<script", text)
    assert all(target.startswith(("#", "data:")) for target in re.findall(r"url\((.*?)\)", text))
    assert all(link.startswith("#") for link in re.findall(r'href="(.*?)"', text))


def test_the_browser_is_told_to_load_and_run_nothing():
    policies = [e.get("content", "") for e in parse(a_page()).iter("meta") if e.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_the_same_page_is_rendered_the_same():
    assert render(a_page()) == render(a_page())


def test_blocks_side_by_side_are_cards():
    (columns,) = [e for e in parse(a_page()).iter("div") if e.get("class") == "columns"]
    assert [card.get("class") for card in columns] == ["card"] * 3


def test_a_ranking_is_an_ordered_list_and_a_history_is_not():
    ranking, history = Listing("r", ["a"], numbered=True), Listing("h", ["a"])
    assert "<ol>" in ranking.html(3)
    assert "<ul>" in history.html(3)


def test_an_empty_listing_says_so():
    assert "nothing" in Listing("h", []).html(3)


def test_figures_are_written_for_people():
    assert "<dd>29,858</dd>" in KeyValues({"Users": 29858}).html(3)


def test_facts_stand_under_their_names_and_without_a_card():
    root = ET.fromstring(Section("s", Facts({"seeds": "0 & 1"})).html("n"))
    assert (root.findtext("dl/div/dt"), root.findtext("dl/div/dd")) == ("seeds", "0 & 1")


def test_details_are_closed_until_someone_opens_them():
    root = ET.fromstring(Details("more <b>", Paragraph("text")).html(3))
    assert (root.tag, root.findtext("summary"), root.findtext("p")) == (
        "details",
        "more <b>",
        "text",
    )
    assert root.get("open") is None


def test_cards_may_need_more_width_than_words_do():
    assert ET.fromstring(Columns([], 26).html(3)).get("style") == "--least:26rem"
    assert ET.fromstring(Columns([]).html(3)).get("style") is None


def test_a_page_is_written_as_it_is_rendered(tmp_path):
    write(a_page("Größe"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(a_page("Größe"))


def test_a_failure_leaves_the_old_report_and_nothing_else(tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("old")
    monkeypatch.setattr(page_module, "render", lambda page: "\ud800")
    with pytest.raises(UnicodeEncodeError):
        write(a_page(), target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match="missing"):
        write(a_page(), tmp_path / "missing" / "report.html")
