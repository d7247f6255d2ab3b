from __future__ import annotations

import re

import pytest

from ratiorec_lab.report.style import N_SERIES_COLOURS, colour_rules, series_colour, style_sheet


def _schemes() -> list[dict[str, str]]:
    light, dark = re.findall(r":root\{([^}]*)\}", style_sheet())
    return [dict(re.findall(r"--([\w-]+):(#\w{6})", block)) for block in (light, dark)]


def _luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", _schemes(), ids=["light", "dark"])
def test_words_can_be_read_on_every_ground(scheme):
    words = ["ink", "muted", "accent", *(f"series-{k + 1}" for k in range(N_SERIES_COLOURS))]
    for ground in ("card", "paper"):
        for word in words:
            assert _contrast(scheme[word], scheme[ground]) >= 4.5, (word, ground)
    assert _contrast(scheme["accent"], scheme["tint"]) >= 4.5


def test_both_schemes_name_the_same_colours():
    light, dark = _schemes()
    assert light.keys() == dark.keys()


def test_dark_is_for_screens_only():
    rules = style_sheet()
    screens = rules.count("@media screen and (prefers-color-scheme:dark)")
    assert rules.count("prefers-color-scheme:dark") == screens > 0
    assert rules.startswith(colour_rules())


def test_the_colours_come_round():
    assert series_colour(N_SERIES_COLOURS) == series_colour(0) != series_colour(1)
