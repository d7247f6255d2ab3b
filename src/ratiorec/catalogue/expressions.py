"""Expressions over attributes: `kind in ["tea", "jam"] and price < 50`, read, checked, applied."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, cast

from ratiorec.catalogue.attributes import Attributes
from ratiorec.catalogue.conditions import (
    KEYWORDS,
    PLAIN_NAME,
    AllOf,
    Among,
    AnyOf,
    Compared,
    Condition,
    Contains,
    Has,
    IsMissing,
    Mask,
    Named,
    Node,
    Not,
    Operator,
    depth_of,
    joined,
    leaves,
    mask_of,
    quoted_name,
    replaced,
)
from ratiorec.errors import ConfigError

MOST_CHARACTERS = 4000
MOST_CONDITIONS = 500
MOST_CONTAINS = 32  # each goes through all texts
MOST_VALUES = 1000
DEEPEST = 32  # parentheses and negations inside one another
_DEEPEST_TREE = 2 * DEEPEST + 3  # each may hold an `or` of `and`

_ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        "number": "==, !=, <, <=, >, >=, in and not in with numbers, or is missing",
        "category": '==, !=, in and not in with texts in quotes, contains "…", or is missing',
        "tags": 'has "…", has any ["…"], has all ["…"], or is missing',
        "text": '==, !=, in and not in with texts in quotes, contains "…", or is missing',
    }
)
_TOKEN = re.compile(
    rf"""\s*(?:
      (?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)(?![\w.])
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>{PLAIN_NAME.pattern})
    | (?P<sign>==|!=|<=|>=|[=<>()\[\],@])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_AROUND = 30  # characters of an expression shown on either side of a mistake


@dataclass(frozen=True)
class Expression:
    """A condition on the rows of a table; `str` gives its one form, which reads as the same.

    Text and numbers are compared with what is there: any comparison with a missing value is
    false, and `not` is true of what is false.

    >>> from ratiorec.catalogue.columns import Numbers
    >>> import numpy as np
    >>> table = Attributes(3, {"price": Numbers(np.array([9.5, 60, np.nan]))})
    >>> print(Expression.parse("not(price<50.0)"), Expression.parse("price < 50").mask(table))
    not price < 50 [ True False False]
    """

    root: Node
    text: str = field(default="", compare=False)
    where: str = field(default="filter", compare=False)

    def __str__(self) -> str:
        return str(self.root)

    @classmethod
    def parse(cls, text: str, *, where: str = "filter") -> Expression:
        """Read an expression.

        Raises:
            ConfigError: It is none, or too long, too deep or of too many conditions; the message
                says at which character and `where` in what.
        """
        if len(text) > MOST_CHARACTERS:
            raise _too_much(where, len(text), MOST_CHARACTERS, "characters")
        return _parsed(text, where)

    @property
    def names(self) -> dict[str, None]:
        """The named expressions in it, in their order."""
        return {leaf.name: None for leaf in leaves(self.root) if isinstance(leaf, Named)}

    @property
    def columns(self) -> dict[str, None]:
        """The columns that it looks at, in their order."""
        return {leaf.column: None for leaf in leaves(self.root) if isinstance(leaf, Condition)}

    @property
    def n_conditions(self) -> int:
        """The conditions in it; one with a name counts as one."""
        return sum(1 for _ in leaves(self.root))

    def check(self, table: Attributes) -> Expression:
        """The same expression, once the table has its columns and they are of the right kinds.

        Raises:
            ConfigError: The table has no such column, or it is of another kind.
        """
        for leaf in leaves(self.root):
            if not isinstance(leaf, Condition):
                continue
            if leaf.column not in table.columns:
                raise self._no_such(leaf.column, leaf.at, "column", list(table.columns))
            kind = table.columns[leaf.column].kind
            if leaf.kinds and kind not in leaf.kinds:
                raise ConfigError(
                    "the filter asks of a column what it cannot answer",
                    where=place_in(self.where, leaf.at),
                    found=f"{leaf}, and {leaf.column} is of the kind {kind}",
                    wanted=f"for {kind}: {_ANSWERS[kind]}",
                )
        return self

    def mask(self, table: Attributes) -> Mask:
        """Which rows of the table it is true of; the table is checked first."""
        if self.names:
            self.with_named({})
        return mask_of(self.check(table).root, table)

    def __and__(self, other: Expression) -> Expression:
        """Both at once."""
        whole = Expression(joined(AllOf, [self.root, other.root]), where=self.where)
        whole._check_size()
        return whole

    def with_named(self, named: Mapping[str, Expression]) -> Expression:
        """The expression with others in the place of their names; these have no names in them.

        Raises:
            ConfigError: A name is unknown, or the whole is too deep or of too many conditions.
        """
        for leaf in leaves(self.root):
            if isinstance(leaf, Named) and leaf.name not in named:
                raise self._no_such(leaf.name, leaf.at, "named filter", list(named))
        roots = {name: expression.root for name, expression in named.items()}
        whole = Expression(replaced(self.root, roots), self.text, self.where)
        whole._check_size()
        return whole

    def _check_size(self) -> None:
        conditions = list(leaves(self.root))
        n_contains = sum(isinstance(one, Contains) for one in conditions)
        for n, most, unit in (
            (len(conditions), MOST_CONDITIONS, "conditions"),
            (n_contains, MOST_CONTAINS, "conditions with contains"),
            (depth_of(self.root), _DEEPEST_TREE, "levels"),
        ):
            if n > most:
                raise _too_much(self.where, n, most, unit)

    def _no_such(self, name: str, at: int, kind: str, known: list[str]) -> ConfigError:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {quoted_name(near[0])}?" if near else ""
        listed = ", ".join(map(quoted_name, known[:50])) + ", …" * (len(known) > 50)
        return ConfigError(
            f"the filter names a {kind} that is not there",
            where=place_in(self.where, at),
            found=f"{quoted_name(name)}, at the ^ in {_shown(self.text, at)}",
            wanted=f"one of {listed}{hint}" if known else "a model with one; this has none",
        )


