from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ratiorec.config import to_table
from ratiorec.data.interactions import Dataset, Interactions
from ratiorec.data.split import RatioSplit
from ratiorec.data.synthetic import Synthetic
from ratiorec.encoders.settings import LightGCN
from ratiorec.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DeviceError,
    DivergenceError,
    StoppedError,
    StorageError,
)
from ratiorec.model.artifact import Artifact
from ratiorec.presets import PRESETS
from ratiorec.scorers import InnerProduct
from ratiorec.settings import (
    AutoSettings,
    BlendMember,
    BlendSettings,
    Settings,
    Training,
    UserBatches,
)
from ratiorec.training.checkpoint import Checkpoints
from ratiorec.training.experiment import (
    TrainingLog,
    find_device,
    fit,
    result_record,
    weights_note,
)
from ratiorec.training.fit import EpochFinished, FitOptions, StepTaken
from support.small_data import interactions

POPULATION = Synthetic(n_users=60, n_items=40, mean_pairs=12)
DATASET = POPULATION(rng=np.random.default_rng(0)).dataset
SETTINGS = Settings(
    encoder=LightGCN(4, n_layers=1),
    batches=UserBatches(20),
    training=Training(
        learning_rate=0.1,
        epochs=3,
        validate_every_epochs=1,
        min_steps_between_validations=1,
        patience=2,
    ),
)
N_STEPS = 3 * 3


def quick(
    data: Interactions | Dataset = DATASET,
    options: FitOptions = FitOptions(),  # noqa: B008 - frozen
    **others: Any,
) -> Artifact:
    return fit(data, **({"settings": SETTINGS, "device": "cpu"} | others), options=options)


def bits(model: Artifact) -> bytes:
    assert isinstance(model.scorer, InnerProduct)
    return model.scorer.users.tobytes() + model.scorer.items.tobytes()


def stop_after(n_steps: int) -> Any:
    left = iter(range(n_steps - 1, -1, -1))
    return lambda: next(left) == 0


@pytest.fixture(scope="module")
def model() -> Artifact:
    return quick()


def test_the_test_part_never_influences_the_model(model: Artifact) -> None:
    assert DATASET.test is not None
    half = RatioSplit(0.5)(DATASET.test, rng=np.random.default_rng(1)).train
    fewer = quick(Dataset("fewer", DATASET.train, half))
    none = quick(DATASET.train)
    assert bits(fewer) == bits(none) == bits(model)
    for name in ("steps", "epochs", "validation", "validation_users"):
        assert fewer.card[name] == none.card[name] == model.card[name]
    assert fewer.card["test"] != model.card["test"]
    assert none.card["test"] is None


def test_pairs_to_judge_by_are_taken_as_given_and_refused_by_an_automatic_choice() -> None:
    split = RatioSplit(0.3)(DATASET.train, rng=np.random.default_rng(1))
    judged = int(np.count_nonzero(split.held_out.user_degrees))
    model = quick(DATASET.train, FitOptions(refit=False), split=split)
    assert model.card["validation_users"] == judged
    with pytest.raises(ConfigError, match="draws its own validation pairs"):
        quick(settings=AutoSettings(), split=split)


def test_the_card_holds_the_figures_of_the_test_part(model: Artifact) -> None:
    assert DATASET.test is not None
    report = model.evaluate(DATASET.test)
    assert model.card["test"] == {name: report.value(name) for name in ("recall@20", "ndcg@20")}


def test_the_card_says_what_was_trained_on_what(model: Artifact) -> None:
    card = model.card
    assert (card["seed"], card["device"]) == (0, "cpu")
    assert card["data"] == {
        "name": "synthetic",
        "sha256": DATASET.train.sha256,
        "users": 60,
        "items": 40,
        "pairs": DATASET.train.n_pairs,
    }
    assert card["steps"] == 3 * card["epochs"]
    assert 0 < card["seconds"]["train"] <= card["seconds"]["total"]
    assert card["peak_memory_mb"] > 1
    assert {"ratiorec", "python", "torch", "numpy"} <= card["versions"].keys()
    assert [record["phase"] for record in card["curve"]][-1] == "refit"
    assert model.settings == to_table(SETTINGS)


