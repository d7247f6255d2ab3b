from __future__ import annotations

import json
import sys

import pytest

from ratiorec_lab.studies import kill_and_resume
from support.forked_command import ForkedCommand


def test_a_killed_run_goes_on_to_the_same_bits_and_leaves_no_half_written_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # this seed aims one kill at training and the other at the saving of the model
    options = ("--rounds", "2", "--most-kills", "1", "--epochs", "6", "--seed", "1195")
    monkeypatch.setattr(sys, "argv", ["kill_and_resume", *options])
    monkeypatch.setattr(kill_and_resume, "started", ForkedCommand)
    assert kill_and_resume.main() == 0, capsys.readouterr()
    report = json.loads(capsys.readouterr().out)
    assert (report["rounds"], report["equal"], report["half_written"]) == (2, 2, [])
    assert report["kills"] == 2
    assert report["killed_while"].get("training", 0) >= 1
