"""The site builds without a warning, asks no other host for anything, and names what is public."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ratiorec

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]


def test_the_site_builds_and_holds_what_it_should(tmp_path: Path) -> None:
    """One test for all that is asked of it: a build takes half a minute."""
    site = built(tmp_path)
    nothing_is_loaded_from_another_host(site)
    the_search_index_is_part_of_the_site(site)
    the_notebooks_have_been_run(site)
    readers_see_which_blocks_are_not_run(site)
    every_public_name_is_in_the_reference(site)
    lists_and_results_of_older_pages_are_rendered(site)


def built(folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def nothing_is_loaded_from_another_host(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=[\"']?(https?:[^\"' >]+)")
    for page in site.rglob("*.html"):
        assert not loads.findall(page.read_text(encoding="utf-8")), page


def the_search_index_is_part_of_the_site(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "Get started in 10 minutes" in index


def the_notebooks_have_been_run(site: Path) -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in site.glob("notebooks/*.html")}
    assert "PresetComparison: 4 presets" in pages["comparing-models"]
    assert (site / "notebooks" / "comparing-models-0.png").stat().st_size > 5000
    assert "<td>ease</td>" in pages["first-model"]
    assert "model.json" in pages["to-production"]
    assert not any("Error" in text for text in pages.values())
    assert len(list(site.glob("notebooks/*.ipynb"))) == 3


def readers_see_which_blocks_are_not_run(site: Path) -> None:
    page = (site / "how-to" / "gpu.html").read_text(encoding="utf-8")
    assert "Not run by the tests: needs a GPU." in page
    assert "<!-- not run" not in page


def every_public_name_is_in_the_reference(site: Path) -> None:
    text = " ".join(p.read_text(encoding="utf-8") for p in (site / "reference").rglob("*.html"))
    anchors = set(re.findall(r"id=\"(ratiorec[\w.]*)\"", text))
    for name in set(ratiorec.__all__) - {"__version__"}:
        assert any(anchor.rpartition(".")[2] == name for anchor in anchors), name


def lists_and_results_of_older_pages_are_rendered(site: Path) -> None:
    guide = (site / "guide.html").read_text(encoding="utf-8")
    assert "<li>holds out a tenth" in guide
    assert 'href="results/bench-fold_in_quality.json"' in guide
    assert (site / "results" / "bench-fold_in_quality.json").is_file()
    assert "](" not in re.sub(r"<(pre|code).*?</\1>", "", guide, flags=re.DOTALL)
