"""Rules: what a shop wants of its lists beside the best scores, as a value that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from ratiorec.catalogue.expressions import Expression
from ratiorec.config import read_toml
from ratiorec.errors import ConfigError, unknown_choice

T = TypeVar("T")
Named = Mapping[Any, T] | tuple[tuple[Any, T], ...]
"""Values by name; kept as pairs in the order of the names, so that equal rules are equal."""
Id = int | str

MOST_RULES = 100
"""Rules of one sort, at most."""
MOST_APART = 100
MOST_BOOST = 1000.0


@dataclass(frozen=True)
class Rules:
    """Rules for one list: the same in Python, in TOML, on the command line and by HTTP.

    They are applied in a fixed order: boosts change scores; pins take their places; the best item
    that limits, places apart, diversity and calibration leave stands at each other place, one
    after another (theory: L1). A rule never fills a place: where it leaves no item the list ends.

    Attributes:
        limits: At most so many items of each value of an attribute.
        apart: Items of one value of an attribute stand so many places apart, or more.
        pins: The item at a place from 1 on, if it may be listed: not denied, filtered or seen.
        boosts: What is added to the score of items that fit an expression, written as a filter
            is, in standard deviations of the user's best scores (theory: L2).
        diversity: 0 for the best scores, 1 for items as unlike one another as can be (theory: L3).
        calibration: The same between scores and the shares of the values of an attribute in the
            user's history (theory: L4).

    >>> Rules(limits={"category": 3}) == Rules(limits=(("category", 3),))
    True
    """

    limits: Named[int] = ()
    apart: Named[int] = ()
    pins: Named[Id] = ()
    boosts: Named[float] = ()
    diversity: float = 0.0
    calibration: Named[float] = ()

    def __post_init__(self) -> None:
        self._keep("limits", _attribute, _whole(1, None))
        self._keep("apart", _attribute, _whole(2, MOST_APART))
        self._keep("pins", _place, _item)
        self._keep("boosts", _expression, _number(-MOST_BOOST, MOST_BOOST))
        self._keep("calibration", _attribute, _number(0, 1))
        object.__setattr__(self, "diversity", _number(0, 1)(self.diversity, "diversity"))
        pinned = [item for _, item in pairs(self.pins)]
        if len(set(pinned)) < len(pinned):
            twice = next(item for item in pinned if pinned.count(item) > 1)
            raise ConfigError(
                "an item is pinned to two places",
                where="pins",
                found=repr(twice),
                wanted="each item once",
            )

    def __bool__(self) -> bool:
        return self != Rules()

    @property
    def n_rules(self) -> int:
        """Rules of all sorts that have a name or a place."""
        return sum(map(len, (self.limits, self.apart, self.pins, self.boosts, self.calibration)))

    @property
    def conditions(self) -> list[Expression]:
        """The expressions of the boosts."""
        return [boost_of(text) for text, _ in pairs(self.boosts)]

    def with_boosts(self, settled: Callable[[Expression], Expression]) -> Self:
        """The same rules, what they boost put otherwise: without names that others do not know."""
        boosts: dict[str, float] = {}
        for text, value in pairs(self.boosts):
            name = str(settled(boost_of(text)))
            boosts[name] = boosts.get(name, 0) + value  # two may turn out to be one
        return replace(self, boosts=boosts)

    def _keep(
        self, name: str, key: Callable[[Any, str], Any], value: Callable[[Any, str], Any]
    ) -> None:
        """Check the pairs of one sort of rule, and keep them in order."""
        given = getattr(self, name)
        try:
            listed = [(k, v) for k, v in (given.items() if isinstance(given, Mapping) else given)]
        except (TypeError, ValueError):
            raise _refused("rules are values by name", name, given, _EXAMPLES[name]) from None
        if len(listed) > MOST_RULES:
            found, wanted = f"{len(listed):,}", f"at most {MOST_RULES}"
            raise ConfigError("there are too many rules", where=name, found=found, wanted=wanted)
        kept = {key(k, name): value(v, f"{name}.{k}") for k, v in listed}
        if len(kept) < len(listed):
            raise _refused("a rule is given twice", name, given, "each name or place once")
        object.__setattr__(self, name, tuple(sorted(kept.items())))

    @classmethod
    def from_table(cls, table: Any, *, where: str) -> Self:
        """Rules from a table (TOML, JSON); what it does not know is refused.

        Raises:
            ConfigError: Something in the table is no rule.
        """
        if not isinstance(table, Mapping):
            raise _refused("rules are a table", where, table, "a table of rules")
        names = [field.name for field in fields(cls)]
        for name in table:
            if name not in names:
                raise unknown_choice("unknown rule", name, names, where=where)
        try:
            return cls(**table)
        except ConfigError as error:
            error.where = f"{where}.{error.where}"
            raise


def pairs(rules: Named[T]) -> tuple[tuple[Any, T], ...]:
    """Rules of one sort, each with its name."""
    return tuple(rules.items()) if isinstance(rules, Mapping) else rules


def boost_of(text: str) -> Expression:
    """The expression of a boost."""
    return Expression.parse(text, where="rules.boosts")


def read_rules(path: Path) -> dict[str, Rules]:
    """The sets of rules of a TOML file, each a table of its own, by name.

    Raises:
        ConfigError: It cannot be read, or something in it is no rule.
    """
    return {
        name: Rules.from_table(table, where=f"{path} [{name}]")
        for name, table in read_toml(path).items()
    }


def named_rules(sets: Mapping[str, Rules], name: str, *, where: str) -> Rules:
    """The set of this name.

    Raises:
        UnknownChoiceError: There is none.
    """
    if name not in sets:
        names = list(sets) or ["none: there is no file of rules"]
        raise unknown_choice("no such set of rules", name, names, where=where)
    return sets[name]


_EXAMPLES = {
    "limits": '{"category": 3}',
    "apart": '{"brand": 2}',
    "pins": '{1: "tea"}',
    "boosts": '{"stock > 10": 0.5}',
    "calibration": '{"category": 0.5}',
}


def _refused(what: str, where: str, found: Any, wanted: str) -> ConfigError:
    return ConfigError(what, where=where, found=repr(found), wanted=wanted)


def _attribute(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refused("a rule has no name", where, value, _EXAMPLES[where])
    return value


def _expression(value: Any, where: str) -> str:
    """An expression in its one form, so that equal ones are equal."""
    return str(Expression.parse(_attribute(value, where), where=where))


def _place(value: Any, where: str) -> int:
    """A place; in JSON and TOML it is text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if not _is_whole(value) or value < 1:
        raise _refused("this is no place in a list", where, value, "a whole number from 1")
    return int(value)


def _item(value: Any, where: str) -> Id:
    if isinstance(value, str) or _is_whole(value):
        return value if isinstance(value, str) else int(value)
    raise _refused("this is no item", where, value, "the id of an item")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _whole(low: int, high: int | None) -> Callable[[Any, str], int]:
    def checked(value: Any, where: str) -> int:
        if not _is_whole(value) or value < low or (high is not None and value > high):
            end = "" if high is None else f" to {high}"
            what = "a rule needs a whole number"
            raise _refused(what, where, value, f"a whole number from {low}{end}")
        return int(value)

    return checked


def _number(low: float, high: float) -> Callable[[Any, str], float]:
    def checked(value: Any, where: str) -> float:
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            wanted = f"a number from {low:g} to {high:g}"
            raise _refused("a strength is out of range", where, value, wanted)
        return float(value)

    return checked
