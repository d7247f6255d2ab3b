"""Filters of a model's items: expressions with names, and the items that each of them keeps."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.columns import Column, Texts
from ratiorec.catalogue.conditions import Steps, finished, mask_in_steps, quoted_name
from ratiorec.catalogue.expressions import Expression
from ratiorec.config import read_toml
from ratiorec.data.vocabulary import Vocabulary
from ratiorec.errors import ConfigError

_MOST_REMEMBERED = 256
_REMEMBERED_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class Filters:
    """What filters of one model mean: columns of its items, and expressions that have a name.

    Beside the columns of the table there are `id` and `title`, unless it has its own. What the
    last expressions keep is remembered.
    """

    items: Vocabulary
    table: Attributes
    named: Mapping[str, Expression] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Vocabulary, table: Attributes, texts: Mapping[str, str]) -> Filters:
        """Filters with these names; each may use the others, but not itself by a detour.

        Raises:
            ConfigError: One of them cannot be read, asks what the table cannot answer, or needs
                itself.
        """
        read = {name: Expression.parse(text, where=f"@{name}") for name, text in texts.items()}
        named: dict[str, Expression] = {}
        for name in read:
            _settle(name, read, named, ())
        known = cls(items, table, named)
        for expression in read.values():
            known.check(expression)
        return known

    def check(self, expression: Expression) -> Expression:
        """The expression without names, once the columns that it asks can answer."""
        return expression.check(self._asked(expression)).with_named(self.named)

    def kept(self, expression: Expression) -> NDArray[np.int64]:
        """The items that an expression is true of, ascending; not to be written to."""
        return finished(self.kept_in_steps(expression))

    def kept_in_steps(self, expression: Expression) -> Steps[NDArray[np.int64]]:
        """The same, condition by condition."""
        whole = self.check(expression)
        if (found := self._remembered.get(whole)) is None:
            found = np.flatnonzero((yield from mask_in_steps(whole.root, self._asked(whole))))
            found.flags.writeable = False
            self._remembered.put(whole, found)
        return found

    def remembers(self, whole: Expression) -> bool:
        """Whether it is known what an expression without names keeps."""
        return self._remembered.get(whole) is not None

    def _asked(self, expression: Expression) -> Attributes:
        """The table, with id and title only where it needs them: they take memory."""
        is_known = all(name in self.table.columns for name in expression.columns)
        return self.table if is_known else self._whole

    @cached_property
    def _whole(self) -> Attributes:
        more: dict[str, Column] = {"id": _texts(self.items.ids.tolist())}
        if self.items.names is not None:
            more["title"] = _texts(self.items.names.tolist())
        return Attributes(self.table.n_rows, more | dict(self.table.columns))

    @cached_property
    def _remembered(self) -> _Remembered:
        return _Remembered()


class _Remembered:
    """The items that the expressions asked for last keep, up to a number and a size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Expression, NDArray[np.int64]] = OrderedDict()
        self._n_bytes = 0

    def __reduce__(self) -> tuple[type[_Remembered], tuple[()]]:
        """A copy remembers nothing: a lock is of one process."""
        return _Remembered, ()

    def get(self, expression: Expression) -> NDArray[np.int64] | None:
        with self._lock:
            if (found := self._found.get(expression)) is not None:
                self._found.move_to_end(expression)
            return found

    def put(self, expression: Expression, found: NDArray[np.int64]) -> None:
        with self._lock:
            if expression not in self._found:
                self._found[expression] = found
                self._n_bytes += found.nbytes
            while len(self._found) > _MOST_REMEMBERED or self._n_bytes > _REMEMBERED_BYTES:
                self._n_bytes -= self._found.popitem(last=False)[1].nbytes


def _settle(
    name: str, read: Mapping[str, Expression], named: dict[str, Expression], above: tuple[str, ...]
) -> None:
    """Put into `named` an expression without names, and before it those that it needs."""
    if name in named or name not in read:
        return
    if name in above:
        circle = " → ".join(f"@{quoted_name(one)}" for one in (*above[above.index(name) :], name))
        raise ConfigError(
            "named filters need one another in a circle",
            where=f"@{quoted_name(above[-1])}",
            found=circle,
            wanted="a filter that does not need itself",
        )
    for needed in read[name].names:
        _settle(needed, read, named, (*above, name))
    named[name] = read[name].with_named(named)


def read_filters(path: Path) -> dict[str, str]:
    """The table `filters` of a TOML file: expressions by name.

    Raises:
        ConfigError: There is no such file, or something else in it.
    """
    table = read_toml(path)
    filters = table.get("filters")
    if not isinstance(filters, dict) or len(table) > 1:
        raise ConfigError(
            "a file of filters has one table",
            where=str(path),
            found=", ".join(f"[{name}]" for name in table) or "nothing",
            wanted='[filters], and in it lines such as in_stock = "stock > 0"',
        )
    for name, text in filters.items():
        if not isinstance(text, str):
            raise ConfigError(
                "a filter is an expression in quotes",
                where=f"{path}, {name}",
                found=repr(text),
                wanted=f'{name} = "…", for example "stock > 0"',
            )
    return filters


def _texts(values: list[object]) -> Texts:
    found = np.empty(len(values), object)
    found[:] = [None if value is None else str(value) for value in values]
    return Texts(found)
