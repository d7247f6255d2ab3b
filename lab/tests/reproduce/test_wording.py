from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratiorec.errors import DataError
from ratiorec_lab.reproduce.exhibits import (
    Bar,
    BarPanel,
    Measured,
    Panel,
    Row,
    Series,
    TableExhibit,
)
from ratiorec_lab.reproduce.wording import (
    BETTER,
    NEITHER,
    WORSE,
    Cell,
    WordedTable,
    difference_text,
    figure_text,
    panel_table,
    worded,
)

# larger figures are none that a metric, a count or a time could have
anything = st.sampled_from([math.nan, math.inf, -math.inf]) | st.floats(-1e100, 1e100)


def table(*rows: tuple[Measured | str, ...], **more: object) -> TableExhibit:
    columns = tuple(f"column {k}" for k in range(len(rows[0])))
    named = tuple(Row(f"row {k}", row) for k, row in enumerate(rows))
    return TableExhibit("t", "Title", "Caption", columns, named, **more)  # type: ignore[arg-type]


def column(*entries: Measured | str, **more: object) -> list[Cell]:
    return [cells[0] for _, cells in worded(table(*((entry,) for entry in entries), **more)).rows]


def test_a_figure_stands_with_half_its_interval_and_the_published_one():
    (cell,) = column(Measured((0.18, 0.19), 0.2))
    half = 12.7062 * (0.01 / 2**0.5) / 2**0.5  # Student's 97.5 % point at one degree of freedom
    assert cell.ours == ".1850"
    assert cell.spread == f"± {half:.4f}".replace("0.", ".")
    assert cell.published == ".2000"
    assert cell.difference == f"−{100 * (1 - 0.185 / 0.2):.1f} %"


def test_one_seed_has_no_spread():
    assert column(Measured((0.1812,)))[0].spread == ""


def test_what_was_not_run_is_said_beside_the_published_figure():
    (cell,) = column(Measured((), 0.1828))
    assert (cell.ours, cell.published, cell.difference) == ("not run", ".1828", "")
    assert not cell.is_figure


def test_text_stands_as_it_is():
    assert column("✓") == [Cell("✓", is_text=True)]


def test_noughts_are_dropped_where_all_figures_of_a_column_are_parts_of_one():
    assert [cell.ours for cell in column(Measured((0.5,)), Measured((-0.25,)))] == [
        ".5000",
        "−.2500",
    ]
    assert [cell.ours for cell in column(Measured((0.5,)), Measured((1.5,)))] == [
        "0.5000",
        "1.5000",
    ]


def test_a_figure_that_rounds_to_one_keeps_its_nought():
    assert column(Measured((0.99996,)), Measured((0.5,)))[1].ours == "0.5000"


def test_decimals_are_those_of_the_table():
    (cell,) = column(Measured((1027370.0,), 1027464.0), decimals=0)
    assert (cell.ours, cell.published) == ("1,027,370", "1,027,464")


def test_the_highest_of_a_column_is_best():
    assert [cell.is_best for cell in column(Measured((0.1,)), Measured((0.3,)), "x")] == [
        False,
        True,
        False,
    ]


def test_the_lowest_is_best_where_the_table_says_so():
    cells = column(Measured((3.0,)), Measured((2.0,)), Measured(()), lowest=(0,))
    assert [cell.is_best for cell in cells] == [False, True, False]


def test_figures_that_look_equal_are_marked_alike():
    cells = column(Measured((0.18121,)), Measured((0.18119,)), Measured((0.1,)))
    assert [cell.is_best for cell in cells] == [True, True, False]


def test_nothing_is_best_alone_or_where_nothing_is_ranked():
    assert not column(Measured((0.1,)), Measured(()))[0].is_best
    assert not any(
        cell.is_best for cell in column(Measured((1.0,)), Measured((2.0,)), is_ranking=False)
    )


def test_a_difference_is_judged_by_what_is_better_in_its_column():
    up, down, equal = Measured((2.0,), 1.0), Measured((1.0,), 2.0), Measured((1.0,), 1.00001)
    assert [cell.verdict for cell in column(up, down, equal)] == [BETTER, WORSE, NEITHER]
    assert [cell.verdict for cell in column(up, down, equal, lowest=(0,))] == [
        WORSE,
        BETTER,
        NEITHER,
    ]
    assert column(up, is_ranking=False)[0].verdict == NEITHER


