from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ratiorec.errors import ConfigError, MissingExtraError
from ratiorec.presets import PRESETS
from ratiorec.settings import PairBatches, Settings, SolverSettings
from ratiorec.training.runs import start_run as real_start_run
from ratiorec_lab.bench import race as race_module
from ratiorec_lab.bench.clock import Conditions
from ratiorec_lab.bench.race import Contender, budget_of, race, require_contenders, settings_of
from support.quick_presets import Failing

CPU = torch.device("cpu")


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


@dataclass
class Steady:
    """A run whose steps all take equally long."""

    clock: Clock
    seconds: float
    last_step: int = 4
    step: int = 0
    n_steps: int = 2

    def one_epoch(self, until: int) -> Iterator[list[float]]:
        for _ in range(self.n_steps):
            if self.step >= until:
                return
            self.clock.now += self.seconds
            self.step += 1
            yield [0.0]


@dataclass(frozen=True)
class Steadily:
    """Settings of such a run."""

    run: Any
    seconds_to_build: float = 0.0


def start_run(settings: Any, data: Any, **context: Any) -> Any:
    if not isinstance(settings, Steadily):
        return real_start_run(settings, data, **context)
    settings.run.clock.now += settings.seconds_to_build
    return settings.run


def contender(name: str, run: Steady, conditions: Conditions, **options: Any) -> Contender:
    settings: Any = Steadily(run, options.pop("seconds_to_build", 0.0))
    return Contender(name, settings, conditions.dataset.train, device=CPU, **options)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(Contender, "warm_up", lambda self: None)
    monkeypatch.setattr(race_module, "start_run", start_run)
    monkeypatch.setattr(race_module, "Gauge", lambda device, effort: _SilentGauge())
    return Clock(monkeypatch)


class _SilentGauge:
    def __call__(self) -> None:
        pass

    def ceilings(self) -> None:
        return None


def turns(
    contenders: list[Contender], conditions: Conditions, *, slice_seconds: float
) -> tuple[list[str], list[str]]:
    """Who worked, turn by turn, and who reached the end."""
    worked: list[str] = []
    settled: list[str] = []
    effort = replace(conditions.effort, slice_seconds=slice_seconds)
    race(
        "test",
        contenders,
        replace(conditions, effort=effort),
        watch=lambda one: worked.append(one.name),
        settle=lambda one: settled.append(one.name),
    )
    return worked, settled


def test_whoever_has_worked_least_works_next(clock: Clock, conditions: Conditions) -> None:
    slow = contender("slow", Steady(clock, 1.0, last_step=2), conditions)
    fast = contender("fast", Steady(clock, 0.5, last_step=4), conditions)
    worked, settled = turns([slow, fast], conditions, slice_seconds=0.5)
    assert worked == ["slow", "fast", "fast", "slow", "fast", "fast"]
    assert settled == ["slow", "fast"]


def test_a_clock_stands_still_while_others_work(clock: Clock, conditions: Conditions) -> None:
    both = [contender(name, Steady(clock, 1.0), conditions) for name in "ab"]
    turns(both, conditions, slice_seconds=1.0)
    assert [one.seconds for one in both] == [4, 4]


def test_building_counts(clock: Clock, conditions: Conditions) -> None:
    one = contender("a", Steady(clock, 1.0), conditions, seconds_to_build=3.0)
    turns([one], conditions, slice_seconds=10)
    assert one.seconds == 3 + 4


def test_a_contender_ends_at_its_last_step(clock: Clock, conditions: Conditions) -> None:
    run = Steady(clock, 1.0, last_step=100)
    one = contender("a", run, conditions, last_step=lambda run: 3)
    turns([one], conditions, slice_seconds=1)
    assert (run.step, one.done, one.share) == (3, True, 1)


def test_a_contender_ends_when_its_time_is_spent(clock: Clock, conditions: Conditions) -> None:
    run = Steady(clock, 1.0, last_step=100)
    one = contender("a", run, conditions, max_seconds=5.0)
    turns([one], conditions, slice_seconds=2)
    assert run.step == 5


