"""Colours of pages and charts, for light and dark screens and for paper."""

from __future__ import annotations

from pathlib import Path

# The series are told apart by readers of every colour vision, and each has a contrast of
# at least 4.5 with its card, so that words may be set in it.
_LIGHT_AND_DARK = {
    "paper": ("#f6f7f9", "#11151b"),
    "card": ("#ffffff", "#1a2029"),
    "ink": ("#1c2430", "#e7ebf0"),
    "muted": ("#596474", "#9ba7b6"),
    "rule": ("#dfe4ea", "#303a47"),
    "accent": ("#0b6299", "#6fb9e8"),
    "tint": ("#e8f2f9", "#1b3345"),
    "shade": ("#d3dae2", "#0b0e13"),
    "series-1": ("#0072b2", "#5fb4ea"),
    "series-2": ("#b84a00", "#f59a56"),
    "series-3": ("#00785a", "#3fc79c"),
    "series-4": ("#a03d80", "#e291c2"),
    "series-5": ("#866000", "#e3b84e"),
    "series-6": ("#4b5563", "#b7c0cc"),
}
N_SERIES_COLOURS = 6


def colour(name: str) -> str:
    """A colour of the page in its light form, which charts are drawn in."""
    return _LIGHT_AND_DARK[name][0]


def series_colour(index: int) -> str:
    """The colour of the series with this index; after the last the first comes again."""
    return colour(f"series-{index % N_SERIES_COLOURS + 1}")


def style_sheet() -> str:
    """The style sheet of a page."""
    rules = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    return f"{colour_rules()}{chart_rules()}\n{rules}"


def colour_rules() -> str:
    """The colours as variables of a page."""
    light, dark = (
        "".join(f"--{name}:{pair[k]};" for name, pair in _LIGHT_AND_DARK.items()) for k in (0, 1)
    )
    return f":root{{color-scheme:light dark;{light}}}{_when_dark(f':root{{{dark}}}')}"


def chart_rules() -> str:
    """The rules of charts: a rim that keeps words clear of lines, and the colours of the dark.

    A chart holds its light colours as they are, which every viewer of images understands.
    """
    rim = ".chart text{paint-order:stroke;stroke-width:3px;stroke-linejoin:round;stroke:%s}"
    on_light, on_dark = (rim % card for card in _LIGHT_AND_DARK["card"])
    changed = "".join(
        f'.chart [style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in _LIGHT_AND_DARK.values()
        for kind in ("fill", "stroke")
    )
    return on_light + _when_dark(on_dark + changed)


def _when_dark(rules: str) -> str:
    return f"@media screen and (prefers-color-scheme:dark){{{rules}}}"