@pytest.mark.parametrize(
    ("value", "published", "text"),
    [
        (0.1812, 0.1828, "−0.9 %"),
        (1.0, 1.00001, "0.0 %"),
        (1.00001, 1.0, "0.0 %"),
        (30.0, 2.0, "+1,400 %"),
        (1.0, None, ""),
        (None, 1.0, ""),
        (1.0, 0.0, ""),
        (math.nan, 1.0, ""),
        (1.0, math.inf, ""),
        (1e300, 1e-300, ""),
        (1e200, 1.0, "+1e+202 %"),
    ],
)
def test_a_difference_has_its_sign(value, published, text):
    assert difference_text(value, published) == text


@pytest.mark.parametrize("values", [(math.nan,), (math.inf, -math.inf), (0.1, math.nan)])
def test_figures_that_cannot_be_reckoned_with_are_called_not_finite(values):
    (cell, other) = column(Measured(values, 0.1), Measured((0.2,)))
    assert (cell.ours, cell.spread, cell.difference) == ("not finite", "", "")
    assert not cell.is_figure
    assert other.ours == ".2000"


def test_a_published_figure_that_is_not_finite_is_called_so():
    (cell,) = column(Measured((0.1,), math.inf))
    assert (cell.published, cell.difference) == ("not finite", "")


@given(values=st.lists(anything, max_size=4), published=st.none() | anything)
def test_any_figures_can_be_written_shortly(values, published):
    (cell,) = column(Measured(tuple(values), published))
    assert all(len(text) < 30 for text in (cell.ours, cell.spread, cell.published))
    assert "nan" not in f"{cell}"


@given(value=anything)
def test_any_figure_by_itself_is_short(value):
    assert len(figure_text(value)) < 30


def test_bars_become_rows_with_the_published_figure_and_the_difference():
    bars = (Bar("NGCF", 3.6, 72.0), Bar("ENMF", None, 3.0), Bar("EASE", 1234.5))
    words = worded(panel_table(BarPanel("Gowalla", "seconds", bars)))
    assert words.columns == ("this run, seconds", "published", "difference")
    assert [(name, *(cell.ours for cell in cells)) for name, cells in words.rows] == [
        ("NGCF", "3.6", "72", f"−{100 * (1 - 3.6 / 72):.1f} %"),
        ("ENMF", "not run", "3", ""),
        ("EASE", "1,234", "", ""),
    ]


def test_curves_become_rows_with_their_last_and_their_highest_point():
    line = Series("a", ((10.0, 0.1), (20.0, 0.3), (2000.0, 0.25), (3000.0, math.nan)))
    other = Series("a", ((1.0, 0.05),), is_published=True)
    words = worded(panel_table(Panel("t", "step", "R@20", (line, other, Series("b", ())))))
    assert words.columns == ("last step", "last R@20", "highest", "there")
    assert [(name, *(cell.ours for cell in cells)) for name, cells in words.rows] == [
        ("a", "2,000", ".2500", ".3000", "20"),
        ("a, published", "1", ".0500", ".0500", "1"),
        ("b", "no points", "", "", ""),
    ]
    assert words.how_to_read == ""


def test_equal_remarks_share_a_letter_in_reading_order():
    words = worded(
        table(
            (Measured((1.0,), remark="cut"), Measured((1.0,), remark="diverged")),
            (Measured((1.0,)), Measured((1.0,), remark="cut")),
        )
    )
    assert dict(words.notes) == {"a": "cut", "b": "diverged"}
    assert [[cell.note for cell in cells] for _, cells in words.rows] == [["a", "b"], ["", "a"]]


def test_after_z_comes_aa():
    words = worded(table(*((Measured((1.0,), remark=f"{k}"),) for k in range(28))))
    assert [*words.notes][25:] == ["z", "aa", "ab"]


def test_a_row_that_does_not_fit_its_table_is_refused():
    ragged = TableExhibit("table-2", "T", "C", ("a", "b"), (Row("NGCF", ("x",)),))
    with pytest.raises(DataError, match=r"row «NGCF» of table-2.*1 entries.*2, one for each"):
        worded(ragged)


def reading(words: WordedTable) -> str:
    return words.how_to_read


def test_how_to_read_a_table_says_how_many_seeds_there_were():
    two, three = Measured((1.0, 2.0), 1.0), Measured((1.0, 2.0, 3.0))
    assert "over 2 to 3 seeds" in reading(worded(table((two,), (three,))))
    assert "over 3 seeds" in reading(worded(table((three,), (Measured(()),))))
    assert "of one seed" in reading(worded(table((Measured((1.0,)),))))


def test_how_to_read_a_table_speaks_of_what_there_is_only():
    assert "published" not in reading(worded(table((Measured((1.0,)),), (Measured((2.0,)),))))
    assert reading(worded(table((Measured((1.0,)),), ("x",), is_ranking=False))) == ""
