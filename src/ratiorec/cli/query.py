"""The options of a request for lists, on the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ratiorec.cli import options as o
from ratiorec.errors import ConfigError

if TYPE_CHECKING:
    from ratiorec.catalogue.expressions import Expression
    from ratiorec.catalogue.filters import Filters
    from ratiorec.model.artifact import Artifact
    from ratiorec.model.query import Query
    from ratiorec.reranking.rules import Rules


@dataclass(frozen=True)
class ListGroup:
    """The options of a `Query` that say what a list may hold."""

    k: o.K = None
    allow: Annotated[Path | None, typer.Option(help="Only items in this file, one a line.")] = None
    deny: Annotated[Path | None, typer.Option(help="No items in this file, one a line.")] = None
    filter: Annotated[
        str | None,
        typer.Option(help="Only items of which this is true.", metavar="'stock > 0 and price < 5'"),
    ] = None
    filters: Annotated[
        Path | None, typer.Option(help="TOML file of named filters, for --filter @name.")
    ] = None
    rules: Annotated[Path | None, typer.Option(help="TOML file of sets of rules.")] = None
    rule_set: Annotated[
        str | None, typer.Option(help="The set of --rules; may be left where there is one.")
    ] = None
    diversity: Annotated[
        float | None, typer.Option(help="0 for the best scores, 1 for unlike items.", metavar="X")
    ] = None
    attributes: o.ListedAttributes = None

    def query(self, artifact: Artifact) -> Query:
        """The query, once the items of the model can answer it."""
        from ratiorec.catalogue.filters import read_filters
        from ratiorec.model.query import Query

        attributes = o.words(self.attributes or "")
        artifact.item_table.asked_for(attributes, where="--attributes")
        named = artifact.with_filters(read_filters(self.filters) if self.filters else {})
        return Query(
            k=_list_length(self.k, len(artifact.items)),
            allow=o.read_lines(self.allow) if self.allow else None,
            deny=o.read_lines(self.deny) if self.deny else None,
            filter=self._filter(named.filters),
            rules=self._rules(named),
            attributes=attributes,
        )

    def _filter(self, filters: Filters) -> Expression | None:
        """The expression without names, which are known to nobody but this command."""
        from ratiorec.catalogue.expressions import Expression

        if self.filter is None:
            return None
        return filters.check(Expression.parse(self.filter, where="--filter"))

    def _rules(self, named: Artifact) -> Rules | None:
        """The rules without names, once the items are of use to them."""
        rules = self._chosen_rules()
        if not rules:
            return None
        try:
            named.shelf.reranker(rules, 1, named.seen)
        except ConfigError as error:
            error.where = f"--rules {self.rules}, {error.where}"
            raise
        return rules.with_boosts(named.filters.check)

    def _chosen_rules(self) -> Rules:
        from ratiorec.reranking.rules import Rules, named_rules, read_rules

        sets = read_rules(self.rules) if self.rules else {}
        if self.rule_set is not None:
            rules = named_rules(sets, self.rule_set, where="--rule-set")
        elif len(sets) > 1:
            raise ConfigError(
                "there are several sets of rules",
                where=f"--rules {self.rules}",
                found=", ".join(sets),
                wanted="--rule-set with one of them",
            )
        else:
            rules = next(iter(sets.values()), Rules())
        return rules if self.diversity is None else replace(rules, diversity=self.diversity)


@dataclass(frozen=True)
class QueryGroup(ListGroup):
    """All options of a `Query` about users."""

    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items the user has already.")
    ] = False
    on_unknown: Annotated[
        Literal["raise", "skip", "fallback"], typer.Option(help="What to do about unknown ids.")
    ] = "raise"
    max_cold: Annotated[
        int | None,
        typer.Option(min=0, help="Items without any user in a list, at most; by default a tenth."),
    ] = None
    memory_mb: Annotated[int, typer.Option(help="Memory for blocks of scores.")] = 512

    def query(self, artifact: Artifact) -> Query:
        """The query, once the items of the model can answer it."""
        return replace(
            super().query(artifact),
            exclude_seen=not self.include_seen,
            on_unknown=self.on_unknown,
            max_cold=self.max_cold,
            memory_mb=self.memory_mb,
        )


def _list_length(k: int | None, n_items: int) -> int:
    """What was asked for, or as much as there is."""
    return min(20 if k is None else k, n_items)
