from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ratiorec.errors import StorageError
from ratiorec_lab.reproduce.exhibits import (
    Bar,
    BarExhibit,
    BarPanel,
    CurveExhibit,
    Exhibit,
    Measured,
    Panel,
    Row,
    Series,
    TableExhibit,
)
from ratiorec_lab.reproduce.markdown import inline, write_markdown

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = "<script>|*a*_b_`c`[d](e)![f](g)~~h~~\\|\n# i & &lt;"


def exhibits(word: str = "word") -> list[Exhibit]:
    line = Series(word, ((1.0, 0.1), (2.0, 0.3), (4.0, 0.2)))
    curves = Panel(word, "step", "R@20", (line, Series(word, line.points, is_published=True)))
    bars = BarPanel(word, "seconds", (Bar(word, 3.6, 72.0), Bar("b", None, 3.0)), log=True)
    rows = (
        Row(word, (Measured((0.1811, 0.1813), 0.1828, word), word)),
        Row("other", (Measured((), 0.1), "")),
        Row("third", (Measured((0.17,)), "")),
    )
    return [
        TableExhibit("table-2", word, word, (word, "text"), rows, remarks=(word,)),
        CurveExhibit("figure-5", word, word, (curves,), remarks=(word,)),
        BarExhibit("figure-3", word, word, (bars,)),
    ]


def write(folder: Path, shown: list[Exhibit], word: str = "word") -> str:
    write_markdown(folder / "report.md", shown, title=word, facts={word: word})
    return (folder / "report.md").read_text(encoding="utf-8")


def cells(text: str, name: str) -> list[str]:
    """The cells of the first line that begins with this name."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    found = line.strip("|").split("|")
    return [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in found]


def test_a_cell_holds_what_the_page_shows(tmp_path):
    half = 12.7062 * (0.0002 / 2**0.5) / 2**0.5
    spread = f"± {half:.4f}".replace("0.", ".")
    difference = f"−{100 * (1 - 0.1812 / 0.1828):.1f} %"
    cell = cells(write(tmp_path, exhibits()), "word")[1]
    assert cell == f"**.1812** {spread}<sup>a</sup><br>.1828, {difference}"


def test_what_was_not_run_is_said(tmp_path):
    assert cells(write(tmp_path, exhibits()), "other")[1] == "not run<br>.1000"


def test_a_figure_without_a_published_one_stands_alone(tmp_path):
    assert cells(write(tmp_path, exhibits()), "third")[1] == ".1700"


def test_remarks_on_figures_and_on_exhibits_are_written_out(tmp_path):
    text = write(tmp_path, exhibits("cut at epoch 570"), "w")
    assert "\n<sup>a</sup> cut at epoch 570\n" in text
    assert "### Notes\n\n- cut at epoch 570\n" in text


def test_names_are_set_to_the_left_and_figures_to_the_right(tmp_path):
    assert "\n| :--- | ---: | ---: |\n" in write(tmp_path, exhibits())


def test_curves_are_told_by_their_ends_and_their_heights(tmp_path):
    (panel,) = [e for e in exhibits("A") if isinstance(e, CurveExhibit)]
    text = write(tmp_path, [panel])
    assert cells(text, "A") == ["A", "4", ".2000", ".3000", "2"]
    assert cells(text, "A, published")[1:] == ["4", ".2000", ".3000", "2"]


def test_a_curve_without_points_says_so(tmp_path):
    nothing = Panel("p", "x", "y", (Series("A", ((1.0, math.nan),)),))
    text = write(tmp_path, [CurveExhibit("f", "t", "c", (nothing,))])
    assert cells(text, "A")[1] == "no points"
    assert "Points without a place on these axes: 1 of A." in text


def test_bars_are_told_beside_what_was_published(tmp_path):
    (bars,) = [e for e in exhibits("A") if isinstance(e, BarExhibit)]
    text = write(tmp_path, [bars])
    assert cells(text, "A") == ["A", "3.6", "72", f"−{100 * (1 - 3.6 / 72):.1f} %"]
    assert cells(text, "b") == ["b", "not run", "3", ""]


def test_every_plot_is_a_file_beside_the_text_and_linked_by_its_name(tmp_path):
    text = write(tmp_path, exhibits())
    links = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert links == ["report-figure-5.svg", "report-figure-3.svg"]
    for link in links:
        root = ET.parse(tmp_path / link).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_plots_of_equal_or_strange_names_have_files_of_their_own(tmp_path):
    figure = exhibits()[1]
    assert isinstance(figure, CurveExhibit)
    odd = [CurveExhibit(name, "t", "c", figure.panels) for name in ("a", "a", "../../x", "", "  (")]
    links = re.findall(r"\]\((.*?)\)", write(tmp_path, [*odd]))
    assert len(set(links)) == 5
    assert all(re.fullmatch(r"[\w-]+\.svg", link) for link in links)
    assert {path.name for path in tmp_path.iterdir()} == {*links, "report.md"}


def test_a_figure_without_panels_has_no_plot(tmp_path):
    assert "![" not in write(tmp_path, [CurveExhibit("f", "t", "c", ())])


def test_whatever_the_words_there_is_no_element_more(tmp_path):
    strange = READER.parse(write(tmp_path, exhibits(HOSTILE), HOSTILE))
    plain = READER.parse(write(tmp_path, exhibits("x"), "x"))

    def kinds(tokens: list) -> list[str]:
        inner = [kind for token in tokens for kind in kinds(token.children or [])]
        return [token.type for token in tokens if token.type != "text_special"] + inner

    joined = re.sub(r"( text)+", " text", " ".join(kinds(strange)))
    assert joined == re.sub(r"( text)+", " text", " ".join(kinds(plain)))


@given(text=st.text(st.sampled_from("ab1 -+=.)#*_`~|<>&\\[]()!$:/\n\t") | st.characters()))
def test_any_words_are_read_as_they_were_written(text):
    (opening, content, closing) = READER.parse(f"x {inline(text)}")
    assert (opening.type, closing.type) == ("paragraph_open", "paragraph_close")
    assert {token.type for token in content.children or []} <= {"text", "text_special"}
    read = "".join(token.content for token in content.children or [])
    unwritable = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    wanted = re.sub(unwritable, "\N{REPLACEMENT CHARACTER}", text)
    assert read.split() == ["x", *wanted.split()]


@pytest.mark.parametrize("text", ["- a", "1. a", "12) a", "+ a", "# a", "=== a", "---", "> a"])
def test_words_at_the_beginning_of_a_line_make_nothing_else(text):
    (opening, content, _) = READER.parse(inline(text))
    assert opening.type == "paragraph_open"
    assert "".join(token.content for token in content.children or []) == text


def test_a_figure_that_is_not_finite_is_called_so(tmp_path):
    odd = TableExhibit("t", "T", "C", ("a",), (Row("r", (Measured((math.nan,), math.inf),)),))
    assert cells(write(tmp_path, [odd]), "r")[1] == "not finite<br>not finite"


def test_the_same_exhibits_give_the_same_files(tmp_path):
    first = write(tmp_path, exhibits()), (tmp_path / "report-figure-5.svg").read_text()
    assert first == (write(tmp_path, exhibits()), (tmp_path / "report-figure-5.svg").read_text())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(StorageError, match="missing"):
        write(tmp_path / "missing", exhibits())
