"""Settings of an experiment, read strictly from tables and written back to them.

A table is what TOML and JSON hold. Names stand for parts, by the mappings of `parts`.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from ratiorec.errors import ConfigError
from ratiorec.parts import CONSTANTS, KINDS
from ratiorec.settings import AnySettings, Settings, Solved, TwoStage

Table = dict[str, Any]
Part = TypeVar("Part")


def to_table(part: Any) -> Table:
    """A part as plain names and numbers."""
    return {f.name: _to_value(f.name, getattr(part, f.name)) for f in dataclasses.fields(part)}


def _to_value(name: str, value: Any) -> Any:
    if name in CONSTANTS:
        labels = (label for label, constant in CONSTANTS[name].items() if constant is value)
        return next(labels, "custom")  # a constant that only code can make
    if name in KINDS:
        for label, kind in KINDS[name].items():
            if type(value) is kind:
                return {"kind": label, **to_table(value)}
        return {"kind": type(value).__name__.lower()}  # a part that only code can make
    if dataclasses.is_dataclass(value):
        return to_table(value)
    return "inf" if value == math.inf else value  # JSON has no infinity


def from_table(cls: type[Part], table: Mapping[str, Any], *, where: str) -> Part:
    """A part from its table; a name it does not know is an error, never ignored."""
    options = get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if unknown := sorted(table.keys() - set(names)):
        raise ConfigError(
            "unknown setting",
            where=where or "the settings",
            found=", ".join(unknown),
            wanted="one of " + (", ".join(names) or "none: it has no settings"),
        )
    given = {
        name: _from_value(name, value, options[name], where=f"{where}.{name}".lstrip("."))
        for name, value in table.items()
    }
    return cls(**given)


def _from_value(name: str, value: Any, hint: Any, *, where: str) -> Any:
    if name in CONSTANTS:
        return _named(CONSTANTS[name], value, where=where)
    if name in KINDS:
        table = {"kind": value} if isinstance(value, str) else dict(_table(value, where=where))
        kinds = {n: kind for n, kind in KINDS[name].items() if _may_hold(hint, kind)}
        kind = _named(kinds, table.pop("kind", None), where=f"{where}.kind")
        return from_table(kind, table, where=where)
    if dataclasses.is_dataclass(hint):
        return from_table(hint, _table(value, where=where), where=where)  # type: ignore[arg-type]
    return _scalar(value, hint, where=where)


def _may_hold(hint: Any, kind: type) -> bool:
    """Whether a field takes this kind; one whose kinds are told by a protocol takes them all."""
    allowed = get_args(hint)
    return not allowed or kind in allowed


def _named(choices: Mapping[str, Any], value: Any, *, where: str) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(
            "unknown choice", where=where, found=repr(value), wanted="one of " + ", ".join(choices)
        )
    return choices[value]


def _table(value: Any, *, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            "a setting is not a table", where=where, found=repr(value), wanted="a table"
        )
    return value


def _scalar(value: Any, hint: type, *, where: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and (is_number or value == "inf"):
        return float(value)
    if type(value) is not hint:
        raise ConfigError(
            "a setting has the wrong type", where=where, found=repr(value), wanted=hint.__name__
        )
    return value


def read_toml(path: Path) -> Table:
    """The table of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            "no such settings file", where=str(path), found="nothing", wanted="a TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(
            "the settings file cannot be read", where=str(path), found=str(error), wanted="TOML"
        ) from None


def parse_assignment(text: str) -> tuple[list[str], Any]:
    """`risk.upper_bound=70` as its path and its value; what is not TOML is a string."""
    path, sign, value = text.partition("=")
    if not sign or not path.strip():
        raise ConfigError(
            "a setting cannot be read",
            where="--set",
            found=repr(text),
            wanted="NAME=VALUE, for example risk.upper_bound=70",
        )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return path.strip().split("."), parsed


def merge(table: Table, changes: Mapping[str, Any]) -> Table:
    """`table` with `changes` laid over it; a part of another kind replaces the old one whole."""
    merged = dict(table)
    for name, value in changes.items():
        old = merged.get(name)
        if isinstance(value, str) and name in KINDS:
            value = {"kind": value}
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            same_kind = value.get("kind", old.get("kind")) == old.get("kind")
            merged[name] = merge(dict(old), value) if same_kind else dict(value)
        else:
            merged[name] = value
    return merged


def settings_in(table: Mapping[str, Any]) -> AnySettings:
    """Settings from a table that says by its names which sort of settings it holds."""
    cls: type[AnySettings] = Settings
    if "solver" in table:
        cls = Solved
    elif "second" in table:
        cls = TwoStage
    return from_table(cls, table, where="")


def resolve(
    start: AnySettings, *, file: Path | None = None, assignments: Sequence[str] = ()
) -> AnySettings:
    """The settings of a preset, changed by a file and then by single assignments."""
    table = to_table(start)
    if file is not None:
        table = merge(table, read_toml(file))
    for text in assignments:
        path, value = parse_assignment(text)
        for name in reversed(path):
            value = {name: value}
        table = merge(table, value)
    return from_table(type(start), table, where="")
