"""The notebooks are kept without what they print; the site is built by running them."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def test_there_are_three_and_none_holds_what_it_printed() -> None:
    paths = sorted(FOLDER.glob("*.ipynb"))
    assert len(paths) == 3
    for path in paths:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert code
        assert not any(cell["outputs"] or cell["execution_count"] for cell in code), path
