"""Schemas of requests and answers, for checking the first and describing both."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from ratiorec.model.query import Query

Id = StrictInt | StrictStr
Ids = Annotated[list[Id], Field(max_length=100_000)]
Listed = Annotated[list[Id] | None, Field(max_length=100_000)]
_MODEL = "9f2c1f0b6f5d4c3a"


def _examples(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


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

    def query(self) -> Query:
        """The query with these options."""
        return Query(**{name: getattr(self, name) for name in QueryFields.model_fields})


class UserQuery(QueryFields):
    """The parameters of a request about one user, who cannot be left out."""

    model_config = ConfigDict(extra="forbid")

    on_unknown: Annotated[
        Literal["raise", "fallback"], Field(description="An unknown user: 404, or the popular.")
    ] = "raise"


class LengthQuery(BaseModel):
    """The parameter of a request for the first of many."""

    model_config = ConfigDict(extra="forbid")

    k: Annotated[int, Field(ge=1, description="How many at most; GET /v1/model has the limit.")] = (
        20
    )


class HistoryQuery(LengthQuery):
    """The parameter of a request for the items that a user had."""

    k: Annotated[int, Field(ge=1, description="Items at most; GET /v1/model has the limit.")] = 100


class SearchQuery(LengthQuery):
    """The parameters of a search."""

    query: Annotated[
        str, Field(max_length=200, description="Part of an id or name.", examples=["tea"])
    ] = ""


class MapQuery(BaseModel):
    """The parameter of a request for places on the map."""

    model_config = ConfigDict(extra="forbid")

    item: Annotated[list[str] | None, Field(description="Item ids; repeat the parameter.")] = None


class RecommendRequest(QueryFields):
    """Users that the model knows, or histories of users that it has never seen."""

    # strict, as JSON has types of its own; an address has none
    model_config = ConfigDict(extra="forbid", strict=True) | _examples(
        {"users": ["ada", "bob"], "k": 20},
        {"histories": [["tea", "jam"], ["oats"]], "k": 20, "on_unknown": "skip"},
    )

    users: Annotated[Ids | None, Field(min_length=1, description="Ids of known users.")] = None
    histories: Annotated[
        list[Ids] | None,
        Field(min_length=1, description="The items of each user that was never seen."),
    ] = None

    @model_validator(mode="after")
    def _users_or_histories(self) -> Self:
        if (self.users is None) == (self.histories is None):
            raise ValueError("either users or histories, and not both")
        return self


class WhyRequest(BaseModel):
    """A history, and an item that was recommended for it."""

    model_config = ConfigDict(extra="forbid") | _examples(
        {"history": ["tea", "jam"], "item": "oats"}
    )

    history: Annotated[Ids, Field(min_length=1, description="The items of a user.")]
    item: Annotated[Id, Field(description="The item to be explained.")]


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
    user_id: int | str
    fallback: Fallback = None
    items: list[Ranked]


class ListOfUser(BaseModel):
    """A list, and whose it is: a user's, or that of the history at this place."""

    user_id: int | str | None = None
    history: int | None = None
    fallback: Fallback = None
    items: list[Ranked]


class ManyLists(BaseModel):
    """Lists in the order in which they were asked for."""

    model: str
    lists: list[ListOfUser]


class Similar(BaseModel):
    """One item that is like another."""

    similar_id: int | str
    similar_name: str | None = None
    score: float
    rank: int


class SimilarItems(BaseModel):
    """The items most like one item."""

    model: str
    item_id: int | str
    items: list[Similar]


class Item(BaseModel):
    """An item of the catalogue."""

    item_id: int | str
    item_name: str | None = None


class Items(BaseModel):
    """What a search found."""

    model: str
    items: list[Item]


class User(BaseModel):
    """A user, and how many items they had in training."""

    user_id: int | str
    n_items: int


class Users(BaseModel):
    """What a search for users found."""

    model_config = _examples({"model": _MODEL, "users": [{"user_id": "ada", "n_items": 2}]})

    model: str
    users: list[User]


class HistoryOfUser(BaseModel):
    """What a user had in training: how many items, and the first of them."""

    model: str
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
    n_items: int
    shown: float
    neighbours_kept: float | None = None
    kept_by_plane: float | None = None
    items: list[Place]


class Card(BaseModel):
    """What is known about the model in use, and what this server allows."""

    model: str
    kind: str
    n_users: int
    n_items: int
    loaded_at: float
    ratiorec: str
    settings: dict[str, Any]
    card: dict[str, Any]
    limits: dict[str, float]
    user_search: bool


class Reloaded(BaseModel):
    """What became of a wish to reload."""

    model: str
    swapped: bool


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
