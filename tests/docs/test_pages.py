"""Every block of code on the site runs, and prints what stands below it."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from support.doc_pages import (
    BLOCK,
    DOCS,
    other_pages,
    prepare,
    runner,
    start_page,
    without_what_varies,
)

pytest.importorskip("pandas")


def require_as_printed(page: Path, folder: Path, *, real: bool = False) -> None:
    text = page.read_text(encoding="utf-8")
    with runner(folder, real=real) as run:
        now = run.page(text)
    assert without_what_varies(now) == without_what_varies(text)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    prepare(folder)
    return folder


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_first_ten_minutes_in_real_processes(tmp_path: Path) -> None:
    require_as_printed(start_page(), tmp_path, real=True)


@pytest.mark.parametrize("page", other_pages(), ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, shop: Path, tmp_path: Path) -> None:
    if "curl " in page.read_text(encoding="utf-8") and shutil.which("curl") is None:
        pytest.skip("needs curl")
    require_as_printed(page, Path(shutil.copytree(shop, tmp_path / "shop")))


def test_how_to_pages_have_commands_before_reasons() -> None:
    pages = sorted(DOCS.glob("how-to/*.md"))
    assert len(pages) >= 12
    for page in pages:
        text = page.read_text(encoding="utf-8")
        first = BLOCK.search(text)
        assert first is not None
        assert first.start() < text.index("## Why"), page


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```sh\nfalse\n```\n", "false"),
        ("```sh\nratiorec fit absent.csv -o model\n```\n", "absent.csv"),
        ("```\nratiorec doctor\n```\n", "neither run nor marked"),
        ("<!-- run by: tests/absent.py -->\n```sh\ntrue\n```\n", "no such test"),
        ("```toml\npreset = ease\n```\n", "Invalid"),
        ("<!-- not run: -->\n```sh\ntrue\n```\n", "no reason"),
        ("```text\nout of nowhere\n```\n", "nothing was run"),
    ],
)
def test_a_page_that_does_not_run_is_found(page: str, complaint: str, tmp_path: Path) -> None:
    faults = (AssertionError, tomllib.TOMLDecodeError)
    with runner(tmp_path) as run, pytest.raises(faults, match=complaint):
        run.page(page)


def test_output_that_is_not_what_is_printed_is_found(tmp_path: Path) -> None:
    page = "```sh\necho 0.1234 one\n```\n```text\n0.1239 two\n```\n"
    with runner(tmp_path) as run:
        now = without_what_varies(run.page(page))
    assert now == without_what_varies(page.replace("two", "one"))
    assert now != without_what_varies(page)


def test_the_picture_is_what_its_script_draws(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    script = tmp_path / "density_ratio.py"
    shutil.copy(DOCS / "assets" / "density_ratio.py", script)
    with runner(tmp_path, real=True) as run:
        run.page(f"```sh\npython {script.name}\n```\n")
    drawn, kept = (
        re.sub(r"-?\d+\.\d+", "#", (folder / "density-ratio.svg").read_text(encoding="utf-8"))
        for folder in (tmp_path, DOCS / "assets")
    )
    assert drawn == kept