def test_the_card_names_a_preset_only_where_one_was_used(model: Artifact) -> None:
    """The model of this file has settings of its own, which no preset has."""
    assert model.card["preset"] is None
    options = FitOptions(validation=0)
    by_default = fit(DATASET, settings=SETTINGS, preset="dre-mf", device="cpu", options=options)
    assert by_default.card["preset"] == "dre-mf"
    assert fit(DATASET, preset="popularity", device="cpu").card["preset"] == "popularity"


def test_models_that_do_not_use_weights_are_named() -> None:
    weights = np.arange(1, DATASET.train.n_pairs + 1, dtype=np.float32)
    weighted = dataclasses.replace(DATASET.train, weights=weights)
    members = [BlendMember(name, 0.5, 1, 0, PRESETS[name]) for name in ("walk", "graph-filter")]
    blend = BlendSettings(tuple(members))
    expected = "graph-filter counts all pairs alike: their weights do not change the model"
    assert weights_note(weighted, blend) == expected
    assert weights_note(DATASET.train, blend) is None
    for settings in (PRESETS["dregn-cf"], PRESETS["dregn-cf-static"], AutoSettings()):
        assert weights_note(weighted, settings) is None


def test_card_and_settings_are_plain_json(model: Artifact) -> None:
    both = {"card": model.card, "settings": model.settings}
    assert json.loads(json.dumps(both, allow_nan=False)) == both


def test_the_model_knows_the_ids_and_the_pairs_of_training(model: Artifact) -> None:
    assert model.users is DATASET.train.users
    assert model.items is DATASET.train.items
    assert np.array_equal(model.seen.indices, DATASET.train.indices)


def test_a_test_part_without_pairs_is_not_judged() -> None:
    nothing = DATASET.train.select(np.zeros(DATASET.train.n_pairs, dtype=bool))
    assert quick(Dataset("bare", DATASET.train, nothing)).card["test"] is None


def test_the_preset_is_used_where_no_settings_are_given() -> None:
    options = FitOptions(validation=0, max_seconds=1e-9)
    model = fit(DATASET.train, preset="dre-mf", device="cpu", options=options)
    assert model.card["preset"] == "dre-mf"
    assert model.settings["encoder"]["kind"] == "factorisation"
    assert model.scorer.users.shape == (60, 64)  # type: ignore[attr-defined]


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown preset"):
        fit(DATASET.train, preset="dregn")


@pytest.mark.parametrize(
    ("users", "items", "n_users", "n_items", "what"),
    [
        ([0, 0], [0, 1], 1, 2, "too few users to learn from"),
        ([0, 1], [0, 0], 2, 1, "too few items to learn from"),
        ([], [], 2, 2, "too few pairs to learn from"),
    ],
)
def test_data_without_anything_to_learn_is_refused(
    users: list[int], items: list[int], n_users: int, n_items: int, what: str
) -> None:
    data = interactions(users, items, n_users=n_users, n_items=n_items)
    with pytest.raises(DataError, match=what):
        quick(data)


def test_the_observer_is_told_of_steps_and_epochs() -> None:
    events: list[Any] = []
    quick(options=FitOptions(validation=0), observe=events.append)
    assert sum(isinstance(event, StepTaken) for event in events) == N_STEPS
    assert sum(isinstance(event, EpochFinished) for event in events) == 3


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_the_log_has_one_line_of_json_an_epoch(tmp_path: Path) -> None:
    log = tmp_path / "new" / "training.jsonl"
    model = quick(options=FitOptions(log=log))
    assert lines(log) == model.card["curve"]
    places = [(line["phase"], line["epoch"]) for line in lines(log)]
    assert len(set(places)) == len(places)
    assert all(math.isfinite(line["risk"]) for line in lines(log))


