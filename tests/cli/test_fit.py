from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec import progress
from ratiorec.cli.fit import _far_from_converged, _tell_of_candidates
from ratiorec.cli.progress import StopRequest
from ratiorec.data.interactions import Dataset
from ratiorec.files import sole_writer
from ratiorec.model.artifact import Artifact
from ratiorec.model.store import read_model
from ratiorec.training.checkpoint import FILE
from ratiorec.training.fit import StepTaken
from support.command_line import QUICK, CommandLine, everything_in
from support.forked_command import ForkedCommand


def arrays(model: Path) -> dict[str, bytes]:
    """Every array of a model, to the last bit."""
    return {name: array.tobytes() for name, array in read_model(model)[1].items()}


def interrupting(monkeypatch: pytest.MonkeyPatch, *steps: int, number: int = signal.SIGINT) -> None:
    """Press Ctrl-C after these steps, counted over the whole fit."""
    plain = progress.FitProgress.__call__
    taken = 0

    def watched(self: progress.FitProgress, event: Any) -> None:
        nonlocal taken
        plain(self, event)
        taken += isinstance(event, StepTaken)
        if isinstance(event, StepTaken) and taken in steps:
            signal.raise_signal(number)

    monkeypatch.setattr(progress.FitProgress, "__call__", watched)


def test_a_file_of_pairs_becomes_a_model(cli: CommandLine, clicks: Path, tmp_path: Path) -> None:
    outcome = cli("fit", clicks, "-o", "model", *QUICK)
    assert outcome.code == 0
    assert "model: model" in outcome.out
    model = Artifact.load(tmp_path / "model")
    assert len(model.users) == 60
    assert model.card["data"]["name"] == "clicks"
    assert {path.name for path in tmp_path.iterdir()} == {
        "clicks.csv",
        "model",
        "model.training.jsonl",
    }


def test_json_has_the_keys_of_the_contract(cli: CommandLine, clicks: Path) -> None:
    found = cli("fit", clicks, "-o", "model", *QUICK, "--json").json
    for name in ("preset", "seed", "device", "steps", "epochs", "peak_memory_mb", "model"):
        assert name in found
    assert found["seconds"].keys() >= {"train", "total"}
    assert found["validation"].keys() == {"recall@20", "ndcg@20"}
    assert found["test"] is None
    assert (found["preset"], found["seed"], found["device"]) == ("dregn-cf", 0, "cpu")
    assert found["model"] == "model"


def test_json_has_test_figures_where_there_is_a_test_part(cli: CommandLine, clicks: Path) -> None:
    assert cli("data", "split", clicks, "-o", "parts", "--fraction", "0.2").code == 0
    found = cli("fit", "parts", "-o", "model", *QUICK, "--json").json
    assert found["test"].keys() == {"recall@20", "ndcg@20"}
    assert all(0 <= value <= 1 for value in found["test"].values())


def test_progress_goes_to_standard_error(cli: CommandLine, clicks: Path) -> None:
    outcome = cli("fit", clicks, "-o", "model", *QUICK)
    read, *lines = outcome.err.splitlines()
    assert read.startswith(f"read {clicks}: user = ")
    assert [line.split(":")[0] for line in lines] == [f"search epoch {n}" for n in (1, 2, 3)]
    assert all("validation recall@20 0." in line for line in lines)
    assert "search" not in outcome.out


def test_without_validation_the_configured_epochs_are_trained(
    cli: CommandLine, clicks: Path
) -> None:
    found = cli("fit", clicks, "-o", "model", *QUICK, "--validation", "0", "--json").json
    assert found["epochs"] == 3
    assert found["validation"] is None


