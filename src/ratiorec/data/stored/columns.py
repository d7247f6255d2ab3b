"""Columns of a source as SQL: their values, and which of them cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ratiorec.data.formats.identifiers import MISSING_TEXTS
from ratiorec.data.stored.database import WorkDatabase, name, text
from ratiorec.errors import DataError

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_WIDE = ("UBIGINT", "HUGEINT", "UHUGEINT")
_REALS = ("FLOAT", "DOUBLE")
_WHOLE_FLOATS = 2**53
_LARGEST = 2**63 - 1
_WHITE = r"E' \t\n\r\f\v'"  # each is below «!», and few ids are: most are never trimmed


@dataclass(frozen=True)
class Column:
    """The column of one role: `value` and the condition `bad` are SQL."""

    role: str
    name: str
    kind: str
    value: str
    bad: str
    what: str
    wanted: str
    is_wide: bool = False


def kind_of(duckdb_type: str) -> str:
    """The type, as far as it matters which values of several files are of one kind."""
    if duckdb_type in (*_INTEGERS, *_WIDE):
        return "whole numbers"
    if duckdb_type in _REALS or duckdb_type.startswith("DECIMAL"):
        return "numbers"
    if duckdb_type.startswith(("DATE", "TIMESTAMP")):
        return "dates"
    if duckdb_type in ("VARCHAR", "UUID") or duckdb_type.startswith("ENUM"):
        return "text"
    return duckdb_type


def column(role: str, called: str, duckdb_type: str, *, is_text: bool) -> Column:
    """A column as its role wants it; `is_text` where it is the text of a CSV file."""
    made = {"weight": _weight, "timestamp": _time}.get(role, _identifier)
    kind, value, bad = made(role, name(called), duckdb_type, is_text=is_text)
    noun = {"user": "user id", "item": "item id"}.get(role, role)
    wanted = {
        "weight": "a number from 0 upwards in every row",
        "timestamp": "a number or a date such as 2024-05-31 in every row",
    }.get(role, f"one {noun} in every row")
    faults = {"weight": "a weight is missing, negative or no number"}
    faults["timestamp"] = "a timestamp is missing or cannot be read"
    what = faults.get(role, f"missing {noun}" if kind == "text" else f"{noun} is no whole number")
    return Column(role, called, kind, value, f"({bad})", what, wanted, duckdb_type in _WIDE)


def _identifier(role: str, called: str, duckdb_type: str, *, is_text: bool) -> tuple[str, str, str]:
    kind = kind_of(duckdb_type)
    if kind == "text":
        value = f"CAST({called} AS VARCHAR)"
        bad = f"{called} IS NULL OR ({value} < '!' AND trim({value}, {_WHITE}) = '')"
        if is_text:
            bad += f" OR {value} IN ({', '.join(text(one) for one in sorted(MISSING_TEXTS))})"
        return kind, value, bad
    if duckdb_type in _INTEGERS:
        return kind, f"CAST({called} AS BIGINT)", f"{called} IS NULL"
    value = f"TRY_CAST({called} AS BIGINT)"
    if duckdb_type in _REALS:
        return (
            kind,
            value,
            (
                f"{called} IS NULL OR isnan({called}) OR {called} <> floor({called}) "
                f"OR abs({called}) >= {_WHOLE_FLOATS}"
            ),
        )
    if kind in ("numbers", "whole numbers"):
        return kind, value, f"{value} IS NULL OR {value} <> {called}"
    raise DataError(
        f"the {role} column cannot hold {'events' if role == 'event' else 'ids'} that are streamed",
        where=f"{role} column",
        found=f"values of type {duckdb_type}",
        wanted="text, whole numbers up to 64 bits, or UUIDs; --sql with a CAST gives them",
    )


def _weight(role: str, called: str, duckdb_type: str, *, is_text: bool) -> tuple[str, str, str]:
    value = f"TRY_CAST({called} AS DOUBLE)"
    if kind_of(duckdb_type) not in ("text", "numbers", "whole numbers", "BOOLEAN"):
        raise _unreadable(role, duckdb_type)
    return "numbers", value, f"{value} IS NULL OR NOT isfinite({value}) OR {value} < 0"


def _time(role: str, called: str, duckdb_type: str, *, is_text: bool) -> tuple[str, str, str]:
    kind = kind_of(duckdb_type)
    if kind == "whole numbers":
        value = f"TRY_CAST({called} AS BIGINT)"
        return kind, value, f"{value} IS NULL"
    if kind == "numbers":
        value = f"CAST({called} AS DOUBLE)"
        return kind, value, f"{value} IS NULL OR NOT isfinite({value})"
    if kind == "dates":
        value = f"epoch_us(CAST({called} AS TIMESTAMP))"
        return kind, value, f"{called} IS NULL OR NOT isfinite({called})"
    if kind == "text":  # numbers or dates; `of_the_source` finds out which
        value = f"TRY_CAST({called} AS BIGINT)"
        return kind, value, f"{value} IS NULL"
    raise _unreadable(role, duckdb_type)


def _unreadable(role: str, duckdb_type: str) -> DataError:
    return DataError(
        f"the {role} column cannot be read",
        where=f"{role} column",
        found=f"values of type {duckdb_type}",
        wanted="numbers for weights, numbers or dates for times",
    )


def settled_form(database: WorkDatabase, found: Column, relation: str) -> Column:
    """A column in the form that its values need, where their type alone does not say it.

    Text that stands for times is numbers or dates, whichever most of it is. Whole numbers beyond
    64 bits, such as hashes without a sign, become text.
    """
    called = name(found.name)
    if found.role == "timestamp" and found.kind == "text":
        forms = {
            "whole numbers": f"TRY_CAST({called} AS BIGINT)",
            "numbers": f"TRY_CAST({called} AS DOUBLE)",
            "dates": f"epoch_us(TRY_CAST({called} AS TIMESTAMPTZ))",
        }
        counts = ", ".join(f"count({form})" for form in forms.values())
        most = np.argmax(database.one(f"SELECT {counts} FROM {relation}"))
        kind, form = list(forms.items())[int(most)]
        return replace(found, kind=kind, value=form, bad=f"({form} IS NULL)")
    if found.role in ("user", "item") and found.is_wide:
        (largest,) = database.one(f"SELECT max({called}) FROM {relation}")
        if largest is not None and largest > _LARGEST:
            value, bad = f"CAST({called} AS VARCHAR)", f"({called} IS NULL)"
            return replace(found, kind="text", value=value, bad=bad)
    return found


def dtype_of_times(times: Column) -> Any:
    """The type in which moments are kept."""
    return np.dtype("<f8" if times.kind == "numbers" else "<i8")
