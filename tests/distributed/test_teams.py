from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ratiorec.data.interactions import Interactions
from ratiorec.data.split import split_for_validation
from ratiorec.distributed import checkpoint as kept
from ratiorec.distributed.checkpoint import SharedCheckpoints
from ratiorec.distributed.closed_forms import ClosedFormTeam
from ratiorec.distributed.ranks import Ranks
from ratiorec.distributed.team import GradientTeam
from ratiorec.encoders.settings import LightGCN
from ratiorec.errors import CheckpointError, ConfigError, StorageError
from ratiorec.machine import Processor
from ratiorec.settings import Settings, SolverSettings, Training, UserBatches
from ratiorec.solvers.settings import EASE, ItemKNN, LocalEASE, Walk
from ratiorec.training.checkpoint import CURRENT, Checkpoints
from ratiorec.training.fit import FitOptions, FitResult, FitSession, StepTaken
from ratiorec.training.team import ALONE, Team
from support.rank_processes import on_ranks
from support.small_data import random_interactions

RNG = np.random.default_rng(4)
DATA = random_interactions(RNG, n_users=61, n_items=29, n_pairs=400)
WEIGHTED = Interactions(
    DATA.users,
    DATA.items,
    DATA.indptr,
    DATA.indices,
    weights=RNG.uniform(0.5, 2, DATA.n_pairs).astype(np.float32),
)
SETTINGS = Settings(
    encoder=LightGCN(4),
    batches=UserBatches(16),
    training=Training(
        learning_rate=0.05, epochs=6, validate_every_epochs=1, min_steps_between_validations=1
    ),
)


def session(settings: Any, options: FitOptions, team: Team = ALONE, **more: Any) -> FitSession:
    return FitSession(DATA, settings, options, seed=3, device=Processor(), team=team, **more)


def outcome(fitted: FitResult) -> tuple[Any, ...]:
    return fitted.n_steps, fitted.validation, fitted.n_validation_users, fitted.stopped_by


@pytest.mark.parametrize("refit", [True, False])
def test_a_fit_by_three_ranks_chooses_and_gives_what_one_process_does(refit: bool) -> None:
    options = FitOptions(refit=refit)

    def work(ranks: Ranks) -> object:
        team = GradientTeam(ranks)
        fitted = session(SETTINGS, options, team)()
        return outcome(fitted), team.whole(fitted.scorer, DATA).arrays()

    alone = session(SETTINGS, options)()
    found = on_ranks(3, work)
    for told, _ in found:
        assert told[0] == alone.n_steps
        assert told[1] == pytest.approx(alone.validation, abs=1e-12)
        assert told[2:] == outcome(alone)[2:]
    for name, array in alone.scorer.arrays().items():
        np.testing.assert_allclose(found[0][1][name], array, atol=2e-5)
    assert [len(arrays["users"]) for _, arrays in found] == [61, 21, 19]


def test_every_user_is_judged_once_whoever_has_them() -> None:
    split = split_for_validation(DATA, 0.1, np.random.default_rng(0))
    few = split.held_out.select(split.held_out.pair_users > 50)  # of three ranks the last alone
    scorer: Any = session(SETTINGS, FitOptions(validation=0)).refit(4).scorer
    alone = ALONE.judge(scorer, split.train, few, device=Processor())

    def work(ranks: Ranks) -> object:
        team = GradientTeam(ranks)
        rows = ranks.rows(DATA.n_users)
        own = type(scorer)(scorer.users[rows], scorer.items)
        parts = team.portion(split.train), team.portion(few)
        return team.judge(own, *parts, device=Processor())

    assert on_ranks(3, work) == [alone] * 3


def test_more_ranks_than_users_are_refused() -> None:
    def work(ranks: Ranks) -> str:
        with pytest.raises(ConfigError) as error:
            GradientTeam(ranks).portion(DATA.of_users(slice(0, 1)))
        return str(error.value)

    assert "2 processes for 1 users" in on_ranks(2, work)[0]


class Interrupted:
    """Asks to stop after so many steps."""

    def __init__(self, n_steps: int) -> None:
        self.left = n_steps

    def __call__(self, event: object) -> None:
        self.left -= isinstance(event, StepTaken)

    def asks(self) -> bool:
        return self.left <= 0


def begun(folder: Path, n: int, steps: int) -> None:
    """A fit by n ranks that only the last of them asks to stop."""

    def work(ranks: Ranks) -> str:
        team = GradientTeam(ranks).with_checkpoints(folder, DATA)
        options = FitOptions(checkpoints=team.checkpoints)
        watch = Interrupted(steps)
        asks = watch.asks if ranks.rank == n - 1 else lambda: False
        with pytest.raises(InterruptedError) as stopped:
            session(SETTINGS, options, team, observe=watch, stop_requested=asks)()
        return str(stopped.value)

    assert all(f"step {steps}" in text for text in on_ranks(n, work))


def ended(folder: Path, n: int, settings: Settings = SETTINGS) -> Any:
    """The same fit, gone on with by n ranks to its end; the first has the model."""

    def work(ranks: Ranks) -> Any:
        team = GradientTeam(ranks).with_checkpoints(folder, DATA)
        options = FitOptions(checkpoints=team.checkpoints, resume=True)
        try:
            fitted = session(settings, options, team)()
        except (CheckpointError, StorageError) as error:
            return str(error)
        history = [(line["epoch"], line["phase"]) for line in fitted.history]
        arrays = team.whole(fitted.scorer, DATA).arrays()
        assert team.checkpoints is not None
        ranks.agreed()  # nobody reads it any more
        team.checkpoints.remove()
        return outcome(fitted), history, arrays

    return on_ranks(n, work)[0]


