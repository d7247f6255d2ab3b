from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_spine_is_what_a_newcomer_can_read() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = text[text.index("<!-- spine: begin -->") : text.index("<!-- spine: end -->")]
    spine = [ROOT / name for name in re.findall(r"^\d+\. `([^`]+)`", listed, re.MULTILINE)]
    assert 10 <= len(spine) <= 14
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in spine}
    assert sum(lines.values()) <= 3500, lines
