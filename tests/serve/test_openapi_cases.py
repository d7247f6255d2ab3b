"""Requests made up from the description of the API: whatever comes, the server has no fault.

CI makes a few; two thousand and more are made by

    RATIOREC_CASES=500 python -m pytest tests/serve/test_openapi_cases.py -s
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Categories, Numbers
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.model.artifact import Artifact
from ratiorec.scorers import InnerProduct
from support.serve_process import running
from support.small_scorers import rows_of

CASES_FOR_EACH_ADDRESS = int(os.environ.get("RATIOREC_CASES", "12"))
TOKEN = "administrator-9012"


def model_of_the_examples() -> Artifact:
    """Knows the users and items that the description gives as examples."""
    rng = np.random.default_rng(0)
    kinds = Categories.of(["tea", "jam", None])
    table = Attributes(3, {"kind": kinds, "price": Numbers(np.array([9.5, np.nan, 60]))})
    return Artifact(
        InnerProduct(*(rng.standard_normal((3, 2), dtype=np.float32) for _ in range(2))),
        Vocabulary(np.array(["ada", "bob", "cy"], object), "user"),
        Vocabulary(np.array(["tea", "jam", "oats"], object), "item"),
        rows_of([[0, 1], [0, 2], [1]]),
        item_table=table,
    )


def test_no_request_that_fits_or_nearly_fits_the_description_finds_a_fault(tmp_path: Path) -> None:
    model_of_the_examples().save(tmp_path / "model")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "filters.toml").write_text("[filters]\ncheap = 'price < 50'\n")
    (tmp_path / "rules.toml").write_text("[home]\nlimits = {kind = 1}\n")
    options = ("--admin-token-file", str(tmp_path / "token"), "--user-search")
    names = ("--filters", str(tmp_path / "filters.toml"), "--rules", str(tmp_path / "rules.toml"))
    variants = (f"b={tmp_path / 'model'}", "--split", "a:50,b:50")
    model = f"a={tmp_path / 'model'}"
    with running(model, tmp_path / "log", *variants, *options, *names) as server:
        command = [
            *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
            *("run", f"http://{server.host}:{server.port}/openapi.json"),
            *("--checks", "not_a_server_error", "--seed", "0", "--no-color"),
            *("--max-examples", str(CASES_FOR_EACH_ADDRESS)),
            *("--header", f"Authorization: Bearer {TOKEN}"),
        ]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert server.ask("GET", "/health/ready")[0] == 200
        requests = server.events("request")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    made = re.search(r"(\d+) generated", done.stdout)
    assert made is not None
    print(f"{made[1]} cases")
    statuses = {request["status"] for request in requests}
    assert {200, 404, 422} <= statuses
    assert max(statuses) < 500