@lru_cache(256)  # the same few come again and again
def _parsed(text: str, where: str) -> Expression:
    expression = Expression(_Parser(text, where).whole(), text, where)
    expression._check_size()
    return expression


def place_in(where: str, at: int) -> str:
    """A place in an expression, counted from 1."""
    return f"{where}, character {at + 1}"


def _shown(text: str, at: int) -> str:
    """An expression around a mistake, which is behind the caret, in one line."""
    start, end = max(0, at - _AROUND), at + _AROUND
    before = "…" * (start > 0) + text[start:at]
    after = text[at:end] + "…" * (end < len(text))
    return " ".join(f"{before}^{after}".split())


def _too_much(where: str, n: int, most: int, unit: str) -> ConfigError:
    return ConfigError(
        "the filter is too large", where=where, found=f"{n:,} {unit}", wanted=f"at most {most:,}"
    )


class _Token(NamedTuple):
    """A word, sign, number or text, and where it begins."""

    kind: str
    text: str
    at: int

    @property
    def is_keyword(self) -> bool:
        return self.kind == "word" and self.text.lower() in KEYWORDS


class _Parser:
    """Reads an expression from left to right; each method takes what it is called after."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._depth = 0
        self._next = self._token(0)

    def whole(self) -> Node:
        """The expression, behind which nothing may follow."""
        node = self._either()
        if self._next.kind != "end":
            raise self._unreadable('"and" or "or", or the end')
        return node

    def _either(self) -> Node:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return joined(AnyOf, parts)

    def _both(self) -> Node:
        parts = [self._one()]
        while self._takes("and"):
            parts.append(self._one())
        return joined(AllOf, parts)

    def _one(self) -> Node:
        at = self._next.at
        self._depth += 1
        if self._depth > DEEPEST:
            unit = "levels of parentheses and not"
            raise _too_much(place_in(self._where, at), self._depth, DEEPEST, unit)
        if self._takes("not"):
            node: Node = Not(self._one())
        elif self._takes("("):
            node = self._either()
            self._expect(")", 'a closing ")", "and" or "or"')
        elif self._takes("@"):
            node = Named(self._name("the name of a filter after @"), at)
        else:
            node = self._condition(self._name('the name of a column, "not", "(" or @'), at)
        self._depth -= 1
        return node

    def _condition(self, column: str, at: int) -> Condition:
        if self._takes("is"):
            is_not = self._takes("not")
            self._expect("missing", '"missing" or "not missing"')
            return IsMissing(column, is_not, at=at)
        if self._takes("in"):
            return Among(column, self._values(), at=at)
        if self._takes("not"):
            self._expect("in", '"in" after "not"')
            return Among(column, self._values(), is_not=True, at=at)
        if self._takes("contains"):
            return Contains(column, self._quoted(), at=at)
        if self._takes("has"):
            return self._has(column, at)
        for sign in ("==", "=", "!=", "<=", ">=", "<", ">"):
            if self._takes(sign):
                return self._compared(column, sign, at)
        raise self._unreadable("==, !=, <, <=, >, >=, in, not in, has, contains or is")

    def _compared(self, column: str, sign: str, at: int) -> Condition:
        if sign in ("=", "==", "!="):
            return Among(column, _alike([self._value()]), is_not=sign == "!=", at=at)
        if self._next.kind == "text":
            raise self._unreadable("a number, as only numbers are larger or smaller")
        return Compared(column, cast(Operator, sign), cast(float, self._value()), at=at)

    def _has(self, column: str, at: int) -> Condition:
        every = self._takes("all")
        if not every and not self._takes("any"):
            return Has(column, (self._quoted(),), at=at)
        start = self._next
        values = self._values()
        if values and not isinstance(values[0], str):
            raise self._unreadable('a list of texts, as ["organic", "fair"]', start)
        tags = cast(tuple[str, ...], values)
        return Has(column, tags, every and len(tags) != 1, at=at)

    def _values(self) -> tuple[float, ...] | tuple[str, ...]:
        start = self._next
        self._expect("[", 'a list in brackets, as ["tea", "jam"]')
        values: list[float | str] = []
        while not self._takes("]"):
            if values:
                self._expect(",", '"," or "]"')
            value = self._next
            values.append(self._value())
            if type(values[-1]) is not type(values[0]):
                raise self._unreadable("a list of numbers alone, or of texts alone", value)
        if len(values) > MOST_VALUES:
            where = place_in(self._where, start.at)
            raise _too_much(where, len(values), MOST_VALUES, "values in a list")
        return _alike(values)

    def _value(self) -> float | str:
        token = self._next
        if token.kind == "text":
            return self._quoted()
        if token.kind == "number" and math.isfinite(float(token.text)):
            self._advance()
            return float(token.text)
        if self._takes("true"):
            return 1.0
        if self._takes("false"):
            return 0.0
        raise self._unreadable("a number, or a text in quotes")

    def _quoted(self) -> str:
        token = self._next
        if token.kind != "text":
            raise self._unreadable('a text in quotes, as "tea"')
        self._advance()
        return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)

    def _name(self, wanted: str) -> str:
        token = self._next
        if token.kind == "quoted":
            self._advance()
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word" or token.is_keyword:
            raise self._unreadable(wanted + ("; a name like this in `" if token.is_keyword else ""))
        self._advance()
        return token.text

    def _takes(self, text: str) -> bool:
        """Whether this keyword or sign comes next; then it is taken."""
        token = self._next
        found = token.kind in ("word", "sign") and token.text.lower() == text
        if found:
            self._advance()
        return found

    def _expect(self, text: str, wanted: str) -> None:
        if not self._takes(text):
            raise self._unreadable(wanted)

    def _advance(self) -> None:
        self._next = self._token(self._next.at + len(self._next.text))

    def _token(self, at: int) -> _Token:
        match = _TOKEN.match(self._text, at)
        if match is None:
            start = at + len(self._text[at:]) - len(self._text[at:].lstrip())
            raise self._unknown_sign(start)
        kind = str(match.lastgroup)
        return _Token(kind, match[kind], match.start(kind))

    def _unknown_sign(self, at: int) -> ConfigError:
        character = self._text[at]
        if character in "\"'`":
            wanted = f"a closing {character}"
        elif character.isdigit() or character in "+-.":
            wanted = "a number such as 50, -0.5 or 1e6"
        else:
            wanted = "a name, a number, a text in quotes, or one of == != < <= > >= ( ) [ ] , @"
        return self._unreadable(wanted, _Token("character", character, at))

    def _unreadable(self, wanted: str, token: _Token | None = None) -> ConfigError:
        token = token or self._next
        found = "the end" if token.kind == "end" else repr(token.text[:_AROUND])
        return ConfigError(
            "the filter cannot be read",
            where=place_in(self._where, token.at),
            found=f"{found}, at the ^ in {_shown(self._text, token.at)}",
            wanted=wanted,
        )


def _alike(values: list[float | str]) -> tuple[float, ...] | tuple[str, ...]:
    """Values of one type in their one order, without repeats."""
    return cast(tuple[float, ...], tuple(sorted(set(cast(list[float], values)))))
