"""Writes the result tables of README and docs, and their images, from the JSON files beside this.

`python results/table.py` rewrites them; with `--check` it only says whether they are up to date,
by its exit code.
"""

from __future__ import annotations

import functools
import itertools
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import intake
import performance
from lines import Line, Record, lines

from ratiorec.presets import PRESETS
from ratiorec_lab.reproduce.names import METRICS, figure, listed
from ratiorec_lab.reproduce.wording import difference_text

HERE = Path(__file__).parent
ROOT = HERE.parent
SHORT = 0.03  # of a published figure
OUTDATED = "†"
OWN = ("dregn-cf", "dregn-cf-fast")


def method_lines(found: Iterable[Line]) -> list[Line]:
    """The paper's own method."""
    return [line for line in found if line.key.preset in OWN]


def rival_lines(found: Iterable[Line]) -> list[Line]:
    """Every preset where there are rivals, the best first: on a card if it was run on one."""
    every = sorted(found, key=_is_on_card)
    chosen = {line.key[:2]: line for line in every}
    rivals_on = {dataset for dataset, name in chosen if name not in OWN}
    return sorted(
        (line for line in chosen.values() if line.key.dataset in rivals_on),
        key=lambda line: (line.key.dataset, -line.measured("ndcg@20").mean),
    )


def _is_on_card(line: Line) -> bool:
    return "accelerator" in line.records[0]["machine"]


def metric(name: str) -> Callable[[Line], str]:
    """`.1813 ± .0004`, as the paper prints it, with half of the interval where there is one."""

    def written(line: Line) -> str:
        measured = line.measured(name)
        ends = measured.interval
        spread = "" if ends is None else f" ± {figure((ends[1] - ends[0]) / 2)}"
        return figure(measured.mean) + spread

    return written


def published(line: Line) -> str:
    """The figures of others, or that there are none."""
    known = [line.measured(name).published for name in METRICS]
    return "not published" if None in known else " / ".join(map(figure, known))


def difference(line: Line) -> str:
    """How far ours are from the published ones."""
    both = [line.measured(name) for name in METRICS]
    return " / ".join(difference_text(m.mean, m.published) for m in both if m.published)


def seconds(value: float) -> str:
    """Three digits where there are as many."""
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def refit_times(record: Record) -> list[float]:
    """When each epoch of the refit ended, and before them when the search did."""
    ends = [line["seconds"] for line in record["curve"] if line["phase"] == "refit"]
    searched = [line["seconds"] for line in record["curve"] if line["phase"] == "search"]
    return searched[-1:] + ends


def per_epoch(record: Record) -> float:
    """The median time of an epoch of the refit, where nothing is validated."""
    return statistics.median(b - a for a, b in itertools.pairwise(refit_times(record)))


def to_the_end(record: Record) -> float:
    """The time of the refit: training alone, as far as the chosen epoch."""
    ends = refit_times(record)
    return ends[-1] - ends[0]


def ended_by(line: Line) -> str:
    """What ended the search, with every seed."""
    return ", ".join(sorted({r.get("stopped_by") or "not recorded" for r in line.records}))


Column = Callable[[Line], str]
FIRST: dict[str, Column] = {
    "data set": lambda line: line.key.dataset,
    "preset": lambda line: f"`{line.key.preset}`{OUTDATED * line.is_outdated}",
    "seeds": lambda line: str(len(line.records)),
    **{METRICS[name]: metric(name) for name in METRICS},
    "published": published,
    "difference": difference,
    "epochs": lambda line: f"{line.mean(lambda r: r['epochs']):.0f}",
}
METHOD: dict[str, Column] = FIRST | {
    "training": lambda line: f"{line.mean(lambda r: r['seconds']['train']):.0f} s",
    "peak memory": lambda line: f"{line.mean(lambda r: r['peak_memory_mb']) / 1024:.1f} GiB",
    "device": lambda line: line.key.device,
}
RIVALS: dict[str, Column] = FIRST | {
    "search ended by": ended_by,
    "an epoch": lambda line: seconds(line.mean(per_epoch)),
    "to that epoch": lambda line: seconds(line.mean(to_the_end)),
    "search and refit": lambda line: seconds(line.mean(lambda r: r["seconds"]["train"])),
    "device": lambda line: line.key.device,
}


def table(columns: dict[str, Column], found: list[Line]) -> str:
    """A table in Markdown."""
    rows = [[cell(line) for cell in columns.values()] for line in found]
    note = f"\n\n{OUTDATED} with settings that the preset has left since."
    return performance.markdown(list(columns), rows) + note * any(x.is_outdated for x in found)


def rivals(found: list[Line]) -> str:
    """The table, what in it falls short, and what is not in it."""
    told = [*short(found), *missing(found)]
    heading = "Short of a published figure by more than 3 %, or not measured:"
    return "\n\n".join([table(RIVALS, found), *([heading, "\n".join(told)] if told else [])])


def short(found: Iterable[Line]) -> Iterator[str]:
    """A line for each preset that is below a published figure by more than 3 %."""
    for line in found:
        measured = {METRICS[name]: line.measured(name) for name in METRICS}
        below = [
            f"{title} {difference_text(one.mean, one.published)}"
            for title, one in measured.items()
            if one.published and one.relative_difference < -SHORT
        ]
        if below:
            yield f"- {line.key.dataset}, `{line.key.preset}`: {listed(below)}."


def missing(found: list[Line]) -> Iterator[str]:
    """The presets that were not run, with the data sets on which they were not."""
    run = {line.key[:2] for line in found}
    datasets = sorted({line.key.dataset for line in found})
    presets: dict[str, list[str]] = {}
    for name in PRESETS:
        where = listed([dataset for dataset in datasets if (dataset, name) not in run])
        presets.setdefault(where, []).append(f"`{name}`")
    for where, names in presets.items():
        if where:
            yield f"- {where}: {listed(names)} not measured."


def with_table(text: str, name: str, content: str) -> str:
    """A page with one of its tables renewed."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{content}\n{end}{after}"


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    found = lines(HERE)
    tables = {
        ROOT / "README.md": {"results": table(METHOD, method_lines(found))},
        ROOT / "docs" / "rivals.md": {"rivals": rivals(rival_lines(found))},
        ROOT / "docs" / "guide.md": {"intake": intake.table()},
        ROOT / "docs" / "performance.md": performance.tables(),
    }
    images = {ROOT / "docs" / name: image for name, image in performance.images().items()}
    return images | {
        page: functools.reduce(
            lambda text, named: with_table(text, *named),
            contents.items(),
            page.read_text(encoding="utf-8"),
        )
        for page, contents in tables.items()
    }


def main(arguments: list[str]) -> int:
    """Rewrite, or only check."""
    found = pages()
    if "--check" not in arguments:
        for page, text in found.items():
            page.write_text(text, encoding="utf-8")
        return 0
    old = [p for p, text in found.items() if not p.exists() or p.read_text("utf-8") != text]
    for page in old:
        print(f"{page.relative_to(ROOT)} is not what the results give", file=sys.stderr)
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
