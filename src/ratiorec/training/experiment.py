"""The composition root: settings and data in, a trained and judged `Artifact` out."""

from __future__ import annotations

import errno
import json
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from ratiorec.config import preset as preset_settings
from ratiorec.config import to_table
from ratiorec.data.describe import note_of_times_as_weights
from ratiorec.data.interactions import Dataset, Interactions, require_trainable
from ratiorec.data.split import Split
from ratiorec.errors import ConfigError, DeviceError, StorageError
from ratiorec.machine import (
    Device,
    Processor,
    describe_machine,
    has_torch,
    peak_memory_mb,
    versions,
)
from ratiorec.model.artifact import Artifact
from ratiorec.presets import AUTO
from ratiorec.settings import (
    AnySettings,
    AutoSettings,
    BlendSettings,
    SolverSettings,
    TwoStageSettings,
)
from ratiorec.training.auto import AutoSession
from ratiorec.training.fit import (
    EpochFinished,
    FitOptions,
    FitResult,
    FitSession,
    Observer,
    StepTaken,
)
from ratiorec.training.team import ALONE, Team


def fit(
    data: Interactions | Dataset,
    *,
    preset: str | None = None,
    settings: AnySettings | None = None,
    seed: int = 0,
    device: str = "auto",
    options: FitOptions = FitOptions(),  # noqa: B008
    observe: Observer = lambda event: None,
    stop_requested: Callable[[], bool] = lambda: False,
    split: Split | None = None,
    team: Team = ALONE,
) -> Artifact:
    """Train a model on pairs.

    Args:
        data: Pairs, or a data set whose test part is judged at the end and chooses nothing.
        preset: Named settings, see `ratiorec.presets`; "auto" where no `settings` are given.
        settings: Settings to use in place of a preset's. The model's card then names the preset
            that they came from, where one is given beside them, and else none.
        seed: Same seed, same bits on a CPU.
        device: "cpu", "cuda", "cuda:1" or "auto".
        options: Validation, refit, time budget, checkpoints.
        observe: Told of every step and epoch.
        stop_requested: Asked after every step; True saves a checkpoint and stops.
        split: Pairs to train on and to judge by, in place of drawn ones.
        team: The processes that fit the model together; all but the first are given the part of
            it that they have.

    Raises:
        ConfigError: There is a `split` for settings that draw their own, as "auto" does.
    """
    started = time.monotonic()
    if settings is None:
        preset = preset or AUTO
        settings = preset_settings(preset)
    dataset = data if isinstance(data, Dataset) else Dataset("data", data)
    if not (isinstance(settings, AutoSettings) and dataset.train.n_pairs):
        require_trainable(dataset.train)
    if sentence := weights_note(dataset.train, settings):
        warnings.warn(sentence, stacklevel=2)
    options = _leaving_time_to_save(options, dataset.train.n_items)
    place = find_device(device)
    log = TrainingLog(options.log, observe)
    run: FitSession | AutoSession
    context: Any = {"seed": seed, "device": place, "observe": log, "stop_requested": stop_requested}
    if isinstance(settings, AutoSettings | BlendSettings):
        if split is not None:
            raise ConfigError(
                "an automatic choice draws its own validation pairs",
                where="split",
                found="pairs to judge by",
                wanted="none, or the preset of a single model",
            )
        run = AutoSession(dataset.train, settings, options, **context)
    else:
        run = FitSession(dataset.train, settings, options, split=split, team=team, **context)
    with log:
        fitted = run()
    table = to_table(fitted.settings or settings)
    train, test = dataset.train, None
    if dataset.test is not None and dataset.test.n_pairs:
        parts = team.portion(train), team.portion(dataset.test)
        test = team.judge(fitted.scorer, *parts, device=place)
    scorer = team.whole(fitted.scorer, train)
    own = train if team.is_first else team.portion(train)
    model = Artifact.of(scorer, own, settings=table, card={})
    card = _card(dataset, fitted, test) | {
        "preset": preset,
        "seed": seed,
        "device": str(place),
        "peak_memory_mb": peak_memory_mb(),
        **team.card,
    }
    if place.type == "cuda":
        import torch

        card["peak_device_memory_mb"] = round(
            torch.cuda.max_memory_allocated(str(place)) / 2**20, 1
        )
    card["seconds"] = {
        "train": round(fitted.seconds, 3),
        "total": round(fitted.seconds + time.monotonic() - started - log.seconds, 3),
    }
    return model.with_card(card)


def _leaving_time_to_save(options: FitOptions, n_items: int) -> FitOptions:
    """The options without the seconds that the map of the items takes when the model is saved."""
    from ratiorec.scorers.neighbour_embedding import seconds_to_map  # scipy

    kept_back = min(seconds_to_map(n_items), options.max_seconds / 4)
    return replace(options, max_seconds=options.max_seconds - kept_back)