@pytest.mark.parametrize("n_before", [1, 4, N_STEPS, N_STEPS + 2])
def test_the_log_of_a_resumed_run_repeats_no_epoch(tmp_path: Path, n_before: int) -> None:
    log = tmp_path / "training.jsonl"
    options = FitOptions(checkpoints=Checkpoints(tmp_path / "run"), log=log)
    with pytest.raises(StoppedError):
        quick(options=options, stop_requested=stop_after(n_before))
    model = quick(options=dataclasses.replace(options, resume=True))
    whole = quick()
    places = [(line["phase"], line["epoch"]) for line in lines(log)]
    assert places == [(record["phase"], record["epoch"]) for record in whole.card["curve"]]
    assert lines(log) == model.card["curve"]
    assert bits(model) == bits(whole)


def test_a_new_run_replaces_an_older_log(tmp_path: Path) -> None:
    log = tmp_path / "training.jsonl"
    for _ in range(2):
        quick(options=FitOptions(validation=0, log=log))
    assert [line["epoch"] for line in lines(log)] == [1, 2, 3]


def test_a_run_that_is_refused_leaves_the_older_log(tmp_path: Path) -> None:
    log = tmp_path / "training.jsonl"
    options = FitOptions(validation=0, checkpoints=Checkpoints(tmp_path / "run"), log=log)
    with pytest.raises(StoppedError):
        quick(options=options, stop_requested=stop_after(4))
    before = log.read_bytes()
    with pytest.raises(CheckpointError):
        quick(options=dataclasses.replace(options, resume=True), seed=5)
    assert log.read_bytes() == before != b""


def test_a_run_that_cannot_begin_writes_no_log(tmp_path: Path) -> None:
    log = tmp_path / "training.jsonl"
    pairs = interactions([0, 0, 1, 1], [0, 1, 0, 1], n_users=2, n_items=2)
    with pytest.raises(ConfigError, match="no pair is left for validation"):
        quick(pairs, FitOptions(log=log))
    assert not log.exists()


def test_a_log_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    log = tmp_path / "file" / "training.jsonl"
    with pytest.raises(StorageError) as caught:
        quick(options=FitOptions(validation=0, log=log))
    assert caught.value.where == str(log)


def test_without_a_log_events_are_only_passed_on() -> None:
    told: list[Any] = []
    event = EpochFinished({"epoch": 1})
    with TrainingLog(None, told.append) as log:
        log(event)
    assert told == [event]
    assert log.seconds > 0


def test_a_run_that_diverges_gives_no_model() -> None:
    training = dataclasses.replace(SETTINGS.training, learning_rate=1e30)
    with pytest.raises(DivergenceError, match="training diverged"):
        quick(settings=dataclasses.replace(SETTINGS, training=training))


def test_the_processor_is_always_there() -> None:
    assert (find_device("cpu").type, str(find_device("cpu"))) == ("cpu", "cpu")


@pytest.mark.parametrize("n_cards", [0, 1, 2])
def test_auto_is_a_graphics_card_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, n_cards: int
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_cards)
    assert str(find_device("auto")) == ("cuda" if n_cards else "cpu")
    for number in range(n_cards):
        assert find_device(f"cuda:{number}") == torch.device("cuda", number)


@pytest.mark.parametrize(
    "name", ["cuda:2", "cuda:", "cuda:-1", "cuda:²", "cuda0", "cpu:0", "tpu", "", "CPU", "cuda:2\n"]
)
def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(DeviceError) as caught:
        find_device(name)
    assert caught.value.found == repr(name)
    assert caught.value.wanted == "auto, cpu, cuda:0, cuda:1"


def test_a_machine_without_cards_offers_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(DeviceError) as caught:
        find_device("cuda")
    assert caught.value.wanted == "auto, cpu"


def test_a_result_file_holds_what_the_contract_says(model: Artifact) -> None:
    record = result_record(
        model, target="fit", protocol="validated", command="ratiorec fit x", commit="abc123"
    )
    promised = (
        "target dataset data_sha256 preset settings protocol seed steps seconds validation test "
        "curve machine versions commit command"
    )
    assert set(promised.split()) <= record.keys()
    assert (record["commit"], record["command"]) == ("abc123", "ratiorec fit x")
    assert record["data_sha256"] == DATASET.train.sha256
    assert record["seconds"].keys() == {"train", "total"}
    assert record["machine"]["device"] == "cpu"
    assert json.loads(json.dumps(record, allow_nan=False)) == record
