from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from ratiorec.errors import DataError, StorageError
from ratiorec_lab.reproduce.exhibits import (
    AGREES,
    DIFFERS,
    Bar,
    BarExhibit,
    BarPanel,
    CurveExhibit,
    Exhibit,
    Measured,
    Panel,
    Remark,
    Row,
    Series,
    TableExhibit,
)
from ratiorec_lab.reproduce.page import write_page


def table(word: str = "word", *rows: Row) -> TableExhibit:
    given = rows or (
        Row(word, (Measured((0.1811, 0.1813), 0.1828, word), word)),
        Row("other", (Measured((), 0.1), "")),
        Row("third", (Measured((0.17,), 0.16), "")),
    )
    return TableExhibit(word, word, word, (word, "text"), given, remarks=(word, word))


def exhibits(word: str = "word") -> list[Exhibit]:
    line = Series(word, ((1.0, 0.1), (2.0, 0.2)))
    curves = Panel(word, word, word, (line, Series(word, line.points, is_published=True)))
    bars = BarPanel(word, word, (Bar(word, 1.0, 2.0), Bar("b", None, 3.0)), log=True)
    return [
        table(word),
        CurveExhibit(word, word, word, (curves, curves), remarks=(word,)),
        BarExhibit(word, word, word, (bars,)),
    ]


def write(folder: Path, shown: list[Exhibit], word: str = "word") -> str:
    write_page(folder / "report.html", shown, title=word, facts={word: word, "seeds": "0, 1"})
    return (folder / "report.html").read_text(encoding="utf-8")


def parse(text: str) -> ET.Element:
    # The head is written so that a page is XML too; the doctype is of no use to the parser.
    return ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def elements(text: str) -> list[str]:
    """All but what is in a chart, which lays its names out by their width."""
    root = parse(text)
    charts = {id(inner) for chart in root.iter("svg") for inner in chart.iter()}
    return [e.tag for e in root.iter() if id(e) not in charts]


def by_class(root: ET.Element, name: str) -> list[str]:
    found = [e for e in root.iter() if name in (e.get("class") or "").split()]
    return [" ".join("".join(e.itertext()).split()) for e in found]


def test_a_page_has_its_title_its_facts_and_every_exhibit(tmp_path):
    root = parse(write(tmp_path, exhibits(), "A & B"))
    assert root.findtext("head/title") == "A & B"
    assert [e.text for e in root.iter("dt")] == ["A & B", "seeds"]
    assert len([*root.iter("h2")]) == 1 + 3


def test_the_contents_lead_to_every_exhibit(tmp_path):
    root = parse(write(tmp_path, exhibits()))
    wide, narrow = root.iter("nav")
    assert (wide.get("class"), narrow.get("class")) == ("on-wide", "on-narrow")
    for contents in (wide, narrow):
        links = [e.attrib["href"] for e in contents.iter("a")]
        assert links == [f"#{e.attrib['id']}" for e in root.iter("section")]


