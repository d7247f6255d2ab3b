"""Every formula stands once in docs/theory.md, under an id that the source cites."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
CITATION = re.compile(r"\(theory: ([A-Z]\d+(?:, [A-Z]\d+)*)\)")
HEADING = re.compile(r"^#+ ([A-Z]\d+)\b", re.MULTILINE)


def cited() -> dict[str, list[str]]:
    """Where each id is cited."""
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for found in CITATION.finditer(path.read_text(encoding="utf-8")):
            for identifier in found[1].split(", "):
                places.setdefault(identifier, []).append(str(path.relative_to(ROOT)))
    return places


def explained() -> list[str]:
    return HEADING.findall((ROOT / "docs" / "theory.md").read_text(encoding="utf-8"))


def test_every_cited_formula_is_explained() -> None:
    unknown = {
        identifier: at for identifier, at in cited().items() if identifier not in explained()
    }
    assert not unknown


def test_every_explained_formula_is_cited() -> None:
    assert not sorted(set(explained()) - cited().keys())


def test_every_formula_is_explained_once() -> None:
    assert [identifier for identifier, n in Counter(explained()).items() if n > 1] == []


def test_no_citation_is_malformed() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert text.count("theory:") == len(CITATION.findall(text)), path
