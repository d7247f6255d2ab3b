"""Every figure in the README comes from a file under results/."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORDS = sorted((ROOT / "results").glob("fit-*.json"))
KEYS = {
    "target",
    "dataset",
    "data_sha256",
    "preset",
    "settings",
    "protocol",
    "seed",
    "steps",
    "seconds",
    "validation",
    "test",
    "curve",
    "machine",
    "versions",
    "commit",
    "command",
}


def test_the_table_in_the_readme_is_the_one_the_results_give():
    done = subprocess.run([sys.executable, ROOT / "results" / "table.py", "--check"], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_fit_record_says_how_it_was_obtained(path):
    record = json.loads(path.read_text())
    assert record.keys() >= KEYS
    assert {"train", "total"} <= record["seconds"].keys()
    assert record["command"].startswith("ratiorec fit")


def test_there_are_records():
    assert RECORDS