def test_headings_never_skip_a_level(tmp_path):
    root = parse(write(tmp_path, exhibits()))
    levels = [int(e.tag[1]) for e in root.iter() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_a_cell_holds_our_figure_its_spread_the_published_one_and_the_difference(tmp_path):
    cells = parse(write(tmp_path, [table()])).iter("td")
    spans = next(found for e in cells if (found := e.findall("div/span")))
    half = 12.7062 * (0.0002 / 2**0.5) / 2**0.5
    said = [" ".join("".join(span.itertext()).split()) for span in spans]
    assert said[0] == ".1812"
    assert said[1].startswith(f"± {half:.4f}".replace("0.", "."))
    assert said[2] == ", published .1828"
    assert said[3] == f"−{100 * (1 - 0.1812 / 0.1828):.1f} %"


def test_a_difference_has_a_sign_besides_its_colour(tmp_path):
    root = parse(write(tmp_path, [table()]))
    assert all(text.startswith("−") for text in by_class(root, "worse"))
    assert all(text.startswith("+") for text in by_class(root, "better"))
    assert len(by_class(root, "worse")) == len(by_class(root, "better")) == 1


def test_the_best_is_marked_for_eyes_and_for_ears(tmp_path):
    (best,) = by_class(parse(write(tmp_path, [table()])), "best")
    assert best.startswith(".1812")
    assert best.endswith("(best)")


def test_what_was_not_run_is_said(tmp_path):
    assert by_class(parse(write(tmp_path, [table()])), "words") == ["not run"]


def test_a_figure_that_is_not_finite_is_called_so(tmp_path):
    odd = Measured((math.nan, math.inf), math.inf)
    text = write(tmp_path, [table("word", Row("a", (odd, "")))])
    assert by_class(parse(text), "words") == ["not finite"]
    assert by_class(parse(text), "published") == [", published not finite"]


def test_a_remark_is_written_out_below_its_table_and_linked_from_its_cell(tmp_path):
    root = parse(write(tmp_path, [table("cut at epoch 570")]))
    (link,) = [e for e in root.iter("a") if e.text == "a"]
    (note,) = [e for e in root.iter("li") if f"#{e.get('id')}" == link.get("href")]
    assert "".join(note.itertext()) == "a cut at epoch 570"


def test_notes_of_two_tables_have_names_of_their_own(tmp_path):
    root = parse(write(tmp_path, [table(), table()]))
    names = [e.attrib["id"] for e in root.iter() if "id" in e.attrib]
    assert len(names) == len(set(names))


def test_agreements_and_differences_are_lists_of_their_own(tmp_path):
    told = (Remark("It differs.", DIFFERS), "A note.", Remark("It agrees.", AGREES))
    root = parse(write(tmp_path, [CurveExhibit("f", "t", "c", (), remarks=told)]))
    lists = [e for e in root.iter("div") if e.get("class") == "remarks"]
    assert [(e.findtext("h3"), [li.text for li in e.iter("li")]) for e in lists] == [
        ("Where we agree", ["It agrees."]),
        ("Where we differ", ["It differs."]),
        ("Notes", ["A note."]),
    ]


def test_remarks_are_sentences_below_their_exhibit(tmp_path):
    root = parse(write(tmp_path, [table("We differ.")]))
    (remarks,) = [e for e in root.iter("div") if e.get("class") == "remarks"]
    assert remarks.findtext("h3") == "Notes"
    assert [e.text for e in remarks.iter("li")] == ["We differ.", "We differ."]


def test_many_remarks_stand_in_columns_and_a_few_do_not(tmp_path):
    few, many = ("x",) * 8, ("x",) * 9
    shown = [CurveExhibit("f", "t", "c", (), remarks=remarks) for remarks in (few, many)]
    assert re.findall(r'class="(remarks.*?)"', write(tmp_path, [*shown])) == [
        "remarks",
        "remarks many",
    ]


def test_a_figure_is_not_parted_from_its_unit(tmp_path):
    text = write(tmp_path, [table("x", Row("a", (Measured((1.0,)), "759 ms")))])
    assert ">759\N{NO-BREAK SPACE}ms<" in text
    assert "1.1\N{NO-BREAK SPACE}% below" in write(tmp_path, [table("is 1.1 % below")])


def test_every_plot_has_a_text_alternative_and_its_numbers_in_a_table(tmp_path):
    root = parse(write(tmp_path, exhibits()))
    charts = [*root.iter("svg")]
    assert len(charts) == 3
    assert all(e.get("role") == "img" and e.findtext("title") for e in charts)
    assert all(e.findtext("desc") for e in charts)
    assert len([e for e in root.iter("details") if e.find("div/table") is not None]) == 3


@pytest.mark.parametrize("word", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "&lt;b"])
def test_whatever_the_words_there_is_no_element_more(tmp_path, word):
    other = re.sub(r"\S", "x", word)
    strange, plain = write(tmp_path, exhibits(word), word), write(tmp_path, exhibits(other), other)
    assert elements(strange) == elements(plain)
    assert "<script" not in strange
    assert "<img" not in strange


def test_a_page_refers_to_nothing_outside_and_runs_nothing(tmp_path):
    text = write(tmp_path, exhibits())
    assert not re.search(r"https?:|@import|src=|<link|<script|url\(", text)
    assert all(link.startswith("#") for link in re.findall(r'href="(.*?)"', text))
    assert "default-src 'none'" in text


def test_a_report_without_exhibits_or_rows_is_still_a_page(tmp_path):
    assert parse(write(tmp_path, [])).findtext("body/header/h1") == "word"
    empty = TableExhibit("t", "T", "C", ("a",), ())
    assert "no rows" in write(tmp_path, [empty])


def test_the_same_exhibits_give_the_same_page(tmp_path):
    assert write(tmp_path, exhibits()) == write(tmp_path, exhibits())


def test_a_ragged_table_is_refused_and_the_old_page_stands(tmp_path):
    (tmp_path / "report.html").write_text("old")
    ragged = TableExhibit("t", "T", "C", ("a", "b"), (Row("r", ("x",)),))
    with pytest.raises(DataError, match="does not fit its table"):
        write(tmp_path, [ragged])
    assert (tmp_path / "report.html").read_text() == "old"
    assert len([*tmp_path.iterdir()]) == 1


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match="missing"):
        write(tmp_path / "missing", exhibits())
