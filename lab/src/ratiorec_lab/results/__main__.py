"""Writes the result tables of README and docs, their images, and the figures of `ratiorec plan`.

`python -m ratiorec_lab.results [ROOT]` rewrites them in a clone of the repository; with `--check`
it only says whether the tables are up to date, by its exit code.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from ratiorec_lab.results import (
    auto,
    install,
    lists,
    performance,
    plan,
    quality,
    ranks,
    reproduction,
    soak,
)
from ratiorec_lab.results.summary import summary_table


def pages(root: Path) -> dict[Path, str]:
    """The pages as they should be."""
    results, docs = root / "results", root / "docs"
    found = quality.lines(results)
    tables = {
        root / "README.md": {"summary": summary_table(results)},
        docs / "results.md": {
            "summary": summary_table(results),
            "auto": auto.default_table(results),
            "results": quality.method_table(found),
        },
        docs / "auto.md": auto.tables(results),
        docs / "decisions.md": {"telescoping": auto.telescoping_table(results)},
        docs / "bulk.md": {"engines": performance.engines_table(results)},
        docs / "install.md": install.tables(results),
        docs / "how-to" / "filters-and-rules.md": lists.tables(results),
        docs / "how-to" / "plan.md": plan.tables(results),
        docs / "rivals.md": {
            "rivals": quality.rivals_table(found),
            "alternatives": quality.alternatives_table(results),
            "unstopped": reproduction.unstopped_table(results),
            "steps": performance.steps_table(results),
        },
        docs / "guide.md": {"intake": quality.intake_table(results)},
        docs / "how-to" / "read-log.md": {
            "larger-than-memory": performance.larger_than_memory_table(results)
        },
        docs / "how-to" / "many-processes.md": ranks.tables(results),
        docs / "performance.md": performance.tables(results),
        docs / "production.md": {
            "serving": performance.serving_table(results),
            "soak": soak.soak_part(results),
        },
        docs / "reproduce.md": {
            "public-splits": quality.splits_table(results),
            **reproduction.tables(results),
        },
    }
    written = {
        page: functools.reduce(
            lambda text, named: with_table(text, *named),
            contents.items(),
            page.read_text(encoding="utf-8"),
        )
        for page, contents in tables.items()
    }
    return written | {root / plan.RATES: plan.rates(results)}


def with_table(text: str, name: str, content: str) -> str:
    """A page with one of its tables renewed."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def main() -> int:
    """Rewrite, or only check; an image is not compared, since its library draws it anew."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("root", nargs="?", type=Path, default=Path())
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    written = pages(asked.root)
    results = asked.root / "results"
    drawn = (performance, soak, ranks, lists)
    images = {name: image for part in drawn for name, image in part.images(results).items()}
    if asked.check:
        old = [page for page, text in written.items() if page.read_text("utf-8") != text]
        old += [image for name in images if not (image := asked.root / "docs" / name).exists()]
        for page in old:
            print(f"{page} is not what the results give", file=sys.stderr)
        return int(bool(old))
    for page, text in written.items():
        page.write_text(text, encoding="utf-8")
    for name, image in images.items():
        (asked.root / "docs" / name).write_text(image, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