def test_the_way_validation_pairs_are_drawn_is_in_the_summary_the_card_and_the_result_file(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    fit = ("fit", clicks, "-o", "model", "--preset", "popularity", "--json")
    for by, told in (((), "random"), (("--validation-by", "last"), "last")):
        outcome = cli(*fit, *by, "--record", "r.json")
        assert outcome.json["validation_by"] == told
        assert Artifact.load(tmp_path / "model").card["validation_by"] == told
        assert json.loads((tmp_path / "r.json").read_text())["validation_by"] == told
        assert ("warning: the pairs are sorted by item" in outcome.err) is (told == "last")
    assert cli(*fit, "--validation", 0).json["validation_by"] is None


def test_the_choice_says_why_timestamps_of_days_are_not_used(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = [f"{user},{item},2024-01-0{1 + user % 9}" for user in range(30) for item in range(9)]
    (tmp_path / "days.csv").write_text("\n".join(["user,item,timestamp", *rows]) + "\n")
    fit = ("fit", "days.csv", "-o", "model", "--max-seconds", 2)
    note = "for 100.0% of the users no pair is earlier"
    assert f"note: {note}" in cli(*fit).err
    assert note not in cli(*fit, "--validation-by", "random").err
    assert f"warning: {note}" in cli(*fit, "--validation-by", "last").err


def test_a_cut_in_time_needs_times(cli: CommandLine, clicks: Path) -> None:
    refusal = cli(
        "fit", clicks, "-o", "model", "--preset", "popularity", "--validation-by", "time"
    ).refusal
    assert "where: --validation-by time; found: no timestamps" in refusal


def test_without_refit_the_validated_model_is_kept(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    cli("fit", clicks, "-o", "kept", *QUICK, "--no-refit")
    phases = [record["phase"] for record in Artifact.load(tmp_path / "kept").card["curve"]]
    assert set(phases) == {"search"}


def test_a_time_budget_still_gives_a_model(cli: CommandLine, clicks: Path) -> None:
    found = cli("fit", clicks, "-o", "model", *QUICK, "--max-seconds", "1e-6", "--json").json
    assert (found["steps"], found["stopped_by"]) == (1, "time budget")


@pytest.mark.parametrize("validation", [0.1, 0])
def test_a_budget_that_is_too_short_says_what_is_kept_and_how_far_it_is(
    cli: CommandLine, clicks: Path, validation: float
) -> None:
    fit = ("fit", clicks, "-o", "model", *QUICK, "--validation", validation)
    told = cli(*fit, "--max-seconds", "1e-6").err
    assert "--max-seconds 1e-06 ended the training: the model of step 1 is kept (epoch 0.1" in told
    assert "nothing says how far it is from converged" in told
    assert "--preset auto" in told
    assert "warning: --max-seconds" not in cli(*fit).err


def test_an_automatic_choice_without_time_says_what_is_kept_and_what_was_not_tried(
    cli: CommandLine, clicks: Path
) -> None:
    outcome = cli("fit", clicks, "-o", "model", "--device", "cpu", "--max-seconds", "1e-6")
    (told,) = [line for line in outcome.err.splitlines() if line.startswith("warning: --max-sec")]
    assert outcome.code == 0
    assert re.search(r"--max-seconds 1e-06 was too short for \d+ of \d+ candidates: ", told)
    assert "popularity is kept, ndcg@20 0." in told
    assert re.search(r"; not tried: .*dregn-cf.*; more --max-seconds$", told)


def test_a_better_candidate_that_could_not_be_refitted_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = {"weight": 0.0, "why": "left out: about 9 s needed for its refit, too little is left"}
    members = [
        {"name": "walk", "weight": 1.0, "why": "chosen", "validation": {"ndcg@20": 0.2}},
        {"name": "ease", **late, "validation": {"ndcg@20": 0.3}},
        {"name": "dan", **late, "validation": {"ndcg@20": 0.1}},
    ]
    _tell_of_candidates({"members": members, "validation": {"ndcg@20": 0.2}}, 5)
    told = "walk is kept, ndcg@20 0.2000; ease had 0.3000 and could not be fitted to all pairs"
    assert told in capsys.readouterr().err
    _tell_of_candidates({"members": members[:1], "validation": {"ndcg@20": 0.2}}, 5)
    assert capsys.readouterr().err == ""


def test_resuming_without_a_checkpoint_is_told(cli: CommandLine, clicks: Path) -> None:
    fit = ("fit", clicks, "-o", "model", *QUICK)
    told = "note: there is no checkpoint in model.checkpoint: training starts anew"
    assert told in cli(*fit, "--resume").err.splitlines()
    assert told not in cli(*fit).err


def test_how_far_a_search_came_is_told_by_its_validations() -> None:
    assert "from 0.2000 to 0.2500 at the last of 3" in _far_from_converged([0.1, 0.2, 0.25])
    assert "no gain at the last 2 of 4" in _far_from_converged([0.1, 0.3, 0.2, 0.25])
    assert "at most once" in _far_from_converged([0.1])


def test_the_seed_decides_the_bits(cli: CommandLine, clicks: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert cli("fit", clicks, "-o", name, *QUICK, "--seed", seed).code == 0
    a, b, c = (arrays(tmp_path / name) for name in "abc")
    assert a == b
    assert a["scorer.users"] != c["scorer.users"]


def test_a_settings_file_and_single_settings_are_laid_over_the_preset(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(
        '[risk]\nweights = "uniform"\n[training]\nepochs = 1\nl2 = 0.5\n'
    )
    outcome = cli(
        *("fit", clicks, "-o", "model", "--preset", "dre-mf", "--config", "mine.toml"),
        *("--set", "training.epochs=2", "--set", "encoder.dimension=3", "--device", "cpu"),
    )
    assert outcome.code == 0
    settings = Artifact.load(tmp_path / "model").settings
    assert settings["encoder"] == {
        "kind": "factorisation",
        "dimension": 3,
        "init": {"kind": "xavier", "gain": 0.1},
        "normalize": False,
        "popularity_term": 0.0,
    }
    assert settings["risk"]["weights"] == {"kind": "uniform"}
    assert (settings["training"]["epochs"], settings["training"]["l2"]) == (2, 0.5)


def test_whoever_gives_weights_is_told_once_that_a_model_does_not_use_them(
    cli: CommandLine, clicks: Path
) -> None:
    lines = clicks.read_text().splitlines()
    weighted = [f"{lines[0]},weight", *(f"{line},{n % 3 + 1}" for n, line in enumerate(lines[1:]))]
    clicks.write_text("\n".join(weighted))
    done = cli("fit", clicks, "-o", "weighted", "--preset", "graph-filter")
    assert done.code == 0
    assert done.err.count("graph-filter counts all pairs alike") == 1
    assert "alike" not in cli("fit", clicks, "-o", "m", "--preset", "popularity").err
    clicks.write_text("\n".join(lines))
    assert "alike" not in cli("fit", clicks, "-o", "n", "--preset", "graph-filter").err


def test_every_epoch_is_a_line_of_the_log(cli: CommandLine, clicks: Path, tmp_path: Path) -> None:
    cli("fit", clicks, "-o", "model", *QUICK, "--log", "logs/run.jsonl")
    lines = (tmp_path / "logs" / "run.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == Artifact.load(tmp_path / "model").card["curve"]
    assert not (tmp_path / "model.training.jsonl").exists()


def test_a_model_may_take_the_place_of_a_model(cli: CommandLine, clicks: Path, model: Path) -> None:
    before = arrays(model)
    assert cli("fit", clicks, "-o", model, *QUICK, "--seed", 7).code == 0
    assert arrays(model) != before


def test_a_model_may_be_written_to_the_working_folder(
    cli: CommandLine, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli("fit", clicks, "-o", ".", *QUICK).code == 0
    assert len(Artifact.load(tmp_path / "here").items) == 40


def test_a_result_file_is_written_beside_the_model(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    cli("fit", clicks, "-o", "model", *QUICK, "--record", "result.json", "--validation", "0")
    record = json.loads((tmp_path / "result.json").read_text())
    assert record["protocol"] == "fixed epochs"
    assert record["command"].startswith("ratiorec fit ")
    assert record["command"].endswith(" --validation 0")
    assert "result.json" not in record["command"]
    assert record["dataset"] == "clicks"


def test_only_the_checkpoint_is_removed_from_its_folder(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "thesis.txt").write_text("mine")
    options = ("--checkpoint-dir", "kept", "--checkpoint-seconds", 0)
    assert cli("fit", clicks, "-o", "model", *QUICK, *options).code == 0
    assert everything_in(tmp_path / "kept") == {"thesis.txt": b"mine"}


def test_the_checkpoint_needs_a_folder_of_its_own(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    outcome = cli("fit", clicks, "-o", "model", *QUICK, "--checkpoint-dir", "./model")
    assert "checkpoint and model would share a folder" in outcome.refusal
    assert [path.name for path in tmp_path.iterdir()] == ["clicks.csv"]


@pytest.mark.parametrize("options", [(), ("--no-refit",), ("--validation", "0")])
@pytest.mark.parametrize("step", [2, 9])
def test_a_run_interrupted_and_resumed_equals_the_uninterrupted(
    cli: CommandLine,
    clicks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    step: int,
) -> None:
    assert cli("fit", clicks, "-o", "whole", *QUICK, *options).code == 0
    with monkeypatch.context() as patch:
        interrupting(patch, step)
        stopped = cli("fit", clicks, "-o", "model", *QUICK, *options)
    assert (stopped.code, stopped.out) == (130, "")
    assert "the same command with --resume goes on from here" in stopped.err
    assert "Traceback" not in stopped.err
    assert not (tmp_path / "model").exists()
    assert [file.name for file in (tmp_path / "model.checkpoint").iterdir()] == [FILE]
    assert cli("fit", clicks, "-o", "model", *QUICK, *options, "--resume").code == 0
    assert arrays(tmp_path / "model") == arrays(tmp_path / "whole")
    assert not (tmp_path / "model.checkpoint").exists()


def test_a_polite_kill_saves_as_well(
    cli: CommandLine, clicks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupting(monkeypatch, 1, number=signal.SIGTERM)
    assert cli("fit", clicks, "-o", "model", *QUICK).code == 143
    assert (tmp_path / "model.checkpoint" / FILE).is_file()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_twice_leaves_at_once(
    cli: CommandLine,
    clicks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    plain = StopRequest.ask

    def twice(self: StopRequest, number: int, frame: Any) -> None:
        plain(self, number, frame)
        plain(self, number, frame)

    monkeypatch.setattr(StopRequest, "ask", twice)
    interrupting(monkeypatch, 1, number=number)
    outcome = cli("fit", clicks, "-o", "model", *QUICK)
    assert outcome.code == code
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind on Windows")
def test_a_fit_waits_for_an_update_of_the_same_folder_and_says_so(
    cli: CommandLine, clicks: Path, model: Path
) -> None:
    with sole_writer(model):
        process = ForkedCommand("fit", str(clicks), "-o", str(model), *QUICK, "--seed", "5")
        before = everything_in(model)
        while process.poll() is None and "waiting for" not in process.said():
            time.sleep(0.01)
        assert everything_in(model) == before
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert everything_in(model).keys() != before.keys()


def test_after_training_signals_mean_what_they_did_before(cli: CommandLine, clicks: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    cli("fit", clicks, "-o", "model", *QUICK)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def wait_for(path: Path, process: ForkedCommand) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def test_a_real_ctrl_c_in_a_process_of_its_own(
    cli: CommandLine, clicks: Path, tmp_path: Path
) -> None:
    options = (*QUICK, "--validation", "0", "--set", "training.epochs=60")
    slowly = ("--checkpoint-seconds", "0")  # so that the signal comes in time
    command = ("fit", str(clicks), "-o", "model", *options, *slowly)
    process = ForkedCommand(*command)
    wait_for(tmp_path / "model.training.jsonl", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "with --resume goes on from here" in err
    assert "Traceback" not in err
    assert cli("fit", clicks, "-o", "model", *options, "--resume").code == 0
    assert cli("fit", clicks, "-o", "whole", *options).code == 0
    assert arrays(tmp_path / "model") == arrays(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (("--seed", "1"), "seed differ"),
        (("--set", "training.l2=0.3"), "settings differ"),
        (("--validation", "0.3"), "validation differ"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_kept(
    cli: CommandLine,
    clicks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changed: tuple[str, ...],
    what: str,
) -> None:
    with monkeypatch.context() as patch:
        interrupting(patch, 5)
        cli("fit", clicks, "-o", "model", *QUICK)
    before = everything_in(tmp_path)
    outcome = cli("fit", clicks, "-o", "model", *QUICK, *changed, "--resume")
    assert what in outcome.refusal
    assert everything_in(tmp_path) == before


def test_the_model_ranks_as_the_python_interface_does(
    cli: CommandLine, clicks: Path, tmp_path: Path, dataset: Dataset
) -> None:
    cli("fit", clicks, "-o", "model", *QUICK)
    model = Artifact.load(tmp_path / "model")
    assert set(model.users.ids) == set(dataset.train.users.ids)
    assert np.bincount(model.seen.indices).sum() == dataset.train.n_pairs
