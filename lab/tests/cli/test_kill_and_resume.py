from __future__ import annotations

import json
import subprocess
import sys

STUDY = "ratiorec_lab.studies.kill_and_resume"


def test_a_killed_run_goes_on_to_the_same_bits_and_leaves_no_half_written_file() -> None:
    # this seed aims one kill at training and the other at the saving of the model
    options = ("--rounds", "2", "--most-kills", "1", "--epochs", "6", "--seed", "1195")
    done = subprocess.run(
        [sys.executable, "-m", STUDY, *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["rounds"], report["equal"], report["half_written"]) == (2, 2, [])
    assert report["kills"] == 2
    assert report["killed_while"].get("training", 0) >= 1
