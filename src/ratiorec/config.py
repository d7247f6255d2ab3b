"""Settings read strictly from tables (TOML, JSON) and written back to them.

A part stands in a table under its `kind`, which is the part's own `name`; which kinds a setting may
hold is told by its type.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ratiorec import presets
from ratiorec.errors import ConfigError, unknown_choice
from ratiorec.files import read_regular
from ratiorec.losses import Loss, losses
from ratiorec.settings import (
    AnySettings,
    AutoSettings,
    BlendSettings,
    ModelSettings,
    Settings,
    SolverSettings,
    TwoStageSettings,
)

Table = dict[str, Any]
Part = TypeVar("Part")
Kind = TypeVar("Kind", bound=AnySettings)

_MOST_TOML_BYTES = 1 << 20


def to_table(part: Any) -> Table:
    """A part as plain names and numbers."""
    table = {f.name: _to_value(getattr(part, f.name)) for f in dataclasses.fields(part)}
    return {"kind": part.name, **table} if hasattr(type(part), "name") else table


def _to_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_table(value)
    if type(value) is tuple:
        return [to_table(one) for one in value]
    if isinstance(value, str | bool | int | float):
        return "inf" if value == math.inf else value  # JSON has no infinity
    return "custom"  # something that only code can make


def from_table(
    cls: type[Part], table: Mapping[str, Any], *, where: str, complete: bool = False
) -> Part:
    """A part from its table; a name it does not know is an error, never ignored.

    What the table leaves out has its default, unless it must be `complete`; a setting that was
    added later, with a default that changes nothing, may be missing all the same.
    """
    hints = get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    names = [f.name for f in fields]
    needed = [f.name for f in fields if not f.metadata.get("added_later")]
    if unknown := sorted(table.keys() - set(names)):
        raise ConfigError(
            "unknown setting",
            where=where or "the settings",
            found=", ".join(unknown),
            wanted="one of " + (", ".join(names) or "none: it has no settings"),
        )
    if complete and (missing := [name for name in needed if name not in table]):
        raise ConfigError(
            "a setting is missing",
            where=where or "the settings",
            found="no " + ", ".join(missing),
            wanted="all of " + ", ".join(names),
        )
    given = {
        name: _from_value(value, hints[name], f"{where}.{name}".lstrip("."), complete)
        for name, value in table.items()
    }
    return cls(**given)


def _from_value(value: Any, hint: Any, where: str, complete: bool) -> Any:
    if kinds := kinds_of(hint):
        table = {"kind": value} if isinstance(value, str) else dict(_table(value, where=where))
        is_name = isinstance(value, str) and _NameOnly in kinds.values()
        kind = _chosen(kinds, table.pop("kind", None), where=where if is_name else f"{where}.kind")
        part: Any = from_table(kinds[kind], table, where=where, complete=complete)
        return kind if isinstance(part, _NameOnly) else part
    if get_origin(hint) is Literal:
        return _chosen(get_args(hint), value, where=where)
    if get_origin(hint) is tuple:
        of = get_args(hint)[0]
        tables = enumerate(value if isinstance(value, list) else [value])
        return tuple(_from_value(one, of, f"{where}[{place}]", complete) for place, one in tables)
    if hint == ModelSettings:
        return settings_in(_table(value, where=where), complete=complete)
    if dataclasses.is_dataclass(hint):
        return from_table(hint, _table(value, where=where), where=where, complete=complete)  # type: ignore[arg-type]
    return _scalar(value, hint, where=where)


@dataclasses.dataclass(frozen=True)
class _NameOnly:
    """A choice beside parts that has no settings, and is a plain name."""


def kinds_of(hint: Any) -> dict[str, type]:
    """The parts that a setting of this type may hold, by name; none where it holds no part."""
    if hint is Loss:
        return dict(losses())
    choices = get_args(hint) or (hint,)
    parts = {kind.name: kind for kind in choices if hasattr(kind, "name")}
    names = [name for kind in choices if get_origin(kind) is Literal for name in get_args(kind)]
    return dict.fromkeys(names, _NameOnly) | parts if parts else {}


def _chosen(choices: Any, value: Any, *, where: str) -> str:
    if not isinstance(value, str) or value not in choices:
        raise unknown_choice("unknown choice", value, choices, where=where)
    return value


def _table(value: Any, *, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            "a setting is not a table", where=where, found=repr(value), wanted="a table"
        )
    return value


def _scalar(value: Any, hint: type, *, where: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and (is_number or value == "inf"):
        with contextlib.suppress(OverflowError):  # a whole number may be too large for a float
            return float(value)
    if type(value) is not hint:
        raise ConfigError(
            "a setting has the wrong type", where=where, found=repr(value), wanted=hint.__name__
        )
    return value


def read_toml(path: Path) -> Table:
    """The table of a TOML file."""
    try:
        return tomllib.loads(read_regular(path, most_bytes=_MOST_TOML_BYTES).decode())
    except FileNotFoundError:
        raise ConfigError(
            "no such settings file", where=str(path), found="nothing", wanted="a TOML file"
        ) from None
    except (ValueError, RecursionError, OSError) as error:  # damaged TOML raises all of these
        found = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            "the settings file cannot be read", where=str(path), found=found, wanted="TOML"
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
    except (ValueError, RecursionError):
        parsed = value.strip()
    return path.strip().split("."), parsed


def merge(table: Table, changes: Mapping[str, Any]) -> Table:
    """`table` with `changes` laid over it; a part of another kind replaces the old one whole."""
    merged = dict(table)
    for name, value in changes.items():
        old = merged.get(name)
        if isinstance(value, str) and isinstance(old, Mapping) and "kind" in old:
            value = {"kind": value}
        if isinstance(value, Mapping) and isinstance(old, str):
            old = {"kind": old}
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            same_kind = value.get("kind", old.get("kind")) == old.get("kind")
            merged[name] = merge(dict(old), value) if same_kind else dict(value)
        else:
            merged[name] = value
    return merged


def settings_in(table: Mapping[str, Any], *, complete: bool = False) -> AnySettings:
    """Settings from a table that says by its names which sort of settings it holds."""
    cls: type[AnySettings] = Settings
    if "solver" in table:
        cls = SolverSettings
    elif "second" in table:
        cls = TwoStageSettings
    elif "members" in table:
        cls = BlendSettings
    return from_table(cls, table, where="", complete=complete)


def preset(name: str) -> AnySettings:
    """The settings of the preset of this name, which may be the automatic choice."""
    return AutoSettings() if name == presets.AUTO else model_preset(name)


def model_preset(name: str) -> ModelSettings:
    """The settings of a preset that is one model."""
    if not isinstance(name, str) or name not in presets.PRESETS:  # a file may say anything
        names = [presets.AUTO, *presets.PRESETS]
        raise unknown_choice("unknown preset", name, names, where="--preset")
    return presets.PRESETS[name]


def named_settings(
    name: str | None, *, file: Path | None = None, assignments: Sequence[str] = ()
) -> tuple[str, AnySettings]:
    """A preset with what a file and single assignments change in it, and its name.

    Where no name is given it is the file's `preset`, and without a word the default.
    """
    changes = {} if file is None else read_toml(file)
    named = changes.pop("preset", None)
    name = name or named or presets.AUTO
    return name, resolve(preset(name), changes, assignments)


def resolve(
    start: Kind,
    changes: Mapping[str, Any] = MappingProxyType({}),
    assignments: Sequence[str] = (),
) -> Kind:
    """The settings of a preset, changed by a table and then by single assignments."""
    if not changes and not assignments:
        return start
    if isinstance(start, AutoSettings):
        raise ConfigError(
            "the automatic choice has no settings",
            where="--preset auto",
            found=", ".join([*changes, *assignments]),
            wanted="a preset whose settings are to be changed, for example --preset softmax",
        )
    table = merge(to_table(start), changes)
    for text in assignments:
        path, value = parse_assignment(text)
        for name in reversed(path):
            value = {name: value}
        table = merge(table, value)
    return from_table(type(start), table, where="")
