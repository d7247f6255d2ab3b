"""Schemas of answers, by which they are described."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ratiorec.serve.requests import examples

_MODEL = "9f2c1f0b6f5d4c3a"

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

    model_config = examples(
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

    model_config = examples({"model": _MODEL, "users": [{"user_id": "ada", "n_items": 2}]})

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
    limits: Annotated[dict[str, float | None], Field(description="null where there is none.")]
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

    model_config = examples(
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