def weights_note(data: Interactions, settings: AnySettings) -> str | None:
    """The warning that the weights look like times, or that a model counts all pairs alike."""
    return note_of_times_as_weights(data) or _note_of_unused_weights(data, settings)


def _note_of_unused_weights(data: Interactions, settings: AnySettings) -> str | None:
    if data.relative_weights is None or isinstance(settings, AutoSettings):
        return None
    if isinstance(settings, BlendSettings):
        notes = [_note_of_unused_weights(data, member.settings) for member in settings.members]
        return "; ".join(filter(None, notes)) or None
    if isinstance(settings, TwoStageSettings):
        settings = settings.second
    part = settings.solver if isinstance(settings, SolverSettings) else settings.risk
    if part.uses_weights:
        return None
    return f"{part.name} counts all pairs alike: their weights do not change the model"


def find_device(name: str) -> Device:
    """The device of this name; "auto" is a GPU where there is one that torch can use."""
    if name == "cpu":
        return Processor()
    n_gpus = _n_gpus()
    if name == "auto" and not n_gpus:
        return Processor()
    gpu = re.fullmatch("cuda(?::([0-9]+))?", "cuda" if name == "auto" else name)
    if gpu and int(gpu[1] or 0) < n_gpus:
        import torch

        return torch.device(gpu[0])
    wanted = "auto, cpu" + "".join(f", cuda:{index}" for index in range(n_gpus))
    if gpu and not has_torch():
        wanted += "; a GPU needs pip install 'ratiorec[torch]'"
    raise DeviceError("no such device", where="--device", found=repr(name), wanted=wanted)


def _n_gpus() -> int:
    if not has_torch():
        return 0
    import torch

    return torch.cuda.device_count()


def result_record(
    model: Artifact, *, target: str, protocol: str, command: str, commit: str | None
) -> dict[str, Any]:
    """What a file under `results/` holds; `commit` is that of the code when it started."""
    card = model.card
    return {
        "target": target,
        "dataset": card["data"]["name"],
        "data_sha256": card["data"]["sha256"],
        "preset": card["preset"],
        "settings": model.settings,
        "protocol": protocol,
        "seed": card["seed"],
        "steps": card["steps"],
        "epochs": card["epochs"],
        "stopped_by": card["stopped_by"],
        "seconds": card["seconds"],
        "peak_memory_mb": card["peak_memory_mb"],
        "peak_device_memory_mb": card.get("peak_device_memory_mb"),
        "validation": card["validation"],
        "validation_by": card["validation_by"],
        "test": card["test"],
        **({"members": card["members"]} if "members" in card else {}),
        "curve": card["curve"],
        "machine": describe_machine(card["device"]),
        "versions": card["versions"],
        "commit": commit,
        "command": command,
    }


@dataclass
class TrainingLog:
    """Passes events on and writes every epoch as a line of JSON, where a file is given."""

    path: Path | None
    observe: Observer
    seconds: float = 0.0

    def __enter__(self) -> TrainingLog:
        self._started = time.monotonic()
        self._mode = "wb"  # only the first epoch replaces an older log: a run may yet be refused
        return self

    def __call__(self, event: StepTaken | EpochFinished) -> None:
        if isinstance(event, EpochFinished):  # a resumed run tells its earlier epochs again
            self._write(self._mode, json.dumps(event.record) + "\n")
            self._mode = "ab"
        self.observe(event)

    def _write(self, mode: str, text: str) -> None:
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open(mode, buffering=0) as file:
                _write_whole(file, text.encode())
        except OSError as error:
            raise StorageError(
                "the training log cannot be written",
                where=str(self.path),
                found=error.strerror or str(error),
                wanted="a place that may be written to and has room",
            ) from error

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._started


def _write_whole(file: IO[bytes], line: bytes) -> None:
    """Write a line, or none of it where the disk has room for half."""
    n_before = file.tell()
    if file.write(line) < len(line):
        file.truncate(n_before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _card(dataset: Dataset, fitted: FitResult, test: dict[str, float] | None) -> dict[str, Any]:
    train = dataset.train
    return {
        "steps": fitted.n_steps,
        "epochs": round(fitted.n_epochs, 3),
        "validation": fitted.validation,
        "validation_users": fitted.n_validation_users,
        "validation_by": fitted.validation_by,
        "stopped_by": fitted.stopped_by,
        "test": test,
        **({} if fitted.members is None else {"members": fitted.members}),
        "data": {
            "name": dataset.name,
            "sha256": train.sha256,
            "users": train.n_users,
            "items": train.n_items,
            "pairs": train.n_pairs,
        },
        "curve": fitted.history,
        "versions": versions(),
    }
