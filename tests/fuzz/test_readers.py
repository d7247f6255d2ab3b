"""Readers of foreign input, fuzzed in a child process with a memory limit.

Each case ends well or with an error of ours; never with another error, a crash, no end, or more
memory than allowed. `tests/corpus` holds every kind of finding so far.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ratiorec_lab.fuzz.cases import SOURCES, Files
from ratiorec_lab.fuzz.run import Tally, run

CORPUS = Path(__file__).parents[1] / "corpus"
N_CASES = 120

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory limit needs Linux"
)


def files_of(finding: Path) -> Files:
    """A finding as it was given to the reader: a folder, or a file under its usual name."""
    if finding.is_dir():
        return {file.name: file.read_bytes() for file in finding.iterdir()}
    return {f"p.{finding.name.partition('.')[2]}": finding.read_bytes()}


def require_none(tally: Tally) -> None:
    told = "\n\n".join(f"{found.kind}: {found.detail}" for found in tally.findings[:5])
    assert not tally.findings, f"{len(tally.findings)} findings\n{told}"


@pytest.mark.parametrize("reader", SOURCES)
def test_a_reader_survives_whatever_it_is_given(reader: str) -> None:
    tally = run(reader, SOURCES[reader].cases(N_CASES, seed=0))
    require_none(tally)
    assert tally.outcomes.total() == N_CASES
    assert min(tally.outcomes["read"], tally.outcomes["refused"]) > 0


@pytest.mark.parametrize("reader", sorted(folder.name for folder in CORPUS.iterdir()))
def test_what_was_found_once_is_survived(reader: str) -> None:
    findings = sorted((CORPUS / reader).iterdir())
    tally = run(reader, map(files_of, findings))
    require_none(tally)
    assert tally.outcomes.total() == len(findings) > 0


def test_an_error_a_crash_and_a_hang_are_findings() -> None:
    cases: list[Files] = [{"raise": b""}, {"exit": b""}, {"hang": b""}, {"memory": b""}, {}]
    tally = run("fault", cases, memory_mb=200, seconds_a_case=5)
    assert [found.kind for found in tally.findings] == ["error", "crash", "hang", "error"]
    assert "MemoryError" in tally.findings[-1].detail
    assert tally.outcomes["read"] == 1
