"""A real browser without a window, which tells what it made of a page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
CHROMEDRIVER = shutil.which("chromedriver")


def started_browser(profile: Path) -> Any:
    """A browser with this folder for itself; a test is skipped by name where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium")
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("no chromium on PATH" if CHROMIUM is None else "no chromedriver on PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(executable_path=CHROMEDRIVER))


def visit(
    browser: Any,
    address: str,
    *,
    width: int = 1280,
    scheme: str = "light",
    has_scrollbars: bool = True,
) -> None:
    """Open a page on a screen of this width, for a reader who prefers this colour scheme."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    for command, options in (
        ("setDeviceMetricsOverride", size),
        ("setEmulatedMedia", media),
        ("setScrollbarsHidden", {"hidden": not has_scrollbars}),
    ):
        browser.execute_cdp_cmd(f"Emulation.{command}", options)
    browser.get(address)


def probed(
    browser: Any, page: str, script: str, folder: Path, *, width: int, dark: bool = False
) -> dict[str, Any]:
    """The answer of a script that is run in a page of this width."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    scheme = "dark" if dark else "light"
    visit(browser, path.as_uri(), width=width, scheme=scheme, has_scrollbars=False)
    answer: dict[str, Any] = browser.execute_script(script)
    assert answer["shown"] == width
    return answer
