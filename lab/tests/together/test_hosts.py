from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ratiorec_lab.together import hosts
from ratiorec_lab.together.hosts import run_alone, run_on_two_hosts
from ratiorec_lab.together.watched import Job, found_by

TINY = "dre-mf:encoder.dimension=4:batches.n_users=25"
JOB = Job({"users": 60, "items": 40, "pairs": 400}, TINY, n_steps=2, cut_for=(2,))


def namespaces() -> str:
    return subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(
    shutil.which("ip") is None or os.geteuid() != 0, reason="network namespaces need root and ip"
)
def test_two_hosts_train_together_and_leave_no_namespace() -> None:
    before = namespaces()
    try:
        ((first, second),) = found_by(run_on_two_hosts, [JOB])
    except OSError as error:
        pytest.skip(f"no network namespaces: {error}")
    assert {*first["digests"], *second["digests"]} == {"0 of 2", "1 of 2"}
    assert first["bytes"]["tables"] == second["bytes"]["tables"] == (30 + 20) * 4 * 4
    assert first["steps"][1]["n_bytes"] > 0
    assert namespaces() == before


def test_hosts_that_cannot_be_had_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="no command `ip`"):
        run_on_two_hosts("this")


def test_what_a_process_said_before_it_failed_is_told() -> None:
    with pytest.raises(RuntimeError, match="No module named no_such_module"):
        run_alone("no_such_module")
