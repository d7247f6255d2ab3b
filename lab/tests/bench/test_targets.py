from __future__ import annotations

import pytest

from ratiorec.errors import ConfigError
from ratiorec_lab.bench.targets import TARGETS, named


def test_the_targets_are_those_of_the_contract() -> None:
    expected = ["risk", "softmax", "propagation", "step", "fit", "recommend", "evaluate"]
    expected += ["frontier", "growth"]
    assert list(TARGETS) == expected
    assert named("all") == expected
    assert named("step") == ["step"]


@pytest.mark.parametrize(
    ("wrong", "near"), [("steps", "step"), ("propogation", "propagation"), ("al", "all")]
)
def test_an_unknown_target_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(ConfigError, match=rf"found: '{wrong}'.*did you mean {near}\?"):
        named(wrong)
