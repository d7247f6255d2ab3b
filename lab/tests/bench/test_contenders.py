from __future__ import annotations

from pathlib import Path

import pytest
from ratiorec_lab.bench.contenders import require_contenders, settings_of

from ratiorec.batches.pairs import PairBatches
from ratiorec.errors import ConfigError
from ratiorec.presets import PRESETS
from ratiorec.settings import Settings


def test_a_name_alone_is_a_preset() -> None:
    assert settings_of("ease") == PRESETS["ease"]


def test_settings_are_laid_over_a_preset() -> None:
    settings = settings_of("lightgcn:batches.n_pairs=2048:training.learning_rate=0.001")
    assert isinstance(settings, Settings)
    assert isinstance(settings.batches, PairBatches)
    assert (settings.batches.n_pairs, settings.training.learning_rate) == (2048, 0.001)


def test_a_file_and_then_settings_are_laid_over_a_preset(tmp_path: Path) -> None:
    (tmp_path / "half.toml").write_text("[training]\npenalty = 0.5\nlearning_rate = 0.5\n")
    settings = settings_of(f"dre-mf+{tmp_path / 'half.toml'}:training.penalty=0.25")
    assert isinstance(settings, Settings)
    assert (settings.training.learning_rate, settings.training.penalty) == (0.5, 0.25)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"where: --presets; .*did you mean lightgcn\?"):
        settings_of("lightgnc:batches.n_pairs=2048")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        settings_of("dre-mf:training.penalties=1")


def test_a_contender_comes_once() -> None:
    require_contenders(["dre-mf", "dre-mf:training.penalty=1"])
    with pytest.raises(ConfigError, match="listed twice"):
        require_contenders(["dre-mf", "ease", "dre-mf"])