@pytest.mark.parametrize("n_after", [2, 3, 1])
def test_a_stopped_fit_goes_on_with_any_number_of_ranks(tmp_path: Path, n_after: int) -> None:
    begun(tmp_path / "kept", 2, steps=7)
    (folder,) = [path for path in (tmp_path / "kept").iterdir() if path.is_dir()]
    assert len(list(folder.glob("*.safetensors"))) == 2, "a part of each rank"
    alone = session(SETTINGS, FitOptions())()
    told, history, arrays = ended(tmp_path / "kept", n_after)
    assert told[0] == alone.n_steps
    assert history == [(line["epoch"], line["phase"]) for line in alone.history]
    for name, array in alone.scorer.arrays().items():
        np.testing.assert_allclose(arrays[name], array, atol=2e-5)
    assert not (tmp_path / "kept").exists(), "nothing is left over"


def test_a_checkpoint_that_is_not_whole_changes_nothing(tmp_path: Path) -> None:
    begun(tmp_path, 2, steps=7)
    for name in ("search-cut", "search-empty"):  # what killed ranks were writing
        (tmp_path / name).mkdir()
    (tmp_path / "search-cut" / "shard-00001-model-00001-of-00001.safetensors").write_bytes(b"{")
    told, _, _ = ended(tmp_path, 2)
    assert told[0] == session(SETTINGS, FitOptions())().n_steps


def test_a_checkpoint_of_other_settings_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    begun(tmp_path, 2, steps=5)
    other = Settings(encoder=LightGCN(4, n_layers=2), batches=UserBatches(16))
    assert "encoder.n_layers = 3" in ended(tmp_path, 2, other)
    *_, shard = sorted(tmp_path.glob("*/*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "cannot be read" in ended(tmp_path, 2)
    shard.unlink()
    assert "Size mismatch" in ended(tmp_path, 3)
    (tmp_path / CURRENT).write_text("{}", encoding="utf-8")
    assert "cannot be read" in ended(tmp_path, 2)


def test_a_rank_that_is_lost_while_all_write_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = kept.state_dict_saver.save

    def save_or_die(*arguments: Any, **options: Any) -> Any:
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return save(*arguments, **options)

    monkeypatch.setattr(kept.state_dict_saver, "save", save_or_die)
    with pytest.raises(AssertionError, match="LostRankError: another process"):
        begun(tmp_path, 2, steps=3)
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


def test_a_checkpoint_is_not_passed_over_by_the_other_kind_of_fit(tmp_path: Path) -> None:
    begun(tmp_path / "shared", 2, steps=3)
    resumed = FitOptions(checkpoints=Checkpoints(tmp_path / "shared"), resume=True)
    with pytest.raises(CheckpointError, match="one of several processes"):
        session(SETTINGS, resumed)()
    watch = Interrupted(3)
    own = FitOptions(checkpoints=Checkpoints(tmp_path / "own"))
    with pytest.raises(InterruptedError):
        session(SETTINGS, own, observe=watch, stop_requested=watch.asks)()
    assert "one of one process" in ended(tmp_path / "own", 2)


def test_a_disk_without_room_is_told_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = kept.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(kept.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    assert "no room for checkpoints" in ended(tmp_path / "kept", 2)
    assert list((tmp_path / "kept").iterdir()) == []


def test_processes_must_reach_the_same_folder(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> str:
        folder = tmp_path / f"of-{ranks.rank}"  # as on two machines without a shared disk
        places = SharedCheckpoints(folder, ranks, DATA.n_users, DATA.n_items)
        with pytest.raises(StorageError) as refused:
            places.require_place(1)
        return str(refused.value)

    told = on_ranks(2, work)
    assert all("do not reach the same folder" in text for text in told)
    assert all("of-1, on rank 1 of 2" in text for text in told)


@pytest.mark.parametrize(
    "solver", [EASE(5.0, 0.2, 0.3, 0.5), LocalEASE(5.0, n_neighbours=6), ItemKNN(5), Walk()]
)
def test_a_closed_form_by_three_ranks_is_that_of_one_process(solver: Any) -> None:
    settings = SolverSettings(solver)

    def fitted(data: Interactions, team: Team) -> FitResult:
        run = FitSession(data, settings, FitOptions(), seed=3, device=Processor(), team=team)
        return run()

    def work(ranks: Ranks) -> object:
        found = [fitted(data, ClosedFormTeam(ranks)) for data in (DATA, WEIGHTED)]
        return [(outcome(one), one.scorer.arrays()) for one in found]

    first, *others = on_ranks(3, work)
    for place, data in enumerate((DATA, WEIGHTED)):
        alone, (told, arrays) = fitted(data, ALONE), first[place]
        assert told == outcome(alone)
        assert [other[place][0] for other in others] == [told] * 2
        for name, array in alone.scorer.arrays().items():
            np.testing.assert_allclose(arrays[name], array, rtol=1e-4, atol=1e-6)


def test_what_the_first_rank_cannot_solve_ends_all() -> None:
    few = DATA.of_users(slice(0, 4))  # so many users cannot tell 29 items apart
    settings, options = SolverSettings(EASE(1e-30)), FitOptions(validation=0)

    def work(ranks: Ranks) -> str:
        team = ClosedFormTeam(ranks)
        with pytest.raises(ConfigError) as error:
            FitSession(few, settings, options, seed=3, device=Processor(), team=team)()
        return str(error.value)

    assert all("l2 is too small" in text for text in on_ranks(2, work))
