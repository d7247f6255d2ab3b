from __future__ import annotations

from ratiorec_lab.reproduce.exhibits import Measured
from ratiorec_lab.reproduce.remarks import (
    TableFigure,
    caveats,
    differences,
    not_run,
    of_table,
    swaps,
    within_or_above,
)


def figure(
    method: str,
    values: tuple[float, ...],
    published: float | None = None,
    *,
    dataset: str = "gowalla",
    metric: str = "ndcg@20",
    remark: str = "",
    is_papers: bool = True,
) -> TableFigure:
    return TableFigure(method, dataset, metric, Measured(values, published, remark), is_papers)


def test_a_figure_within_a_hundredth_is_no_difference() -> None:
    near = [figure("A", (0.1005,), 0.1), figure("B", (0.0991,), 0.1)]
    assert list(differences(near)) == ["All 2 figures are within 1 % of the published ones."]
    assert "within" not in next(differences([figure("A", (0.10105,), 0.1)]))


def test_a_figure_that_is_off_is_told_with_both_values() -> None:
    off = [
        figure("A", (0.098,), 0.1),
        figure("A", (0.11,), 0.1, metric="recall@20"),
        figure("B", (0.1,), 0.1),
    ]
    assert list(differences(off)) == [
        "Gowalla, A: nDCG@20 .0980 is 2.0 % below the published .1000, "
        "R@20 .1100 is 10.0 % above the published .1000."
    ]


def test_it_is_told_when_the_published_figure_lies_in_our_interval() -> None:
    (told,) = differences([figure("A", (0.09, 0.1, 0.101), 0.1)])
    assert told.endswith("the published .1000 (inside our 95 % interval).")


def test_what_has_no_published_figure_differs_from_nothing() -> None:
    assert list(differences([figure("A", (0.1,))])) == []
    assert list(swaps([figure("A", (0.1,)), figure("B", (0.2,))])) == []


def test_two_methods_in_the_other_order_are_told() -> None:
    told = list(swaps([figure("A", (0.1,), 0.3), figure("B", (0.2,), 0.2), figure("C", (), 0.1)]))
    assert told == [
        "Gowalla, nDCG@20: the paper has A above B (.3000 and .2000), ours are the other way "
        "round (.1000 and .2000; too few seeds to say whether by chance)."
    ]


def test_the_intervals_say_whether_the_order_may_be_chance() -> None:
    def told(one: tuple[float, ...], other: tuple[float, ...]) -> str:
        (words,) = swaps([figure("A", one, 0.3), figure("B", other, 0.2)])
        return words

    assert told((0.1, 0.1001, 0.1002), (0.2, 0.2001, 0.2002)).endswith("do not overlap).")
    assert told((0.1, 0.15, 0.2), (0.1, 0.16, 0.21)).endswith("their 95 % intervals overlap).")


def test_equal_published_figures_have_no_order() -> None:
    assert list(swaps([figure("A", (0.1,), 0.3), figure("B", (0.2,), 0.3)])) == []


def test_figures_that_are_not_the_papers_have_no_place_in_its_order() -> None:
    other = figure("B", (0.2,), 0.2, is_papers=False)
    assert list(swaps([figure("A", (0.1,), 0.3), other])) == []


def test_what_was_not_run_is_told_once_for_each_reason() -> None:
    figures = [
        figure("A", (), 0.1, remark="no room"),
        figure("A", (), 0.1, remark="no room", metric="recall@20"),
        figure("B", (), 0.1, remark="no room"),
        figure("C", (), 0.1),
        figure("D", (0.1,), 0.1),
        figure("A", (), 0.1, dataset="amazon-book", remark="no data."),
        figure("B", (), 0.1, dataset="amazon-book", remark="no data."),
    ]
    assert list(not_run(figures)) == [
        "Gowalla, A and B: not run: no room.",
        "Gowalla, C: not run yet.",
        "Amazon-Book: not run: no data.",
    ]


def test_what_must_be_known_of_a_figure_is_told_once() -> None:
    cut = figure("A", (0.1,), remark="Cut by its time budget of 5 s.")
    also = figure("C", (0.1,), remark="Cut by its time budget of 5 s.")
    assert list(caveats([cut, cut, figure("B", (0.1,)), also])) == [
        "Gowalla, A and C: Cut by its time budget of 5 s."
    ]


def test_a_method_reaches_the_paper_if_no_figure_is_a_hundredth_below() -> None:
    reached = [figure("A", (0.0991,), 0.1), figure("A", (0.2,), 0.1, metric="recall@20")]
    assert list(within_or_above(reached)) == [
        "Gowalla: A is within 1 % of the paper or above it (nDCG@20 −0.9 % and R@20 +100 %)."
    ]
    missed = [figure("A", (0.0989,), 0.1), figure("A", (), 0.1, dataset="yelp2018")]
    assert list(within_or_above(missed)) == [
        "Gowalla: A falls short of the paper (nDCG@20 −1.1 %)."
    ]


def test_the_part_of_amazon_book_is_named_for_what_it_is() -> None:
    told = list(of_table([figure("A", (0.1,), dataset="amazon-book-75")]))
    assert told == [
        "amazon-book-75 is a part of Amazon-Book; no published figure compares with those on it."
    ]
