"""A real browser without a window, which tells what it made of a page."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


def probed(
    page: str, script: str, folder: Path, *, width: int, dark: bool = False
) -> dict[str, Any]:
    """What `script`, run in a page of this width, says by `dataset.probe` of its parent."""
    # ahead of the policy that forbids scripts, so that this one still runs
    page = page.replace("<head>", f"<head>{script}", 1)
    # in a frame, because no window of this browser is narrower than 500 pixels
    frame = f'<iframe srcdoc="{html.escape(page)}" style="border:0" width="{width}" height="900">'
    dom = browse(f"{frame}</iframe>", folder, dark=dark)
    found = re.search(r'data-probe="(.*?)"', dom)
    assert found, dom[-2000:]
    answer = json.loads(html.unescape(found[1]))
    assert answer["shown"] == width
    return dict(answer)


def browse(body: str, folder: Path, *, dark: bool = False) -> str:
    """The document that a browser makes of this body."""
    outer = folder / "frame.html"
    outer.write_text(f'<!DOCTYPE html><meta charset="utf-8">{body}', encoding="utf-8")
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--window-size=1400,1000",
        "--dump-dom",
        outer.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    return done.stdout.decode()
