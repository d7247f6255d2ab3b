from __future__ import annotations

import re
import subprocess
import sys

import pytest

# ten of the modules read a CSV, one judges the order of its pairs, two draw the item map
MOST_MODULES, MOST_BORDERS = 51, 47


@pytest.fixture(scope="module")
def told() -> str:
    """In a process of its own: shape checks would stand between the calls of this one."""
    trace = [sys.executable, "-m", "ratiorec_lab.bench.trace"]
    return subprocess.run(trace, check=True, capture_output=True, text=True).stdout


def test_a_fit_goes_through_few_modules(told: str) -> None:
    found = re.search(r"^fit: (\d+) modules\n(.*)", told)
    assert found is not None
    assert int(found[1]) == len(found[2].split(" → "))
    assert found[2].startswith("cli.app → ")
    assert " → cli.fit → " in found[2]
    assert int(found[1]) <= MOST_MODULES


def test_a_training_step_crosses_few_module_borders(told: str) -> None:
    found = re.search(r"^step to step: (\d+) module borders\n((?: .*\n)+)", told, re.MULTILINE)
    assert found is not None
    assert int(found[1]) == sum(int(line.split()[0]) for line in found[2].splitlines())
    assert int(found[1]) <= MOST_BORDERS
