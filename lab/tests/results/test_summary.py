"""The table of the README from made-up records."""

from __future__ import annotations

import json
from pathlib import Path

from lab_support.fake_cells import GPU, metrics
from lab_support.markdown import rows
from ratiorec_lab.results.summary import RIVALS, summary_table

CPU = {name: value for name, value in GPU.items() if name != "accelerator"}


def test_the_default_the_papers_method_and_rivals_stand_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "auto").mkdir()
    for seed, (machine, ndcg) in enumerate([(GPU, 0.16), (GPU, 0.18), (CPU, 0.1)]):
        test = metrics(ndcg, recall=0.2)
        record = {"dataset": "gowalla", "seed": seed, "test": test, "machine": machine}
        (tmp_path / "auto" / f"{seed}.json").write_text(json.dumps(record))
    alone = [
        {"preset": "ease", "test": None},
        {"preset": "item-knn", "test": metrics(0.11, recall=0.12)},
    ]
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "x.json").write_text(
        json.dumps({"dataset": "amazon-cds", "results": alone})
    )
    first, best, ours, published, *rivals = rows(summary_table(tmp_path))
    assert first["gowalla"] == "**.2000 / .1700**"
    assert first["yelp2018"] == "not measured"
    assert best["gowalla"] == ".1941 / .1617 (ChebyCF)"
    assert best["amazon-book-75"] == "none"
    assert ours["gowalla"] == "not measured"
    assert published["gowalla"] == "none"  # beside what is not measured nothing is shown
    assert [row["R@20 / nDCG@20"] for row in rivals] == [f"`--preset {n}`" for n in RIVALS]
    by_name = dict(zip(RIVALS, rivals, strict=True))
    assert by_name["item-knn"]["amazon-cds"] == ".1200 / .1100"
    assert by_name["ease"]["amazon-cds"] == "did not fit"
    assert by_name["ease"]["gowalla"] == "not measured"


def test_the_papers_figures_stand_below_ours() -> None:
    *_, ours, published = rows(summary_table(Path(__file__).parents[3] / "results"))[:4]
    assert published["gowalla"] == ".1810 / .1541"
    assert abs(float(ours["gowalla"].split(" / ")[0]) / 0.1810 - 1) < 0.01