def test_turns_are_short_in_the_beginning(clock: Clock, conditions: Conditions) -> None:
    run = Steady(clock, 0.125, last_step=100, n_steps=100)
    seconds: list[float] = []
    race(
        "test",
        [contender("a", run, conditions)],
        replace(conditions, effort=replace(conditions.effort, slice_seconds=4.0)),
        watch=lambda one: seconds.append(one.seconds),
        settle=lambda one: None,
    )
    assert seconds[:4] == [1, 2, 3, 4.25]  # one second, then two fifths of what was worked
    assert max(b - a for a, b in itertools.pairwise(seconds)) <= 4


def test_one_that_fails_says_why_and_the_others_go_on(clock: Clock, conditions: Conditions) -> None:
    broken = Contender("broken", SolverSettings(Failing()), conditions.dataset.train, device=CPU)
    sound = contender("sound", Steady(clock, 1.0), conditions)
    settled: list[str] = []
    found = race("test", [broken, sound], conditions, settle=lambda one: settled.append(one.name))
    assert settled == ["sound"]
    assert found.left_out.keys() == {"broken"}
    assert "a library is missing" in found.left_out["broken"]


def test_warming_up_finds_what_cannot_run(conditions: Conditions) -> None:
    error = MissingExtraError("no such library", where="x", found="y", wanted="z")
    broken = Contender(
        "broken", SolverSettings(Failing(error)), conditions.dataset.train, device=CPU
    )
    broken.warm_up()
    assert broken.done
    assert broken.seconds == 0
    assert broken.error == str(error)


def test_a_bug_is_not_taken_for_a_contender_that_cannot_run(conditions: Conditions) -> None:
    broken = Contender(
        "b", SolverSettings(Failing(KeyError())), conditions.dataset.train, device=CPU
    )
    with pytest.raises(KeyError):
        broken.warm_up()


def test_a_model_is_gone_when_its_contender_is_done(clock: Clock, conditions: Conditions) -> None:
    one = contender("a", Steady(clock, 1.0), conditions)
    turns([one], conditions, slice_seconds=10)
    with pytest.raises(AssertionError, match="has left"):
        _ = one.run


@pytest.mark.parametrize(
    ("name", "expected"), [("implicit-als", "cpu"), ("item-knn", "cpu"), ("ease", "cuda")]
)
def test_what_is_solved_on_the_cpu_says_so(
    conditions: Conditions, name: str, expected: str
) -> None:
    one = Contender(name, PRESETS[name], conditions.dataset.train, device=torch.device("cuda"))
    assert one.device.type == expected


def test_a_name_alone_is_a_preset() -> None:
    assert settings_of("ease") == PRESETS["ease"]


def test_settings_are_laid_over_a_preset() -> None:
    settings = settings_of("lightgcn:batches.n_pairs=2048:training.learning_rate=0.001")
    assert isinstance(settings, Settings)
    assert isinstance(settings.batches, PairBatches)
    assert (settings.batches.n_pairs, settings.training.learning_rate) == (2048, 0.001)


def test_a_file_and_then_settings_are_laid_over_a_preset(tmp_path: Path) -> None:
    (tmp_path / "half.toml").write_text("[training]\nl2 = 0.5\nlearning_rate = 0.5\n")
    settings = settings_of(f"dre-mf+{tmp_path / 'half.toml'}:training.l2=0.25")
    assert isinstance(settings, Settings)
    assert (settings.training.learning_rate, settings.training.l2) == (0.5, 0.25)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"where: presets; .*did you mean lightgcn\?"):
        settings_of("lightgnc:batches.n_pairs=2048")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        settings_of("dre-mf:training.penalties=1")


def test_a_contender_comes_once() -> None:
    require_contenders(["dre-mf", "dre-mf:training.l2=1"])
    with pytest.raises(ConfigError, match="listed twice"):
        require_contenders(["dre-mf", "ease", "dre-mf"])


def test_the_automatic_choice_has_a_budget_behind_its_name() -> None:
    require_contenders(["auto@5", "auto@30", "ease"])
    assert budget_of("auto@0.5") == 0.5
    for name in ("auto", "auto@", "auto@0", "auto@-1", "auto@inf", "auto@soon"):
        with pytest.raises(ConfigError, match="such as auto@30"):
            require_contenders([name])
    with pytest.raises(ConfigError, match="twice"):
        require_contenders(["auto@5", "auto@5"])
