"""Schemas of requests, by which they are checked and described."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules

Id = StrictInt | StrictStr
Ids = Annotated[list[Id], Field(max_length=100_000)]
Listed = Annotated[list[Id] | None, Field(max_length=100_000)]


def examples(*shown: dict[str, Any]) -> ConfigDict:
    """What the description of the API shows."""
    return ConfigDict(json_schema_extra={"examples": list(shown)})


Variant = Annotated[
    str | None,
    Field(
        max_length=64,
        description="The model of this variant; otherwise that of the user or visitor, or the "
        "first. GET /v1/model lists them.",
    ),
]
Told = Annotated[
    list[str] | None,
    Field(max_length=100, description='Attributes to tell of each item; "all" for all there are.'),
]
Filter = Annotated[
    str | None,
    Field(
        description="Only items of which this expression is true; @name is a filter of the server.",
        examples=['kind in ["tea", "jam"] and price < 50'],
    ),
]


class QueryFields(BaseModel):
    """The options of a `Query` that a client may choose."""

    k: Annotated[int, Field(ge=1, description="Items in a list; GET /v1/model has the limit.")] = 20
    exclude_seen: Annotated[bool, Field(description="Leave out what a user has already.")] = True
    allow: Annotated[Listed, Field(description="List only these items.")] = None
    deny: Annotated[Listed, Field(description="List none of these items.")] = None
    on_unknown: Annotated[
        Literal["raise", "skip", "fallback"],
        Field(
            description="Unknown ids are refused, left out, or, for users, answered with the "
            "items that have most users."
        ),
    ] = "raise"
    filter: Filter = None
    attributes: Told = None
    max_cold: Annotated[
        int | None, Field(ge=0, description="Items that nobody has had, at most.")
    ] = None

    diversity: Annotated[
        float | None,
        Field(ge=0, le=1, description="From the best scores to unlike items; before the rules."),
    ] = None
    variant: Variant = None

    def query(self, rules: Rules) -> Query:
        """The query with these options and rules."""
        names = QueryFields.model_fields.keys() - {"diversity", "variant", "attributes"}
        options = {name: getattr(self, name) for name in names}
        return Query(**options, attributes=self.attributes or (), rules=rules)


class UserQuery(QueryFields):
    """The parameters of a request about one user, who cannot be left out."""

    model_config = ConfigDict(extra="forbid")

    on_unknown: Annotated[
        Literal["raise", "fallback"], Field(description="An unknown user: 404, or the popular.")
    ] = "raise"
    rules: Annotated[
        str | None, Field(max_length=200, description="A set of rules of the server, by its name.")
    ] = None


class NoQuery(BaseModel):
    """The parameters of an address that has none."""

    model_config = ConfigDict(extra="forbid")


class VariantQuery(NoQuery):
    """The parameter of a request to one of several models."""

    variant: Variant = None


class LengthQuery(VariantQuery):
    """The parameters of a request for the first of many."""

    k: Annotated[int, Field(ge=1, description="How many at most; GET /v1/model has the limit.")] = (
        20
    )


class SimilarQuery(LengthQuery):
    """The parameters of a request for similar items."""

    allow: Annotated[Listed, Field(description="List only these items.")] = None
    deny: Annotated[Listed, Field(description="List none of these items.")] = None
    filter: Filter = None
    attributes: Told = None

    def query(self) -> Query:
        """The query with these options."""
        told = self.attributes or ()
        return Query(self.k, allow=self.allow, deny=self.deny, filter=self.filter, attributes=told)


class HistoryQuery(LengthQuery):
    """The parameters of a request for the items that a user had."""

    k: Annotated[int, Field(ge=1, description="Items at most; GET /v1/model has the limit.")] = 100
    attributes: Told = None


class SearchQuery(LengthQuery):
    """The parameters of a search."""

    query: Annotated[
        str, Field(max_length=200, description="Part of an id or name.", examples=["tea"])
    ] = ""


class ItemSearchQuery(SearchQuery):
    """The parameters of a search for items."""

    attributes: Told = None


class MapQuery(VariantQuery):
    """The parameters of a request for places on the map."""

    item: Annotated[list[str] | None, Field(description="Item ids; repeat the parameter.")] = None
    attributes: Told = None


class RecommendRequest(QueryFields):
    """Users that the model knows, or histories or attributes of users that it has never seen."""

    # strict, as JSON has types of its own; an address has none
    model_config = ConfigDict(extra="forbid", strict=True) | examples(
        {"users": ["ada", "bob"], "k": 20},
        {"histories": [["tea", "jam"], ["oats"]], "k": 20, "on_unknown": "skip"},
        {"profiles": [{"segment": "student"}], "k": 20},
    )

    rules: Annotated[
        str | dict[str, Any] | None,
        Field(description="A set of rules of the server by its name, or a table of rules."),
    ] = None
    users: Annotated[Ids | None, Field(min_length=1, description="Ids of known users.")] = None
    histories: Annotated[
        list[Ids] | None,
        Field(min_length=1, description="The items of each user that was never seen."),
    ] = None
    profiles: Annotated[
        list[dict[str, Any]] | None,
        Field(min_length=1, description="The attributes of each user of whom there is no more."),
    ] = None
    visitor: Annotated[
        str | None,
        Field(
            max_length=1000,
            description="Whose histories or profiles these are; it always gets the same variant.",
        ),
    ] = None

    @model_validator(mode="after")
    def _one_sort_of_users(self) -> Self:
        if sum(sort is not None for sort in (self.users, self.histories, self.profiles)) != 1:
            raise ValueError("either users or histories or profiles, and only one of them")
        if self.users is not None and self.visitor is not None:
            raise ValueError("a visitor with histories or profiles; users are known by their ids")
        return self


class WhyRequest(BaseModel):
    """A history, and an item that was recommended for it."""

    model_config = ConfigDict(extra="forbid") | examples(
        {"history": ["tea", "jam"], "item": "oats"}
    )

    history: Annotated[Ids, Field(min_length=1, description="The items of a user.")]
    item: Annotated[Id, Field(description="The item to be explained.")]
    variant: Variant = None
