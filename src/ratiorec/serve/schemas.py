"""Schemas of requests and answers, for checking the first and describing both."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from ratiorec.model.query import Query
from ratiorec.reranking.rules import Rules

Id = StrictInt | StrictStr
Ids = Annotated[list[Id], Field(max_length=100_000)]
Listed = Annotated[list[Id] | None, Field(max_length=100_000)]
_MODEL = "9f2c1f0b6f5d4c3a"


def _examples(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


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
    model_config = ConfigDict(extra="forbid", strict=True) | _examples(
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

    model_config = ConfigDict(extra="forbid") | _examples(
        {"history": ["tea", "jam"], "item": "oats"}
    )

    history: Annotated[Ids, Field(min_length=1, description="The items of a user.")]
    item: Annotated[Id, Field(description="The item to be explained.")]
    variant: Variant = None


Attributes = Annotated[
    dict[str, Any] | None, Field(description="What was asked for in `attributes`.")
]
AnsweringVariant = Annotated[
    str | None, Field(description="The variant whose model it is; only where models have names.")
]


class Ranked(BaseModel):
    """One place in a list."""

    item_id: int | str
    item_name: str | None = None
    score: float
    rank: int
    kind: Annotated[
        Literal["personal", "cold", "fallback"],
        Field(
            description="Ranked for this user; ranked by its content, as nobody has had it; "
            "popular, as nothing is known of the user."
        ),
    ]
    attributes: Attributes = None


Fallback = Annotated[
    bool | None,
    Field(
        description="True where the model knows nothing of the user, and the list is that of the "
        "items with most users, the score being how many; absent from personal lists."
    ),
]


class OneList(BaseModel):
    """The list of one user."""

    model_config = _examples(
        {
            "model": _MODEL,
            "user_id": "ada",
            "items": [{"item_id": "oats", "score": 1.25, "rank": 1, "kind": "personal"}],
        }
    )

    model: Annotated[str, Field(description="Version of the model that ranked.")]
    variant: AnsweringVariant = None
    user_id: int | str
    fallback: Fallback = None
    items: list[Ranked]


class ListOfUser(BaseModel):
    """A list, and whose it is: a user's, or that of the history or profile at this place.

    Of several users each may have another variant; then every list says which.
    """

    model: str | None = None
    variant: AnsweringVariant = None
    user_id: int | str | None = None
    history: int | None = None
    profile: int | None = None
    fallback: Fallback = None
    items: list[Ranked]


class ManyLists(BaseModel):
    """Lists in the order in which they were asked for.

    Model and variant are null where the lists come from more than one.
    """

    model: str | None
    variant: AnsweringVariant = None
    lists: list[ListOfUser]


class Similar(BaseModel):
    """One item that is like another."""

    similar_id: int | str
    similar_name: str | None = None
    score: float
    rank: int
    attributes: Attributes = None


class SimilarItems(BaseModel):
    """The items most like one item."""

    model: str
    variant: AnsweringVariant = None
    item_id: int | str
    items: list[Similar]


class Item(BaseModel):
    """An item of the catalogue."""

    item_id: int | str
    item_name: str | None = None
    attributes: Attributes = None


class Items(BaseModel):
    """What a search found."""

    model: str
    variant: AnsweringVariant = None
    items: list[Item]


class User(BaseModel):
    """A user, and how many items they had in training."""

    user_id: int | str
    n_items: int


class Users(BaseModel):
    """What a search for users found."""

    model_config = _examples({"model": _MODEL, "users": [{"user_id": "ada", "n_items": 2}]})

    model: str
    variant: AnsweringVariant = None
    users: list[User]


class HistoryOfUser(BaseModel):
    """What a user had in training: how many items, and the first of them."""

    model: str
    variant: AnsweringVariant = None
    user_id: int | str
    n_items: int
    items: list[Item]


class Contribution(Item):
    """An item of a history, and how much lower the score would be without it."""

    contribution: float


class MemberShare(BaseModel):
    """A member of a blend, and its part of the score: the parts add up to it."""

    member: str
    weight: float
    contribution: float


class Why(Item):
    """The score of an item, and what each item of the history adds to it, the largest first."""

    model: str
    variant: AnsweringVariant = None
    score: float
    history: list[Contribution]
    members: Annotated[
        list[MemberShare] | None, Field(description="Only of a blend: the score by its members.")
    ] = None


class Place(Item):
    """An item on the map."""

    x: float
    y: float


class Map(BaseModel):
    """Items on a plane, and the share of the 10 nearest there that are among the 30 most alike.

    `kept_by_plane` is that share on the first two principal axes, which show the share `shown` of
    the variance; without a share the map is these axes.
    """

    model: str
    variant: AnsweringVariant = None
    n_items: int
    shown: float
    neighbours_kept: float | None = None
    kept_by_plane: float | None = None
    items: list[Place]


class VariantInUse(BaseModel):
    """A variant: its share of users in percent, and the version of its model."""

    name: str
    share: float
    model: str


class Kinds(BaseModel):
    """The attributes of items and of users, and of which kind each is."""

    items: dict[str, str]
    users: dict[str, str]


class Card(BaseModel):
    """What is known about the model in use, and what this server allows."""

    model: str
    variant: str
    variants: list[VariantInUse]
    attributes: Kinds
    filters: Annotated[dict[str, str], Field(description="Expressions that have a name.")]
    rules: Annotated[list[str], Field(description="Sets of rules that have a name.")]
    n_cold_items: Annotated[int, Field(description="Items that nobody has had.")]
    members: Annotated[
        list[dict[str, Any]], Field(description="What an automatic choice was made of.")
    ]
    kind: str
    n_users: int
    n_items: int
    loaded_at: float
    ratiorec: str
    settings: dict[str, Any]
    card: dict[str, Any]
    limits: dict[str, float]
    user_search: bool


class ReloadedVariant(BaseModel):
    """What became of one variant."""

    name: str
    model: str
    swapped: bool


class Reloaded(BaseModel):
    """What became of a wish to reload; the first model, and each."""

    model: str
    swapped: bool
    variants: list[ReloadedVariant]


class Problem(BaseModel):
    """A refusal: what is wrong, where, what was found there, what would have been right."""

    model_config = _examples(
        {
            "what": "1 unknown user id(s)",
            "where": "user ids",
            "found": "'eve'",
            "wanted": "one of the 3 known users, or on_unknown=fallback",
        }
    )

    what: str
    where: str
    found: str
    wanted: str


class Health(BaseModel):
    """Whether the process lives, or is ready for requests."""

    status: str
